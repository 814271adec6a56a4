//! The merged tree as one archive, in a file or on standard output.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use microfs::export::{Exported, write_tree};
use microfs::stack::StackOptions;
use microfs_oci::{Reference, TarCompression, TarEncoder};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
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
        Target::Stdout => write(&mut output::stdout()),
        Target::File(path) => to_file(path, write),
    };
    bar.finish();
    let exported = exported?;
    let mut sockets = Sockets::default();
    sockets.add(&exported);
    let Target::File(path) = target else {
        sockets.print()?;
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
    report.sockets.print()?;
    if !args.quiet {
        let size = output::human(report.tar_bytes);
        output::line(format_args!("{}\n  {} members, {size}", report.file, report.members))?;
    }
    Ok(Outcome::Done)
}

/// A file that is being written and has no name, or one beside its place.
struct Beside {
    path: PathBuf,
    file: File,
    named: bool,
}

impl Beside {
    /// Without a name nothing is left when the process is killed; not every
    /// filesystem has such files, and naming one takes `/proc`.
    fn create(path: PathBuf) -> io::Result<Self> {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o666);
        if let Ok(fd) = rustix::fs::open(folder, flags, mode)
            && Path::new(&descriptor(&fd)).exists()
        {
            return Ok(Self { path, file: File::from(fd), named: false });
        }
        let file = File::create_new(&path)?;
        Ok(Self { path, file, named: true })
    }

    /// Gives it its name, instead of what has that.
    fn put_in_place(&mut self, place: &Path) -> io::Result<()> {
        if !self.named {
            let name = descriptor(&self.file);
            let link = |to: &Path| rustix::fs::linkat(CWD, &name, CWD, to, AtFlags::SYMLINK_FOLLOW);
            match link(place) {
                Ok(()) => return Ok(()),
                // A link replaces nothing: a rename does.
                Err(Errno::EXIST) => link(&self.path)?,
                Err(errno) => return Err(errno.into()),
            }
            self.named = true;
        }
        std::fs::rename(&self.path, place)?;
        self.named = false;
        Ok(())
    }
}

/// Where `/proc` shows an open file.
fn descriptor(file: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

impl Drop for Beside {
    fn drop(&mut self) {
        if self.named {
            let _ = std::fs::remove_file(&self.path);
        }
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
    let mut beside = Beside::create(beside).with_context(failed)?;
    let written = write(&mut beside.file)?;
    beside.file.sync_all().with_context(failed)?;
    beside.put_in_place(&place).with_context(failed)?;
    Ok(written)
}
