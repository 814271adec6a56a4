//! `microfs gc`

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use microfs_oci::{GcOptions, Layout};
use serde::Serialize;

use crate::exit::Outcome;
use crate::image;
use crate::output;

/// Remove what no image of a layout uses
///
/// Safe beside running builds and mounts: builds keep what they have stored so
/// far, and a mount keeps its layers open.
#[derive(Debug, Args)]
pub struct GcArgs {
    /// The layout
    #[arg(value_name = "OCI-DIR")]
    layout: PathBuf,
    /// Only say what would be removed
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    dry_run: bool,
    removed: Vec<Removed>,
    stale_files: u64,
    freed_bytes: u64,
    kept: u64,
    kept_bytes: u64,
    live_builds: u64,
    missing: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Removed {
    digest: String,
    bytes: u64,
}

/// Collects and reports.
pub fn run(args: &GcArgs) -> anyhow::Result<Outcome> {
    let layout = Layout::open(&args.layout)?;
    let options = GcOptions { dry_run: args.dry_run, ..GcOptions::default() };
    let found = image::writing("gc", layout.gc(&options))?;
    let removed = found.removed.iter();
    let report = Report {
        dry_run: args.dry_run,
        removed: removed
            .map(|(digest, bytes)| Removed { digest: digest.to_string(), bytes: *bytes })
            .collect(),
        stale_files: found.stale_files,
        freed_bytes: found.freed_bytes,
        kept: found.kept,
        kept_bytes: found.kept_bytes,
        live_builds: found.live_sessions,
        missing: found.missing.iter().map(ToString::to_string).collect(),
    };
    if args.json {
        output::json(&report)?;
        return Ok(Outcome::Done);
    }
    let mut out = output::stdout();
    let verb = if args.dry_run { "would remove" } else { "removed" };
    for blob in &report.removed {
        writeln!(out, "{verb} {} ({})", blob.digest, output::human(blob.bytes))?;
    }
    writeln!(
        out,
        "{verb} {} blobs and {} left-over files, {}; kept {} blobs, {}",
        report.removed.len(),
        report.stale_files,
        output::human(report.freed_bytes),
        report.kept,
        output::human(report.kept_bytes),
    )?;
    out.flush()?;
    Ok(Outcome::Done)
}
