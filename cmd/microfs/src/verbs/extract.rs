//! `microfs extract`

use std::ffi::OsString;
use std::path::Path;

use anyhow::bail;
use clap::Args;
use microfs::extract::{ExtractOptions, ExtractReport, extract};
use microfs::stack::StackOptions;
use serde::Serialize;

use crate::exit::Outcome;
use crate::image;
use crate::options::{self, PlatformArgs, ThreadArgs};
use crate::output;
use crate::progress::Bar;

/// Unpack an image into a directory
///
/// What this user may not restore (owners, device nodes, some attributes) is
/// left out and listed.
#[derive(Debug, Args)]
pub struct ExtractArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG, then the directory, which must be empty
    #[arg(required = true, num_args = 1..=3, value_name = options::THEN_DIRECTORY)]
    words: Vec<OsString>,
    /// Unpack into a directory that is not empty, over what is in the way
    #[arg(long, short)]
    force: bool,
    /// Fail when anything cannot be restored
    #[arg(long)]
    strict: bool,
    /// Return only when everything is on disk
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but errors and what could not be restored
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    platform: PlatformArgs,
}

#[derive(Debug, Serialize)]
struct Report {
    directories: u64,
    files: u64,
    symlinks: u64,
    devices: u64,
    fifos: u64,
    sockets: u64,
    hard_links: u64,
    bytes: u64,
    not_restored: u64,
    first_not_restored: Vec<NotRestored>,
}

#[derive(Debug, Serialize)]
struct NotRestored {
    path: String,
    what: String,
}

/// Unpacks and reports.
pub fn run(args: &ExtractArgs) -> anyhow::Result<Outcome> {
    let (reference, rest) = image::split(&args.words, 1)?;
    let [directory] = rest else { bail!("a directory to unpack into is missing") };
    let opened = image::open(&reference, &args.platform.request(), &StackOptions::default())?;
    let options = ExtractOptions { force: args.force, strict: args.strict, sync: args.sync };
    let total = opened.stack.totals().plain_bytes;
    let bar = Bar::bytes("extracting", total, args.quiet || args.json);
    let pool = args.threads.pool()?;
    let done = extract(&opened.stack, Path::new(directory), &options, &pool, &bar);
    bar.finish();
    let done = done?;
    let report = report(&done);
    if args.json {
        output::json(&report)?;
        return Ok(Outcome::Done);
    }
    for lost in &report.first_not_restored {
        output::remark(format_args!("{:?}: cannot restore {}", lost.path, lost.what))?;
    }
    if report.not_restored > 0 {
        let count = report.not_restored;
        output::remark(format_args!("{count} properties could not be restored"))?;
    }
    if !args.quiet {
        output::line(format_args!(
            "{} files, {} directories, {} symbolic links, {} special files, {} further names; {}",
            report.files,
            report.directories,
            report.symlinks,
            report.devices.saturating_add(report.fifos).saturating_add(report.sockets),
            report.hard_links,
            output::human(report.bytes),
        ))?;
    }
    Ok(Outcome::Done)
}

fn report(done: &ExtractReport) -> Report {
    let lost = done.unrestored.iter().map(|lost| NotRestored {
        path: output::printable(lost.path.as_os_str().as_encoded_bytes()),
        what: lost.what.to_string(),
    });
    Report {
        directories: done.directories,
        files: done.files,
        symlinks: done.symlinks,
        devices: done.devices,
        fifos: done.fifos,
        sockets: done.sockets,
        hard_links: done.hard_links,
        bytes: done.bytes,
        not_restored: done.lost(),
        first_not_restored: lost.collect(),
    }
}
