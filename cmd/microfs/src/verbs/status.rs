//! `microfs status`

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::exit::Outcome;
use crate::output::{self, human};
use crate::status::{self, Report};

/// Show what a mount has done so far
///
/// Asks the process that serves it, which answers root and the user who mounted.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Where it is mounted
    mount_point: PathBuf,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Asks and prints.
pub fn run(args: &StatusArgs) -> anyhow::Result<Outcome> {
    let report = status::ask(&args.mount_point)?;
    if args.json {
        output::json(&report)?;
    } else {
        print(&report)?;
    }
    Ok(Outcome::Done)
}

fn print(report: &Report) -> anyhow::Result<()> {
    let mut out = output::stdout();
    writeln!(out, "image     {}\n          {}", report.image, report.manifest)?;
    writeln!(out, "process   {}", report.pid)?;
    let mut requests: Vec<_> = report.requests.iter().filter(|(_, count)| **count > 0).collect();
    requests.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let requests: Vec<_> = requests.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    writeln!(out, "requests  {}", requests.join(", "))?;
    writeln!(
        out,
        "content   {} on request; {} blocks decoded, {} from {}",
        human(report.bytes_read),
        report.blocks_decoded,
        human(report.plain_bytes_decoded),
        human(report.stored_bytes_read),
    )?;
    writeln!(
        out,
        "cache     {}; {} hits, {} misses",
        human(report.cache_bytes),
        report.cache_hits,
        report.cache_misses
    )?;
    writeln!(
        out,
        "pushed    {} in {} runs; {} wasted, {} left out",
        human(report.bytes_pushed),
        report.pushes,
        report.pushes_wasted,
        report.pushes_dropped
    )?;
    if let Some(median) = report.latency.get("read").and_then(|ranges| median(ranges)) {
        writeln!(out, "reads     half of them answered in less than {median} µs")?;
    }
    writeln!(
        out,
        "errors    {} for damage, {} for faults of the server",
        report.errors, report.panics
    )?;
    Ok(out.flush()?)
}

/// The upper end of the range that the median lies in.
fn median(ranges: &[(Option<u64>, u64)]) -> Option<u64> {
    let total: u64 = ranges.iter().map(|(_, count)| count).sum();
    let mut so_far = 0u64;
    for (below, count) in ranges {
        so_far = so_far.saturating_add(*count);
        if total > 0 && so_far.saturating_mul(2) >= total {
            return *below;
        }
    }
    None
}
