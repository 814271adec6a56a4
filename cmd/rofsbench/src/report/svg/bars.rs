//! Small charts of bars beside each other, each with an axis of its own.

use super::scale::{label, linear};
use super::{Anchor, GREY, GRID, INK, Style, Svg};

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 20.0;
const GAP: f64 = 30.0;
const BAR: f64 = 13.0;
const PITCH: f64 = 18.0;
/// For the names of the systems, and for the numbers at the bars' ends.
const NAMES: f64 = 138.0;
const NUMBERS: f64 = 62.0;
/// Above and below the bars of a panel.
const ABOVE: f64 = 26.0;
const BELOW: f64 = 46.0;
const HEAD: f64 = 62.0;

/// A bar.
pub struct Bar {
    pub name: String,
    pub colour: &'static str,
    /// Its length, in the panel's unit.
    pub value: f64,
    /// Ends of the line over it.
    pub low: f64,
    pub high: f64,
    /// Number at its end.
    pub text: String,
}

/// A chart.
pub struct Panel {
    pub title: String,
    /// Of the axis.
    pub unit: String,
    pub bars: Vec<Bar>,
}

/// Draws panels in two columns.
pub fn draw(title: &str, subtitle: &str, panels: &[Panel]) -> String {
    let column = (WIDTH - 2.0 * MARGIN - GAP) / 2.0;
    let rows: Vec<&[Panel]> = panels.chunks(2).collect();
    let tall = |row: &[Panel]| {
        let bars = row.iter().map(|panel| panel.bars.len()).max().unwrap_or(0);
        ABOVE + bars as f64 * PITCH + BELOW
    };
    let height = HEAD + rows.iter().map(|row| tall(row)).sum::<f64>() + MARGIN / 2.0;
    let mut svg = Svg::new(WIDTH, height, title);
    svg.text(MARGIN, 30.0, Style::TITLE, title);
    svg.text(MARGIN, 48.0, Style::NOTE, subtitle);
    let mut top = HEAD;
    for row in rows {
        for (index, each) in row.iter().enumerate() {
            panel(&mut svg, each, MARGIN + index as f64 * (column + GAP), top, column);
        }
        top += tall(row);
    }
    svg.finish()
}

fn panel(svg: &mut Svg, panel: &Panel, left: f64, top: f64, width: f64) {
    svg.text(left, top + 14.0, Style::HEAD, &panel.title);
    let (start, length) = (left + NAMES, width - NAMES - NUMBERS);
    let end = limit(&panel.bars);
    let x = |value: f64| start + value.min(end) / end * length;
    let (first, bottom) = (top + ABOVE, top + ABOVE + panel.bars.len() as f64 * PITCH);
    for tick in linear(end, 4.0) {
        svg.line([x(tick), first, x(tick), bottom + 4.0], GRID, 1.0);
        let style = Style::NOTE.at(Anchor::Middle);
        svg.text(x(tick), bottom + 16.0, style, &label(tick));
    }
    let style = Style::NOTE.at(Anchor::Middle);
    svg.text(start + length / 2.0, bottom + 30.0, style, &panel.unit);
    for (index, bar) in panel.bars.iter().enumerate() {
        let y = first + index as f64 * PITCH + (PITCH - BAR) / 2.0;
        let (middle, base) = (y + BAR / 2.0, y + BAR - 2.5);
        svg.text(start - 6.0, base, Style::LABEL.at(Anchor::End), &bar.name);
        svg.rect([start, y, (x(bar.value) - start).max(1.0), BAR], bar.colour);
        let mut tip = x(bar.value);
        if bar.value > end {
            // It is longer than the axis.
            for offset in [14.0, 19.0] {
                let at = tip - offset;
                svg.line([at, y + BAR, at + 5.0, y], "#ffffff", 2.0);
            }
        } else if bar.high > bar.low {
            svg.line([x(bar.low), middle, x(bar.high), middle], INK, 1.0);
            for edge in [bar.low, bar.high] {
                svg.line([x(edge), middle - 3.0, x(edge), middle + 3.0], INK, 1.0);
            }
            tip = tip.max(x(bar.high));
        }
        svg.text(tip + 5.0, base, Style { colour: INK, ..Style::NOTE }, &bar.text);
    }
    svg.line([start, first, start, bottom], GREY, 1.0);
}

/// Where the axis ends: at the longest bar, unless that is several times as long
/// as the next one and would make all others short.
fn limit(bars: &[Bar]) -> f64 {
    let mut values: Vec<f64> = bars.iter().map(|bar| bar.value).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    let most = bars.iter().map(|bar| bar.high.max(bar.value)).fold(0.0, f64::max);
    let end = match *values {
        [longest, next, ..] if longest > 6.0 * next && next > 0.0 => next * 1.3,
        _ => most,
    };
    if end > 0.0 && end.is_finite() { end } else { 1.0 }
}
