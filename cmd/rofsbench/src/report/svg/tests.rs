use std::io::Write;
use std::process::{Command, Stdio};

use super::bars::{Bar, Panel};
use super::ratios::Series;
use super::{Style, Svg, bars, ratios};

/// Names of elements and all text between them, as Python's expat parser finds
/// them; it refuses what is not well-formed.
fn parsed(svg: &str) -> String {
    let script = "import sys, xml.etree.ElementTree as tree\n\
                  for element in tree.parse(sys.stdin.buffer).iter():\n\
                  \x20   print(element.tag.split('}')[1], element.text or '')";
    let mut child = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(svg.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "not well-formed:\n{svg}");
    String::from_utf8(output.stdout).unwrap()
}

fn count(parsed: &str, element: &str) -> usize {
    parsed.lines().filter(|line| line.split(' ').next() == Some(element)).count()
}

#[test]
fn any_text_is_well_formed() {
    let mut svg = Svg::new(10.0, 10.0, "a < b & \"c\"");
    svg.text(1.0, 1.0, Style::LABEL, "<b>&amp;\u{1}\u{7f}é</b>");
    let found = parsed(&svg.finish());
    assert!(found.contains("title a < b & \"c\""), "{found}");
    assert!(found.contains("text <b>&amp;é</b>"), "{found}");
}

fn bar(name: &str, value: f64) -> Bar {
    let (name, text) = (name.to_owned(), format!("{value:.2}"));
    Bar { name, colour: "#123456", value, low: value * 0.9, high: value * 1.1, text }
}

#[test]
fn bars_have_names_numbers_and_labelled_axes() {
    let panel = |title: &str, bars| Panel { title: title.to_owned(), unit: "seconds".into(), bars };
    let panels = [
        panel("one", vec![bar("microfs", 1.0), bar("other", 2.0)]),
        panel("two", vec![bar("microfs", 1.0), bar("slow", 50.0)]),
        panel("three", vec![bar("nothing", 0.0)]),
        panel("four", Vec::new()),
    ];
    let found = parsed(&bars::draw("Title", "subtitle", &panels));
    for text in ["Title", "one", "two", "microfs", "slow", "50.00", "seconds", "0.5"] {
        assert!(found.lines().any(|line| line == format!("text {text}")), "{text}: {found}");
    }
    // Paper and five bars.
    assert_eq!(count(&found, "rect"), 6);
    assert_eq!(found.matches("text seconds").count(), 4);
}

#[test]
fn every_ratio_has_its_mark() {
    let series = |name: &str, ratios| Series { name: name.to_owned(), colour: "#123456", ratios };
    let series = [
        series("circles", vec![Some(1.0), Some(30.0), None]),
        series("squares", vec![Some(0.2), None, Some(f64::INFINITY)]),
    ];
    let rows = ["a", "b", "c"].map(str::to_owned);
    let found = parsed(&ratios::draw("Title", "subtitle", "times", &rows, &series));
    // One of each is the legend's.
    assert_eq!((count(&found, "circle"), count(&found, "polygon")), (3, 2));
    for text in ["circles", "squares", "a", "b", "c", "times", "1", "20"] {
        assert!(found.lines().any(|line| line == format!("text {text}")), "{text}: {found}");
    }
}
