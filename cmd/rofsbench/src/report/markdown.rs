//! Tables.

use std::fmt::Write;

use super::charts::Plot;
use super::figures::Figures;
use super::{SUBJECT, targets};
use crate::results::{Results, Sample};
use crate::stats::Summary;
use crate::workload::{Group, State, Workload, list};

/// The whole report.
pub fn page(figures: &Figures<'_>, plots: &[Plot]) -> String {
    let results = figures.results;
    let mut text = String::from("# Reading: microfs beside its peers\n\n");
    machine(&mut text, results);
    systems(&mut text, results);
    trees(&mut text, results);
    for plot in plots.iter().filter(|plot| plot.corpus.is_none()) {
        let _ = writeln!(text, "\n![{}]({})", plot.title, plot.file);
    }
    text.push_str(&targets::markdown(figures));
    for info in &results.corpora {
        let corpus = info.name.as_str();
        let _ = writeln!(text, "\n## {corpus}");
        for plot in plots.iter().filter(|plot| plot.corpus.as_deref() == Some(corpus)) {
            let _ = writeln!(text, "\n![{}]({})", plot.title, plot.file);
        }
        let names = figures.systems(corpus);
        let title = "Seconds: median (fastest to slowest)";
        table(&mut text, figures, corpus, title, &names, |workload, state, system| {
            figures.wall(corpus, workload.name, state, system).map(|wall| cell(&wall))
        });
        let others: Vec<_> = names.iter().copied().filter(|name| *name != SUBJECT).collect();
        if names.len() > others.len() && !others.is_empty() {
            let title = "How many times as long others take as microfs";
            table(&mut text, figures, corpus, title, &others, |workload, state, system| {
                let ratio = figures.ratio(corpus, workload.name, state, SUBJECT, system);
                ratio.map(|ratio| format!("{ratio:.2}"))
            });
        }
        let title = "Processor seconds, medians: client + server / all of the machine";
        table(&mut text, figures, corpus, title, &names, |workload, state, system| {
            processor(figures, corpus, workload, state, system)
        });
        memory(&mut text, figures, corpus, &names);
    }
    text.push_str(&trouble(results));
    text
}

fn machine(text: &mut String, results: &Results) {
    let (machine, options) = (&results.machine, &results.options);
    let _ = write!(
        text,
        "{} to {}{}. {}; {} processors used, {} of memory; {}; Linux {}; {}; virtualization: {}.\n\
         zstd level {}, blocks of {} bytes, {} rounds ({} for slow systems), seed {}; caches {}.\n",
        results.started,
        results.finished,
        if results.is_complete { "" } else { ", **not complete**" },
        machine.cpu,
        options.cpus,
        mib(machine.memory as f64),
        machine.system,
        machine.kernel,
        machine.filesystem,
        machine.virtualization,
        options.level,
        options.block_size,
        options.rounds,
        options.slow_rounds,
        options.seed,
        if options.drops_caches { "dropped before each cold run" } else { "never dropped" },
    );
    if !machine.kernel_options.is_empty() {
        let _ = writeln!(text, "\nKernel: {}.", machine.kernel_options.join(", "));
    }
}

fn systems(text: &mut String, results: &Results) {
    text.push_str(
        "\n| system | version | image made by | threads of the server |\n|---|---|---|---|\n",
    );
    for system in &results.systems {
        let threads = match (system.is_fuse, system.threads) {
            (false, _) => "in the kernel".to_owned(),
            (true, 0) => "–".to_owned(),
            (true, 1) => "1: not threaded".to_owned(),
            (true, threads) => format!("up to {threads} seen"),
        };
        let slow = if system.is_slow { "; slow, fewer rounds" } else { "" };
        let arguments = if system.arguments.is_empty() {
            String::new()
        } else {
            format!(", with `{}`", system.arguments)
        };
        let _ = writeln!(
            text,
            "| {} | {}{arguments}{slow} | {} | {threads} |",
            system.name,
            system.version,
            system.builder.as_deref().unwrap_or("–"),
        );
    }
}

fn trees(text: &mut String, results: &Results) {
    text.push_str(
        "\n| tree | files | directories | others | bytes | largest file | with xattrs |\n",
    );
    text.push_str("|---|---:|---:|---:|---:|---:|---:|\n");
    for info in &results.corpora {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            info.name,
            info.files,
            info.directories,
            info.others,
            info.bytes,
            info.largest,
            info.with_xattrs
        );
    }
    text.push_str("\n| image | bytes | built in (one build, no measurement) | command |\n|---|---:|---:|---|\n");
    for image in &results.images {
        let _ = writeln!(
            text,
            "| {} of {} | {} | {} s | `{}` |",
            image.format,
            image.corpus,
            image.bytes,
            seconds(image.build_seconds),
            image.command
        );
    }
}

/// A table of all workloads of a corpus that have samples.
fn table(
    text: &mut String,
    figures: &Figures<'_>,
    corpus: &str,
    title: &str,
    systems: &[&str],
    cell: impl Fn(&Workload, State, &str) -> Option<String>,
) {
    let mut rows = String::new();
    for group in Group::ALL {
        for workload in list::ALL.iter().filter(|row| row.group == group) {
            for state in figures.states(corpus, workload.name) {
                let cells: Vec<_> = systems
                    .iter()
                    .map(|system| cell(workload, state, system).unwrap_or_else(|| "–".to_owned()))
                    .collect();
                let name = title_of(workload);
                let _ = writeln!(rows, "| {name} | {} | {} |", state.name(), cells.join(" | "));
            }
        }
    }
    if !rows.is_empty() {
        let _ = write!(text, "\n### {title}\n\n| workload | caches | {} |\n", systems.join(" | "));
        let _ = writeln!(text, "|---|---|{}\n{}", "---:|".repeat(systems.len()), rows.trim_end());
    }
}

/// As in tables: with the number, where it has one.
fn title_of(workload: &Workload) -> String {
    if list::is_classic(workload) {
        format!("{}: {}", workload.name, workload.title)
    } else {
        workload.title.to_owned()
    }
}

fn cell(wall: &Summary) -> String {
    if wall.count == 1 {
        return format!("{} (once)", seconds(wall.median));
    }
    format!("{} ({} to {})", seconds(wall.median), seconds(wall.min), seconds(wall.max))
}

fn processor(
    figures: &Figures<'_>,
    corpus: &str,
    workload: &Workload,
    state: State,
    system: &str,
) -> Option<String> {
    let median = |number: &dyn Fn(&Sample) -> Option<f64>| {
        figures.median(corpus, workload.name, state, system, number)
    };
    let client = median(&|sample| Some(sample.client_cpu))?;
    let server = median(&|sample| sample.server_cpu);
    let all = median(&|sample| Some(sample.system_cpu))?;
    let server = server.map_or(String::new(), |server| format!(" + {server:.2}"));
    Some(format!("{client:.2}{server} / {all:.2}"))
}

/// Of servers: after the mount, after reading everything, and their most.
fn memory(text: &mut String, figures: &Figures<'_>, corpus: &str, systems: &[&str]) {
    let mut rows = String::new();
    for system in systems {
        let all = figures.results.samples.iter();
        let own = all.filter(|sample| sample.corpus == corpus && sample.system == *system);
        let (mut idle, mut after, mut anonymous, mut peak) = (vec![], vec![], vec![], 0);
        for sample in own.filter(|sample| sample.workload != "mounts-128") {
            if sample.state != State::Warm {
                idle.extend(sample.memory_before.map(|memory| memory.resident as f64));
                anonymous.extend(sample.memory_before.map(|memory| memory.anonymous as f64));
            }
            if sample.workload == "read-4" && sample.state != State::Warm {
                after.extend(sample.memory_after.map(|memory| memory.resident as f64));
            }
            peak = peak.max(sample.memory_after.map_or(0, |memory| memory.peak));
        }
        let median = |values: &[f64]| crate::stats::median(values).map_or("–".to_owned(), mib);
        if !idle.is_empty() {
            let peak = if peak == 0 { "–".to_owned() } else { mib(peak as f64) };
            let _ = writeln!(
                rows,
                "| {system} | {} | {} | {} | {peak} |",
                median(&idle),
                median(&anonymous),
                median(&after)
            );
        }
    }
    if !rows.is_empty() {
        let _ = write!(
            text,
            "\n### Resident memory of servers\n\n\
             | system | idle | of it, heap and stacks | after reading all, 4 readers | most |\n\
             |---|---:|---:|---:|---:|\n{rows}"
        );
    }
}

/// What was not measured and what failed.
pub fn trouble(results: &Results) -> String {
    let mut text = String::new();
    if !results.failed.is_empty() {
        text.push_str("\n## Failures\n\n");
        for failure in &results.failed {
            let _ = writeln!(
                text,
                "- {} of {} by {}, {} times: {}",
                failure.workload, failure.corpus, failure.system, failure.times, failure.why
            );
        }
    }
    for (title, remarks) in [("Not measured", &results.skipped), ("Remarks", &results.remarks)] {
        if !remarks.is_empty() {
            let _ = write!(text, "\n## {title}\n\n");
        }
        for remark in remarks {
            let _ = writeln!(text, "- {}: {}", remark.what, remark.why);
        }
    }
    text
}

/// Seconds with three significant digits, none below a tenth of a millisecond.
pub fn seconds(value: f64) -> String {
    let digits = match value {
        100.0.. => 0,
        10.0..100.0 => 1,
        1.0..10.0 => 2,
        0.1..1.0 => 3,
        _ => 4,
    };
    format!("{value:.digits$}")
}

/// Bytes as MiB.
pub fn mib(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1u32 << 20))
}
