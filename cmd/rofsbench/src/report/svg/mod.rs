//! A writer of SVG, as much as the plots need.

pub mod bars;
pub mod ratios;
mod scale;

use std::fmt::Write;

/// Where a text's given point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Pixels.
    pub size: f64,
    pub is_bold: bool,
    pub colour: &'static str,
    pub anchor: Anchor,
}

impl Style {
    /// Of labels.
    pub const LABEL: Self = Self { size: 12.0, is_bold: false, colour: INK, anchor: Anchor::Start };
    /// Of notes and axes.
    pub const NOTE: Self = Self { size: 11.0, colour: GREY, ..Self::LABEL };
    /// Of headings.
    pub const HEAD: Self = Self { size: 13.0, is_bold: true, ..Self::LABEL };
    /// Of the title.
    pub const TITLE: Self = Self { size: 17.0, is_bold: true, ..Self::LABEL };

    /// The same at another anchor.
    pub fn at(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }
}

/// Colour of text.
pub const INK: &str = "#1f2328";
/// Colour of what is less important.
pub const GREY: &str = "#57606a";
/// Colour of grid lines.
pub const GRID: &str = "#d8dee4";
const PAPER: &str = "#ffffff";

/// A picture being drawn; lengths are pixels from the top left.
pub struct Svg {
    text: String,
}

impl Svg {
    /// An empty picture with a title for those who do not see it.
    pub fn new(width: f64, height: f64, title: &str) -> Self {
        let mut svg = Self { text: String::new() };
        let _ = write!(
            svg.text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" \
             font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n<title>{}</title>\n",
            escape(title)
        );
        svg.rect([0.0, 0.0, width, height], PAPER);
        svg
    }

    /// A filled rectangle: left, top, width, height.
    pub fn rect(&mut self, [x, y, width, height]: [f64; 4], fill: &str) {
        let _ = writeln!(
            self.text,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{}\"/>",
            escape(fill)
        );
    }

    /// A line from one point to another.
    pub fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], stroke: &str, width: f64) {
        let _ = writeln!(
            self.text,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{}\" \
             stroke-width=\"{width:.1}\"/>",
            escape(stroke)
        );
    }

    /// A filled polygon.
    pub fn polygon(&mut self, points: &[(f64, f64)], fill: &str) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.text,
            "<polygon points=\"{}\" fill=\"{}\" stroke=\"{PAPER}\" stroke-width=\"0.8\"/>",
            points.join(" "),
            escape(fill)
        );
    }

    /// A filled circle.
    pub fn circle(&mut self, x: f64, y: f64, radius: f64, fill: &str) {
        let _ = writeln!(
            self.text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\" fill=\"{}\" stroke=\"{PAPER}\" \
             stroke-width=\"0.8\"/>",
            escape(fill)
        );
    }

    /// Text on the line `y`.
    pub fn text(&mut self, x: f64, y: f64, style: Style, text: &str) {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if style.is_bold { " font-weight=\"bold\"" } else { "" };
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{:.0}\"{weight} text-anchor=\"{anchor}\" \
             fill=\"{}\">{}</text>",
            style.size,
            style.colour,
            escape(text)
        );
    }

    /// The file's text.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Text that is no markup; characters that XML does not allow are left out.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            _ if character.is_control() => {}
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
