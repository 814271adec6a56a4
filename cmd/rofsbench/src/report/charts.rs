//! Which plots there are.

use super::SUBJECT;
use super::figures::Figures;
use super::markdown::{mib, seconds};
use super::svg::bars::{self, Bar, Panel};
use super::svg::ratios::{self, Series};
use crate::workload::State::{self, Cold, Fresh, Warm};
use crate::workload::{Group, list};

/// A picture.
pub struct Plot {
    /// Name of the file.
    pub file: String,
    pub title: String,
    /// The tree that it is of; none for one that stands for all.
    pub corpus: Option<String>,
    pub svg: String,
}

/// What the first picture shows.
const OVERVIEW: [(&str, State); 8] = [
    ("ls-lR", Cold),
    ("ls-lR", Warm),
    ("read-1", Cold),
    ("read-4", Cold),
    ("seq", Cold),
    ("rand4k", Cold),
    ("sparse", Cold),
    ("python", Cold),
];

/// All of them.
pub fn all(figures: &Figures<'_>) -> Vec<Plot> {
    let mut plots = Vec::new();
    let trees = || figures.results.corpora.iter().map(|info| info.name.as_str());
    let main = ["debian", "random"].into_iter().find(|name| trees().any(|tree| tree == *name));
    if let Some(corpus) = main {
        let panels = panels(figures, corpus, &OVERVIEW);
        if !panels.is_empty() {
            let title = format!("Reading a {corpus} tree");
            let svg = bars::draw(&title, &subtitle(figures), &panels);
            plots.push(Plot { file: "overview.svg".to_owned(), title, corpus: None, svg });
        }
    }
    for corpus in trees() {
        for group in Group::ALL {
            for state in [Cold, Fresh, Warm] {
                plots.extend(group_plot(figures, corpus, group, state));
            }
        }
        plots.extend(ratio_plot(figures, corpus));
    }
    plots
}

fn group_plot(figures: &Figures<'_>, corpus: &str, group: Group, state: State) -> Option<Plot> {
    let rows: Vec<_> =
        list::ALL.iter().filter(|row| row.group == group).map(|row| (row.name, state)).collect();
    let mut panels = panels(figures, corpus, &rows);
    if group == Group::Scale && state == Fresh {
        panels.extend(memory(figures, corpus));
    }
    if panels.is_empty() {
        return None;
    }
    let title = format!("{corpus}: {}, {}", group.title(), state.name());
    let svg = bars::draw(&title, &subtitle(figures), &panels);
    let file = format!("{corpus}-{}-{}.svg", group.name(), state.name());
    Some(Plot { file, title, corpus: Some(corpus.to_owned()), svg })
}

fn panels(figures: &Figures<'_>, corpus: &str, rows: &[(&str, State)]) -> Vec<Panel> {
    let mut panels = Vec::new();
    for (name, state) in rows {
        let bar = |system: &str| {
            let wall = figures.wall(corpus, name, *state, system)?;
            Some(Bar {
                name: system.to_owned(),
                colour: colour(system),
                value: wall.median,
                low: wall.min,
                high: wall.max,
                text: seconds(wall.median),
            })
        };
        let bars: Vec<_> = figures.systems(corpus).into_iter().filter_map(bar).collect();
        if let Some(workload) = list::named(name).filter(|_| !bars.is_empty()) {
            let title = format!("{}, {}", plain(workload.title), state.name());
            panels.push(Panel { title, unit: "seconds".to_owned(), bars });
        }
    }
    panels
}

/// Memory of idle servers.
fn memory(figures: &Figures<'_>, corpus: &str) -> Option<Panel> {
    let name = list::ALL.iter().find(|row| {
        row.group == Group::Scale
            && row.name != "mounts-128"
            && !figures.states(corpus, row.name).is_empty()
    })?;
    let bar = |system: &str| {
        let resident = figures.median(corpus, name.name, Fresh, system, |sample| {
            sample.memory_before.map(|memory| memory.resident as f64)
        })?;
        let value = resident / f64::from(1u32 << 20);
        Some(Bar {
            name: system.to_owned(),
            colour: colour(system),
            value,
            low: value,
            high: value,
            text: mib(resident).replace(" MiB", ""),
        })
    };
    let bars: Vec<_> = figures.systems(corpus).into_iter().filter_map(bar).collect();
    let title = "memory of an idle mount".to_owned();
    (!bars.is_empty()).then(|| Panel { title, unit: "resident MiB".to_owned(), bars })
}

fn ratio_plot(figures: &Figures<'_>, corpus: &str) -> Option<Plot> {
    let mut rows = Vec::new();
    for group in Group::ALL {
        for workload in list::ALL.iter().filter(|row| row.group == group) {
            for state in figures.states(corpus, workload.name) {
                if figures.wall(corpus, workload.name, state, SUBJECT).is_some() {
                    rows.push((workload, state));
                }
            }
        }
    }
    let series: Vec<_> = figures
        .systems(corpus)
        .into_iter()
        .filter(|system| *system != SUBJECT)
        .map(|system| Series {
            name: system.to_owned(),
            colour: colour(system),
            ratios: rows
                .iter()
                .map(|(row, state)| figures.ratio(corpus, row.name, *state, SUBJECT, system))
                .collect(),
        })
        .collect();
    if rows.is_empty() || series.is_empty() {
        return None;
    }
    let names: Vec<_> =
        rows.iter().map(|(row, state)| format!("{}, {}", plain(row.title), state.name())).collect();
    let title = format!("{corpus}: others beside microfs");
    let axis = "times as long as microfs takes (logarithmic): right of the line, microfs is faster";
    let svg = ratios::draw(&title, &conditions(figures), axis, &names, &series);
    let file = format!("{corpus}-ratios.svg");
    Some(Plot { file, title, corpus: Some(corpus.to_owned()), svg })
}

fn subtitle(figures: &Figures<'_>) -> String {
    format!("Less is better. Lines from fastest to slowest. {}", conditions(figures))
}

fn conditions(figures: &Figures<'_>) -> String {
    let options = &figures.results.options;
    format!(
        "Medians of {} rounds; {} processors; zstd level {} where a system has it, blocks of {} KiB.",
        options.rounds,
        options.cpus,
        options.level,
        options.block_size / 1024
    )
}

/// Without Markdown's marks.
fn plain(title: &str) -> String {
    title.replace('`', "")
}

/// Colours that differ for those who do not see all colours (Okabe and Ito's),
/// one for each family; labelled programs have darker ones.
fn colour(system: &str) -> &'static str {
    let (family, is_labelled) = match system.split_once('@') {
        Some((family, _)) => (family, true),
        None => (system, false),
    };
    match (family, is_labelled) {
        ("microfs", false) => "#d55e00",
        ("microfs", true) => "#8f3f00",
        ("squashfuse", _) => "#cc79a7",
        ("squashfuse_ll", false) => "#0072b2",
        ("squashfuse_ll", true) => "#003f63",
        ("squashfs", _) => "#56b4e9",
        ("erofs-lz4hc", _) => "#009e73",
        ("erofs-zstd", _) => "#00513b",
        ("erofsfuse", _) => "#e69f00",
        ("puzzlefs", _) => "#000000",
        _ => "#8c959f",
    }
}
