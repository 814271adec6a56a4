//! The directory for changes, before an overlay has used it.
//!
//! An overlay shows its upper directory as its root, so a fresh one is given
//! the attributes of the image's root first.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use microfs::stack::{Attr, NodeNum, Stack};
use rustix::fs::{FlockOperation, Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;

use crate::error::MountError;
use crate::overlay::{OverlayError, Writable};

/// Says in the directory for overlayfs itself that it is for that alone:
/// overlayfs removes what it finds there.
const MARK: &str = ".microfs";
/// How long the process of a mount that is gone may take to end.
const ENDING_MAX: Duration = Duration::from_secs(2);
const STEP: Duration = Duration::from_millis(5);

/// Directories that are ready for an overlay, which no other mount gets
/// for as long as this lives. Dropped before [`Prepared::kept`], what was made is
/// removed again.
#[derive(Debug)]
pub(crate) struct Prepared {
    _lock: File,
    made: Vec<PathBuf>,
}

impl Prepared {
    /// Makes the directories that are missing, and the upper one like the image's
    /// root if nothing has used it yet.
    ///
    /// What the caller may not set (owners, `trusted.*`), or the filesystem does
    /// not keep, stays as the system makes it.
    ///
    /// # Errors
    /// [`MountError::Overlay`] and [`MountError::Root`].
    pub(crate) fn new(stack: &Stack, dirs: &Writable) -> Result<Self, MountError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| OverlayError::Directory { path, source }
        };
        if is_foreign(&dirs.work).map_err(failed(&dirs.work))? {
            return Err(OverlayError::Foreign { work: dirs.work.clone() }.into());
        }
        let is_new = !dirs.upper.try_exists().map_err(failed(&dirs.upper))?;
        let is_fresh = is_fresh(dirs).map_err(failed(&dirs.upper))?;
        let lock = File::open(&dirs.upper).map_err(failed(&dirs.upper))?;
        if !is_ours_alone(&lock) {
            return Err(OverlayError::InUse { upper: dirs.upper.clone() }.into());
        }
        let made = is_new.then(|| dirs.upper.clone()).into_iter().collect();
        let mut prepared = Self { _lock: lock, made };
        if is_fresh {
            let root = stack.attr(NodeNum::ROOT)?;
            let xattrs = stack.xattrs(NodeNum::ROOT)?;
            make_alike(&dirs.upper, &root, &xattrs).map_err(failed(&dirs.upper))?;
        }
        // Last: that it is there says that the other one is done.
        let mark = dirs.work.join(MARK);
        if !mark.try_exists().map_err(failed(&dirs.work))? {
            // overlayfs makes one of its own in it.
            prepared.made.extend([dirs.work.clone(), dirs.work.join("work"), mark.clone()]);
            std::fs::create_dir_all(&dirs.work).map_err(failed(&dirs.work))?;
            File::create(&mark).map_err(failed(&mark))?;
        }
        Ok(prepared)
    }

    /// The overlay is there: what was made stays.
    pub(crate) fn kept(mut self) -> Self {
        self.made.clear();
        self
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // Best effort, the last first; what is not empty stays.
        for path in self.made.iter().rev() {
            let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir(path));
        }
    }
}

/// Locks a directory, unless another mount keeps it. One that was just taken
/// down lets go of it soon.
fn is_ours_alone(directory: &File) -> bool {
    let since = Instant::now();
    loop {
        match rustix::fs::flock(directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if since.elapsed() < ENDING_MAX => std::thread::sleep(STEP),
            Err(Errno::WOULDBLOCK) => return false,
            // A filesystem without locks has none to hold.
            Ok(()) | Err(_) => return true,
        }
    }
}

/// Whether something is in the directory for overlayfs itself that is not ours.
fn is_foreign(work: &Path) -> io::Result<bool> {
    if work.join(MARK).try_exists()? {
        return Ok(false);
    }
    match work.read_dir() {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the upper directory if it is missing. One that is there counts as
/// fresh when it is empty and no overlay can have used it.
fn is_fresh(dirs: &Writable) -> io::Result<bool> {
    let is_new = !dirs.upper.try_exists()?;
    std::fs::create_dir_all(&dirs.upper)?;
    Ok(is_new || (!dirs.work.try_exists()? && dirs.upper.read_dir()?.next().is_none()))
}

fn make_alike(path: &Path, root: &Attr, xattrs: &[(Vec<u8>, Vec<u8>)]) -> io::Result<()> {
    let directory = File::open(path)?;
    // In this order: a change of owner takes bits away, and all else changes no time.
    let (uid, gid) = (Uid::from_raw(root.uid), Gid::from_raw(root.gid));
    let _ = rustix::fs::fchown(&directory, Some(uid), Some(gid));
    let _ = rustix::fs::fchmod(&directory, Mode::from_raw_mode(root.permissions.into()));
    for (name, value) in xattrs {
        let name = OsStr::from_bytes(name);
        let _ = rustix::fs::fsetxattr(&directory, name, value, XattrFlags::empty());
    }
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec {
            tv_sec: root.mtime.seconds,
            tv_nsec: root.mtime.nanoseconds.into(),
        },
    };
    let _ = rustix::fs::futimens(&directory, &times);
    Ok(())
}

#[cfg(test)]
mod tests;
