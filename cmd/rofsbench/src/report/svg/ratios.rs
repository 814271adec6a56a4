//! One line for each workload, one mark for each system: how many times as long
//! it takes as the subject.

use super::scale::{label, logarithmic};
use super::{Anchor, GREY, GRID, INK, Style, Svg};

const WIDTH: f64 = 960.0;
const MARGIN: f64 = 20.0;
const NAMES: f64 = 260.0;
const PITCH: f64 = 28.0;
const HEAD: f64 = 66.0;
const LEGEND: f64 = 22.0;
const BELOW: f64 = 52.0;
const RADIUS: f64 = 5.5;

/// A system with its marks.
pub struct Series {
    pub name: String,
    pub colour: &'static str,
    /// For each row; none where nothing was measured.
    pub ratios: Vec<Option<f64>>,
}

/// Draws rows with the marks of all series on one logarithmic axis.
pub fn draw(title: &str, subtitle: &str, axis: &str, rows: &[String], series: &[Series]) -> String {
    let all = || series.iter().flat_map(|each| each.ratios.iter().flatten().copied());
    let all = || all().filter(|ratio| *ratio > 0.0 && ratio.is_finite());
    let least = all().fold(0.5f64, f64::min) / 1.1;
    let most = all().fold(2.0f64, f64::max) * 1.1;
    let (start, length) = (MARGIN + NAMES, WIDTH - 2.0 * MARGIN - NAMES);
    let x = |ratio: f64| start + (ratio / least).ln() / (most / least).ln() * length;
    let per_line = 5;
    let legend = series.len().div_ceil(per_line) as f64 * LEGEND;
    let first = HEAD + legend;
    let bottom = first + rows.len() as f64 * PITCH;
    let mut svg = Svg::new(WIDTH, bottom + BELOW, title);
    svg.text(MARGIN, 30.0, Style::TITLE, title);
    svg.text(MARGIN, 48.0, Style::NOTE, subtitle);
    for (index, each) in series.iter().enumerate() {
        let left = MARGIN + (index % per_line) as f64 * 184.0;
        let y = HEAD + (index / per_line) as f64 * LEGEND;
        mark(&mut svg, index, left + RADIUS, y, each.colour);
        svg.text(left + 18.0, y + 4.0, Style::LABEL, &each.name);
    }
    for tick in logarithmic(least, most) {
        svg.line([x(tick), first, x(tick), bottom + 4.0], GRID, 1.0);
        svg.text(x(tick), bottom + 17.0, Style::NOTE.at(Anchor::Middle), &label(tick));
    }
    svg.line([x(1.0), first, x(1.0), bottom + 4.0], INK, 1.5);
    let style = Style::NOTE.at(Anchor::Middle);
    svg.text(start + length / 2.0, bottom + 38.0, style, axis);
    for (index, name) in rows.iter().enumerate() {
        let y = first + (index as f64 + 0.5) * PITCH;
        svg.text(start - 12.0, y + 4.0, Style::LABEL.at(Anchor::End), name);
        svg.line([start, y, start + length, y], GRID, 0.5);
        for (number, each) in series.iter().enumerate() {
            if let Some(Some(ratio)) = each.ratios.get(index)
                && *ratio > 0.0
                && ratio.is_finite()
            {
                mark(&mut svg, number, x(*ratio), y, each.colour);
            }
        }
    }
    svg.line([start, bottom, start + length, bottom], GREY, 1.0);
    svg.finish()
}

/// A shape that goes with the number, so that colour is not all that tells.
fn mark(svg: &mut Svg, number: usize, x: f64, y: f64, colour: &str) {
    let r = RADIUS;
    match number % 4 {
        0 => svg.circle(x, y, r, colour),
        1 => svg.polygon(&[(x - r, y - r), (x + r, y - r), (x + r, y + r), (x - r, y + r)], colour),
        2 => svg.polygon(
            &[(x, y - r * 1.3), (x + r * 1.3, y), (x, y + r * 1.3), (x - r * 1.3, y)],
            colour,
        ),
        _ => svg.polygon(&[(x, y - r * 1.2), (x + r * 1.2, y + r), (x - r * 1.2, y + r)], colour),
    }
}
