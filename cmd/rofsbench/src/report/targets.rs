//! What is to be reached, and whether it is.

use std::fmt::Write;

use super::SUBJECT;
use super::figures::Figures;
use super::markdown::{mib, seconds};
use crate::workload::State::{self, Cold, Fresh, Warm};
use crate::workload::list::{self, LAYER_FILES, LAYERS};

/// Smaller differences between medians are noise, so this is parity.
const PARITY: f64 = 0.95;
/// Within 15 % of the plain directory.
const NEAR: f64 = 1.0 / 1.15;
/// At most one and a half times as long.
const CLOSE: f64 = 1.0 / 1.5;

/// Bytes and files of a root filesystem that is large enough.
const LARGE: (u64, u64) = (1_000_000_000, 25_000);

/// How many times faster than which others.
struct Target {
    workload: &'static str,
    state: State,
    /// A system's name; with `*` at its end, all whose names begin so.
    against: &'static str,
    least: f64,
}

const fn target(workload: &'static str, state: State, against: &'static str, least: f64) -> Target {
    Target { workload, state, against, least }
}

const TARGETS: [Target; 27] = [
    target("ls-lR", Cold, "squashfuse_ll", 5.0),
    target("ls-lR", Warm, "squashfuse_ll", 8.0),
    target("ls-lR", Cold, "squashfs", 1.2),
    target("ls-lR", Warm, "squashfs", PARITY),
    target("t1", Warm, "squashfuse_ll", 3.0),
    target("t1", Warm, "directory", NEAR),
    target("t4", Warm, "squashfuse_ll", 3.0),
    target("t4", Warm, "directory", NEAR),
    target("read-1", Cold, "squashfuse_ll", 3.0),
    target("read-1", Cold, "squashfs", 2.0),
    target("read-4", Cold, "squashfuse_ll", 3.5),
    target("read-4", Cold, "squashfs", 2.0),
    target("seq", Cold, "squashfuse_ll", 1.7),
    target("seq", Cold, "squashfs", 1.5),
    target("seq", Warm, "squashfuse_ll", PARITY),
    target("seq", Warm, "squashfs", PARITY),
    target("rand4k", Cold, "squashfuse_ll", 8.0),
    target("rand4k", Cold, "squashfs", 1.2),
    target("sparse", Cold, "squashfuse_ll", 2.0),
    target("sparse", Cold, "squashfs", 1.5),
    // A newer and threaded one, by --tool.
    target("read-1", Cold, "squashfuse_ll@*", 1.7),
    target("read-4", Cold, "squashfuse_ll@*", 1.7),
    target("read-1", Warm, "squashfuse_ll@*", 2.0),
    target("read-4", Warm, "squashfuse_ll@*", 2.0),
    target("ls-lR", Cold, "squashfuse_ll@*", 4.0),
    target("ls-lR", Warm, "squashfuse_ll@*", 4.0),
    target("rand4k", Cold, "squashfuse_ll@*", 3.0),
];

/// With one capability in the image.
const WITH_CAPABILITY: [Target; 2] =
    [target("ls-lR", Cold, "squashfuse_ll", 2.0), target("ls-lR", Warm, "squashfuse_ll", 2.0)];

/// Where one processor is all there is.
const ONE_PROCESSOR: [Target; 2] =
    [target("read-1", Cold, "squashfuse_ll", 1.0), target("read-1", Warm, "squashfuse_ll", 1.0)];

/// Rows where EROFS is the goal and puzzlefs a lower bound.
const ROWS: [(&str, State); 10] = [
    ("ls-lR", Cold),
    ("ls-lR", Warm),
    ("t1", Warm),
    ("t4", Warm),
    ("read-1", Cold),
    ("read-4", Cold),
    ("seq", Cold),
    ("seq", Warm),
    ("rand4k", Cold),
    ("sparse", Cold),
];

/// The tables.
pub fn markdown(figures: &Figures<'_>) -> String {
    let mut text = String::new();
    for corpus in ["debian", "random"] {
        let Some(info) = figures.results.corpora.iter().find(|info| info.name == corpus) else {
            continue;
        };
        head(&mut text, &format!("Targets, {corpus}"));
        let one = (figures.results.options.cpus == 1).then_some(&ONE_PROCESSOR);
        for target in TARGETS.iter().chain(one.into_iter().flatten()) {
            row(&mut text, figures, corpus, target);
        }
        if corpus == "debian" && (info.bytes < LARGE.0 || info.files < LARGE.1) {
            let _ = writeln!(
                text,
                "\nThe tree is smaller than it should be: {} files, {} bytes.",
                info.files, info.bytes
            );
        }
        if info.with_xattrs > 0 {
            let _ = writeln!(
                text,
                "\n{} files of the tree have extended attributes: `ls -lR` is not that of a tree \
                 without.",
                info.with_xattrs
            );
        }
        goals(&mut text, figures, corpus);
    }
    if figures.results.corpora.iter().any(|info| info.name == "debian-cap") {
        head(&mut text, "Targets, one capability in the image");
        WITH_CAPABILITY.iter().for_each(|target| row(&mut text, figures, "debian-cap", target));
    }
    mounting(&mut text, figures);
    let _ = writeln!(
        text,
        "\nMeasured: how many times as long the other one takes, by medians. Parity is at least \
         {PARITY}; \"within 15 %\" is at least {NEAR:.2}, \"within 1.5 times\" at least {CLOSE:.2}."
    );
    text
}

fn head(text: &mut String, title: &str) {
    let _ = write!(
        text,
        "\n### {title}\n\n\
         | workload | caches | against | at least | measured | |\n\
         |---|---|---|---:|---:|---|\n"
    );
}

/// One row for each system that a target is against; none at all when a target
/// for several meets no system.
fn row(text: &mut String, figures: &Figures<'_>, corpus: &str, target: &Target) {
    for against in systems(figures, target.against) {
        let Target { workload, state, least, .. } = *target;
        let ratio = figures.ratio(corpus, workload, state, SUBJECT, &against);
        let title = list::named(workload).map_or(workload, |row| row.title);
        let (measured, verdict) = match ratio {
            None => ("–".to_owned(), "not measured"),
            Some(ratio) if ratio >= least => (format!("{ratio:.2}"), "met"),
            Some(ratio) => (format!("{ratio:.2}"), "**missed**"),
        };
        let state = state.name();
        let _ = writeln!(
            text,
            "| {title} | {state} | {against} | {least:.2} | {measured} | {verdict} |"
        );
    }
}

/// Rows against EROFS and puzzlefs, if they were measured.
fn goals(text: &mut String, figures: &Figures<'_>, corpus: &str) {
    let mut rows = String::new();
    for (against, factors) in [("erofs*", (CLOSE, PARITY)), ("puzzlefs*", (2.0, 2.0))] {
        for (workload, state) in ROWS {
            let least = if state == Warm { factors.1 } else { factors.0 };
            row(&mut rows, figures, corpus, &Target { workload, state, against, least });
        }
    }
    if !rows.is_empty() {
        head(text, &format!("Goals, {corpus}"));
        text.push_str(&rows);
    }
}

/// Absolute figures: how soon mounts answer, and what an idle one holds.
fn mounting(text: &mut String, figures: &Figures<'_>) {
    let results = figures.results;
    let files =
        |name: &str| results.corpora.iter().find(|info| info.name == name).map(|info| info.files);
    let (layers, million) = (files("layers"), files("million"));
    if layers.is_none() && million.is_none() {
        return;
    }
    text.push_str(
        "\n### Targets, mounting\n\n| what | at most | measured | |\n|---|---:|---:|---|\n",
    );
    let mut line = |what: &str,
                    most: f64,
                    measured: Option<f64>,
                    unit: &dyn Fn(f64) -> String,
                    is_full: bool| {
        let verdict = match measured {
            None => "not measured",
            Some(_) if !is_full => "image too small to tell",
            Some(measured) if measured < most => "met",
            Some(_) => "**missed**",
        };
        let measured = measured.map_or("–".to_owned(), unit);
        let _ = writeln!(text, "| {what} | {} | {measured} | {verdict} |", unit(most));
    };
    let wall = |corpus: &str, workload: &str| {
        figures.wall(corpus, workload, Fresh, SUBJECT).map(|summary| summary.median)
    };
    let time = |value: f64| format!("{} s", seconds(value));
    let has_layers = layers == Some(LAYER_FILES * u64::from(LAYERS));
    let has_million = million == Some(1_000_000);
    let layers_text = format!("mount of {LAYERS} layers, {} files", layers.unwrap_or(0));
    line(&layers_text, 0.01, wall("layers", "ready-layers"), &time, has_layers);
    let million_text = format!("mount of {} files", million.unwrap_or(0));
    line(&million_text, 0.01, wall("million", "ready-million"), &time, has_million);
    line("128 mounts at once", 1.0, wall("layers", "mounts-128"), &time, has_layers);
    let idle = |corpus: &str, workload: &str| {
        figures.median(corpus, workload, Fresh, SUBJECT, |sample| {
            sample.memory_before.map(|memory| memory.resident as f64)
        })
    };
    let bytes = |value: f64| mib(value);
    let most = f64::from(8u32 << 20);
    line(
        "memory of an idle mount, layers",
        most,
        idle("layers", "ready-layers"),
        &bytes,
        has_layers,
    );
    line(
        "memory of an idle mount, many files",
        most,
        idle("million", "ready-million"),
        &bytes,
        has_million,
    );
}

/// Names that a pattern stands for. One that names a single system is always
/// there, measured or not.
fn systems(figures: &Figures<'_>, pattern: &str) -> Vec<String> {
    let Some(start) = pattern.strip_suffix('*') else { return vec![pattern.to_owned()] };
    let names = figures.results.systems.iter().map(|system| &system.name);
    names.filter(|name| name.starts_with(start)).cloned().collect()
}
