//! `microfs diff`

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;

use anyhow::bail;
use clap::Args;
use microfs::compare::{CompareOptions, DirectoryView, StackView, compare};
use microfs::scan::{ExcludeSet, XattrFilter};
use microfs::stack::StackOptions;
use serde::Serialize;

use crate::exit::Outcome;
use crate::image;
use crate::options::{self, PlatformArgs};
use crate::output;

/// Compare an image with a directory, every attribute and byte
///
/// Prints what differs, the image's side first, and exits with 1 when
/// anything does.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG, then the directory
    #[arg(required = true, num_args = 1..=3, value_name = options::THEN_DIRECTORY)]
    words: Vec<OsString>,
    /// Leave out what matches a .gitignore-style pattern; repeatable
    #[arg(long, short, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Do not compare modification times
    #[arg(long)]
    no_mtime: bool,
    /// Do not compare owners
    #[arg(long)]
    no_owner: bool,
    /// Do not compare extended attributes
    #[arg(long)]
    no_xattrs: bool,
    /// Do not compare where holes are, only what files read as
    #[arg(long)]
    no_holes: bool,
    /// Stop after so many differences
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max: usize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    platform: PlatformArgs,
}

#[derive(Debug, Serialize)]
struct DifferenceReport {
    path: String,
    what: String,
}

/// Compares; [`Outcome::Negative`] when something differs.
pub fn run(args: &DiffArgs) -> anyhow::Result<Outcome> {
    let (reference, rest) = image::split(&args.words, 1)?;
    let [directory] = rest else { bail!("a directory to compare with is missing") };
    let opened = image::open(&reference, &args.platform.request(), &StackOptions::default())?;
    let options = CompareOptions {
        mtime: !args.no_mtime,
        owner: !args.no_owner,
        holes: !args.no_holes,
        xattrs: XattrFilter { include: !args.no_xattrs, exclude: Vec::new() },
        exclude: ExcludeSet::new(&args.exclude)?,
        max_differences: args.max,
    };
    let mut image = StackView::new(&opened.stack);
    let mut on_disk = DirectoryView::open(Path::new(directory))?;
    let found = compare(&mut image, &mut on_disk, &options)?;
    if args.json {
        let report = |difference: &microfs::compare::Difference| DifferenceReport {
            path: output::printable(&difference.path),
            what: difference.what.to_string(),
        };
        output::json(&found.iter().map(report).collect::<Vec<_>>())?;
    } else {
        let mut out = output::stdout();
        for difference in &found {
            writeln!(out, "{difference}")?;
        }
        out.flush()?;
    }
    Ok(if found.is_empty() { Outcome::Done } else { Outcome::Negative })
}
