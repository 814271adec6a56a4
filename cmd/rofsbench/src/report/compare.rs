//! Two runs beside each other.

use std::fmt::Write;

use super::SUBJECT;
use super::figures::Figures;
use super::markdown::seconds;
use crate::results::Results;
use crate::stats::{Summary, median};
use crate::workload::{State, list};

/// A median that changed.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub corpus: String,
    pub workload: String,
    pub state: State,
    pub system: String,
    /// Medians, in seconds.
    pub old: f64,
    pub new: f64,
}

impl Change {
    /// Above 1: slower.
    pub fn ratio(&self) -> f64 {
        self.new / self.old
    }
}

/// Which way a row went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Slower,
    Faster,
    Same,
}

/// Slower: the median grew by more than so many percent, and not even the
/// fastest new run is as fast as the old median; faster is the same turned round.
fn verdict(old: &Summary, new: &Summary, percent: f64) -> Verdict {
    let factor = 1.0 + percent / 100.0;
    if new.median > old.median * factor && new.min > old.median {
        Verdict::Slower
    } else if old.median > new.median * factor && new.max < old.median {
        Verdict::Faster
    } else {
        Verdict::Same
    }
}

/// Rows that became slower, and those that became faster; the largest change first.
pub fn changes(old: &Results, new: &Results, percent: f64) -> (Vec<Change>, Vec<Change>) {
    let (mut slower, mut faster) = (Vec::new(), Vec::new());
    for (change, verdict) in pairs(old, new, percent) {
        match verdict {
            Verdict::Slower => slower.push(change),
            Verdict::Faster => faster.push(change),
            Verdict::Same => {}
        }
    }
    slower.sort_by(|a, b| b.ratio().total_cmp(&a.ratio()));
    faster.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    (slower, faster)
}

/// All rows that both have.
fn pairs(old: &Results, new: &Results, percent: f64) -> Vec<(Change, Verdict)> {
    let old = Figures::new(old);
    let pair = |((corpus, workload, state, system), now): ((&str, &str, State, &str), Summary)| {
        let before = old.wall(corpus, workload, state, system)?;
        let change = Change {
            corpus: corpus.to_owned(),
            workload: workload.to_owned(),
            state,
            system: system.to_owned(),
            old: before.median,
            new: now.median,
        };
        Some((change, verdict(&before, &now, percent)))
    };
    Figures::new(new).walls().filter_map(pair).collect()
}

/// The comparison as a page.
pub fn markdown(old: &Results, new: &Results, percent: f64) -> String {
    let mut text = format!("## Compared with the run of {}\n", old.started);
    for warning in differences(old, new) {
        let _ = writeln!(text, "\n**{warning}**: the figures are not of the same thing.");
    }
    drift(&mut text, old, new);
    let (slower, faster) = changes(old, new, percent);
    let all = pairs(old, new, percent).len();
    for (title, changes) in [("Slower", slower), ("Faster", faster)] {
        let _ = writeln!(
            text,
            "\n### {title} by more than {percent} %: {} of {all} rows\n",
            changes.len()
        );
        if changes.is_empty() {
            continue;
        }
        text.push_str("| tree | workload | caches | system | before | now | now / before |\n");
        text.push_str("|---|---|---|---|---:|---:|---:|\n");
        for change in changes {
            let title = list::named(&change.workload).map_or(&*change.workload, |row| row.title);
            let (corpus, state, system) = (&change.corpus, change.state.name(), &change.system);
            let system = if system == SUBJECT { format!("**{system}**") } else { system.clone() };
            let _ = writeln!(
                text,
                "| {corpus} | {title} | {state} | {system} | {} | {} | {:.2} |",
                seconds(change.old),
                seconds(change.new),
                change.ratio()
            );
        }
    }
    text
}

/// What makes a comparison doubtful.
fn differences(old: &Results, new: &Results) -> Vec<String> {
    let mut found = Vec::new();
    if old.machine != new.machine {
        found.push("Another machine, kernel or number of processors".to_owned());
    }
    let scale = |results: &Results| {
        let options = &results.options;
        (options.block_size, options.read_block, options.level, options.drops_caches, options.seed)
    };
    if scale(old) != scale(new) {
        found.push("Other options".to_owned());
    }
    for info in &new.corpora {
        let before = old.corpora.iter().find(|before| before.name == info.name);
        if before.is_some_and(|before| before.digest != info.digest) {
            found.push(format!("Another tree {}", info.name));
        }
    }
    found
}

/// By how much each system changed over all rows: what peers show, which did not
/// change themselves, is the machine's doing.
fn drift(text: &mut String, old: &Results, new: &Results) {
    let pairs = pairs(old, new, 0.0);
    text.push_str("\n| system | median of now / before, all rows |\n|---|---:|\n");
    for system in &new.systems {
        let own = pairs.iter().filter(|(change, _)| change.system == system.name);
        let ratios: Vec<_> = own.map(|(change, _)| change.ratio()).collect();
        if let Some(median) = median(&ratios) {
            let _ = writeln!(text, "| {} | {median:.2} |", system.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Verdict, changes, markdown, verdict};
    use crate::machine::Machine;
    use crate::results::{Results, Sample, Settings};
    use crate::stats::Summary;
    use crate::workload::State;

    fn results(walls: &[(&str, &[f64])]) -> Results {
        let options = Settings {
            rounds: 3,
            slow_rounds: 1,
            seed: 1,
            block_size: 131_072,
            read_block: 131_072,
            level: 9,
            drops_caches: true,
            cpus: 2,
        };
        let mut results = Results::new("then".to_owned(), Machine::default(), options);
        for (workload, walls) in walls {
            for (round, wall) in (1..).zip(*walls) {
                results.samples.push(Sample {
                    corpus: "random".to_owned(),
                    workload: (*workload).to_owned(),
                    state: State::Cold,
                    system: "microfs".to_owned(),
                    round,
                    wall: *wall,
                    client_cpu: 0.0,
                    server_cpu: None,
                    system_cpu: 0.0,
                    bytes: 0,
                    operations: 0,
                    memory_before: None,
                    memory_after: None,
                });
            }
        }
        results
    }

    #[test]
    fn noise_is_no_change() {
        let of = |samples: &[f64]| Summary::of(samples).unwrap();
        let old = of(&[1.0, 1.0, 1.1]);
        assert_eq!(verdict(&old, &of(&[1.2, 1.3, 1.4]), 10.0), Verdict::Slower);
        assert_eq!(verdict(&old, &of(&[0.9, 1.3, 1.4]), 10.0), Verdict::Same);
        assert_eq!(verdict(&old, &of(&[1.04, 1.05, 1.06]), 10.0), Verdict::Same);
        assert_eq!(verdict(&old, &of(&[0.5, 0.6, 0.7]), 10.0), Verdict::Faster);
        assert_eq!(verdict(&old, &of(&[0.5, 0.6, 1.7]), 10.0), Verdict::Same);
        assert_eq!(verdict(&old, &old, 0.0), Verdict::Same);
    }

    #[test]
    fn the_worst_is_first_and_new_rows_are_left_out() {
        let old = results(&[("seq", &[1.0]), ("tar", &[1.0]), ("t0", &[2.0])]);
        let new = results(&[("seq", &[1.5]), ("tar", &[3.0]), ("t0", &[1.0]), ("t1", &[9.0])]);
        let (slower, faster) = changes(&old, &new, 10.0);
        let names: Vec<_> = slower.iter().map(|change| change.workload.as_str()).collect();
        assert_eq!(names, ["tar", "seq"]);
        assert_eq!(slower[0].ratio(), 3.0);
        assert_eq!(faster.len(), 1);
        assert_eq!((faster[0].workload.as_str(), faster[0].ratio()), ("t0", 0.5));

        let text = markdown(&old, &new, 10.0);
        assert!(text.contains("Slower by more than 10 %: 2 of 3 rows"), "{text}");
        assert!(text.contains("| random | `tar c` | cold | **microfs** | 1.00 | 3.00 | 3.00 |"));
        assert!(!text.contains("not of the same thing"));
    }

    #[test]
    fn another_machine_is_told() {
        let old = results(&[("seq", &[1.0])]);
        let mut new = old.clone();
        new.machine.cpus = 64;
        assert!(markdown(&old, &new, 10.0).contains("not of the same thing"));
    }
}
