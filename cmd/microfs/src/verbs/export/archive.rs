//! The merged tree as one archive, in a file or on standard output.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use microfs::export::{Exported, write_tree};
use microfs::stack::StackOptions;
use microfs_oci::{Reference, TarCompression, TarEncoder};
use serde::Serialize;

use super::{ExportArgs, Sockets, advised, options, total};
use crate::exit::{Outcome, UsageError};
use crate::image;
use crate::output;
use crate::progress::Bar;

/// Where an archive goes.
pub enum Target<'a> {
    Stdout,
    File(&'a Path),
}

impl<'a> Target<'a> {
    /// A file, or `-`.
    pub fn of(path: &'a Path) -> Self {
        if path.as_os_str() == "-" { Self::Stdout } else { Self::File(path) }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    file: String,
    members: u64,
    tar_bytes: u64,
    #[serde(flatten)]
    sockets: Sockets,
}

/// Writes the archive and reports.
pub fn run(
    args: &ExportArgs,
    reference: &Reference,
    target: &Target<'_>,
) -> anyhow::Result<Outcome> {
    if matches!(target, Target::Stdout) {
        if args.json {
            let text = "--json and the archive cannot both go to standard output";
            return Err(UsageError::of(text).into());
        }
        if io::stdout().is_terminal() {
            bail!("an archive is not written to a terminal");
        }
    }
    let opened = image::open(reference, &args.platform.request(), &StackOptions::default())?;
    let bar = Bar::bytes("exporting", total(&opened), args.quiet || args.json);
    let compression = args.compression.unwrap_or(TarCompression::None);
    let write = |sink: &mut dyn Write| -> anyhow::Result<Exported> {
        let encoder = TarEncoder::new(sink, compression)?;
        let written = write_tree(&opened.stack, encoder, &options(args), &bar);
        let (encoder, exported) = written.map_err(advised)?;
        encoder.finish()?.flush()?;
        Ok(exported)
    };
    let exported = match target {
        Target::Stdout => write(&mut io::stdout().lock()),
        Target::File(path) => to_file(path, write),
    };
    bar.finish();
    let exported = exported?;
    let mut sockets = Sockets::default();
    sockets.add(&exported);
    let Target::File(path) = target else {
        sockets.print();
        return Ok(Outcome::Done);
    };
    let report = Report {
        file: path.display().to_string(),
        members: exported.members,
        tar_bytes: exported.bytes,
        sockets,
    };
    if args.json {
        output::json(&report)?;
        return Ok(Outcome::Done);
    }
    report.sockets.print();
    if !args.quiet {
        let size = output::human(report.tar_bytes);
        println!("{}\n  {} members, {size}", report.file, report.members);
    }
    Ok(Outcome::Done)
}

/// A file that is being written beside its place.
struct Beside {
    path: PathBuf,
    file: File,
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Not there any more when it was put in place.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes a file that appears whole or not at all; a device or pipe that is
/// there is written into.
fn to_file<T>(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let failed = || format!("cannot write {}", path.display());
    let place = match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => bail!("cannot write {}: it is a directory", path.display()),
        Ok(found) if !found.is_file() => {
            let mut file = File::options().write(true).open(path).with_context(failed)?;
            return write(&mut file);
        }
        // What a link leads to is replaced, not the link.
        Ok(_) => path.canonicalize().with_context(failed)?,
        Err(_) => path.to_owned(),
    };
    let name = place.file_name().with_context(failed)?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}.tmp", std::process::id()));
    let beside = place.with_file_name(beside);
    let file = File::create_new(&beside).with_context(failed)?;
    let mut beside = Beside { path: beside, file };
    let written = write(&mut beside.file)?;
    beside.file.sync_all().with_context(failed)?;
    std::fs::rename(&beside.path, &place).with_context(failed)?;
    Ok(written)
}
