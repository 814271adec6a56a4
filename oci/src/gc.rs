//! Garbage collection: blobs that nothing refers to, files of killed builders.
//!
//! Safe at any time: builders are protected by their leases (see
//! [`crate::session`]), readers keep the files they have open. A kill in the
//! middle leaves a valid layout and some garbage less.
//!
//! Only regular files below `blobs/sha256` and `blobs/sha512` whose names are
//! digests are ever removed, and files of this crate below `.microfs`.

mod mark;
mod sessions;

use std::ffi::OsStr;
use std::time::SystemTime;

use oci_spec::image::Digest;
use rustix::fs::FileType;

use crate::dir::Dir;
use crate::error::OciError;
use crate::layout::{BLOBS, Layout, NEXT_INDEX, PRIVATE};
use crate::lock::Mode;
use crate::verified::parse_digest;

use self::mark::Marks;

/// How to collect.
#[derive(Clone, Copy, Debug, Default)]
pub struct GcOptions {
    /// Report only. Works on a read-only layout.
    pub dry_run: bool,
    /// Keep blobs modified after this time though nothing refers to them: for
    /// layouts that other tools write to, which take no lease.
    pub keep_newer_than: Option<SystemTime>,
}

/// What was removed, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Unreferenced blobs with their sizes in bytes, by name.
    pub removed: Vec<(Digest, u64)>,
    /// Temporary files of killed builders.
    pub stale_files: u64,
    /// Bytes freed by both.
    pub freed_bytes: u64,
    /// Blobs kept.
    pub kept: u64,
    /// Bytes of the blobs kept.
    pub kept_bytes: u64,
    /// Builders at work; what they rely on was kept.
    pub live_sessions: u64,
    /// Manifests and indexes that are referred to but not in the layout, which
    /// is legal. Blobs that only such a manifest refers to are not kept.
    pub missing: Vec<Digest>,
    /// Names below the blob folders that are no blobs; left alone.
    pub foreign: u64,
}

impl Layout {
    /// Removes what nothing refers to. Waits for builders that are about to
    /// put a blob in place, and lets none do so while it runs.
    ///
    /// # Errors
    /// [`OciError::UnsafeToCollect`] before anything is removed, when an entry
    /// of the index cannot be understood, or a manifest is there but cannot be
    /// read or has the wrong content: what it refers to cannot be known.
    /// [`OciError::Io`].
    pub fn gc(&self, options: &GcOptions) -> Result<GcReport, OciError> {
        let _lock = if options.dry_run {
            self.lock_if_possible(Mode::Exclusive)?
        } else {
            Some(self.lock(Mode::Exclusive)?)
        };
        let mut report = GcReport::default();
        // The leases first: a session that ends after this has tagged its work
        // or given it up, and a tag is seen in the index, which is read later.
        let sessions = sessions::survey(self)?;
        report.live_sessions = sessions.live;
        let marks = Marks::of(self).map_err(|source| OciError::UnsafeToCollect {
            layout: self.path().into(),
            source: Box::new(source),
        })?;
        report.missing = marks.missing.clone();
        let keep =
            |digest: &Digest| marks.reachable.contains(digest) || sessions.leased.contains(digest);
        sessions.remove_stale(options, &mut report)?;
        if let Some(private) = self.root().dir(PRIVATE)? {
            for name in [NEXT_INDEX, "oci-layout.new"] {
                remove_left_over(&private, OsStr::new(name), options, &mut report)?;
            }
        }
        if let Some(blobs) = self.root().dir(BLOBS)? {
            for algorithm in ["sha256", "sha512"] {
                if let Some(dir) = blobs.dir(algorithm)? {
                    sweep(&dir, algorithm, keep, options, &mut report)?;
                }
            }
        }
        Ok(report)
    }
}

fn sweep(
    dir: &Dir,
    algorithm: &str,
    keep: impl Fn(&Digest) -> bool,
    options: &GcOptions,
    report: &mut GcReport,
) -> Result<(), OciError> {
    for name in dir.names()? {
        let digest = name.to_str().map(|name| parse_digest(&format!("{algorithm}:{name}")));
        let Some((stat, Some(Ok(digest)))) = dir.stat(&name)?.map(|stat| (stat, digest)) else {
            report.foreign = report.foreign.saturating_add(1);
            continue;
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            report.foreign = report.foreign.saturating_add(1);
            continue;
        }
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if keep(&digest) || is_recent(&stat, options) {
            report.kept = report.kept.saturating_add(1);
            report.kept_bytes = report.kept_bytes.saturating_add(size);
            continue;
        }
        if !options.dry_run {
            dir.unlink(&name)?;
        }
        report.freed_bytes = report.freed_bytes.saturating_add(size);
        report.removed.push((digest, size));
    }
    if options.dry_run { Ok(()) } else { dir.sync() }
}

fn is_recent(stat: &rustix::fs::Stat, options: &GcOptions) -> bool {
    let Some(limit) = options.keep_newer_than else { return false };
    let limit = limit.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // Whole seconds: of two files in the second of the limit both are kept.
    u64::try_from(stat.st_mtime).is_ok_and(|modified| modified >= limit)
}

/// Removes one file of ours that nobody can be using any more.
fn remove_left_over(
    dir: &Dir,
    name: &OsStr,
    options: &GcOptions,
    report: &mut GcReport,
) -> Result<(), OciError> {
    let Some(stat) = dir.stat(name)? else { return Ok(()) };
    if !options.dry_run {
        dir.unlink(name)?;
    }
    report.stale_files = report.stale_files.saturating_add(1);
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    report.freed_bytes = report.freed_bytes.saturating_add(size);
    Ok(())
}
