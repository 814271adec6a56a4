//! The directory for changes, before an overlay has used it.
//!
//! An overlay shows its upper directory as its root, so a fresh one is given
//! the attributes of the image's root first.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use microfs::stack::{Attr, NodeNum, Stack};
use rustix::fs::{Gid, Mode, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};

use crate::error::MountError;
use crate::overlay::{OverlayError, Writable};

/// Makes the directories that are missing, and the upper one like the image's
/// root if nothing has used it yet.
///
/// What the caller may not set (owners, `trusted.*`), or the filesystem does
/// not keep, stays as the system makes it.
///
/// # Errors
/// [`MountError::Overlay`] and [`MountError::Root`].
pub(crate) fn prepare(stack: &Stack, dirs: &Writable) -> Result<(), MountError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| OverlayError::Directory { path, source }
    };
    if is_fresh(dirs).map_err(failed(&dirs.upper))? {
        let root = stack.attr(NodeNum::ROOT)?;
        let xattrs = stack.xattrs(NodeNum::ROOT)?;
        make_alike(&dirs.upper, &root, &xattrs).map_err(failed(&dirs.upper))?;
    }
    // Last: that it is there says that the other one is done.
    std::fs::create_dir_all(&dirs.work).map_err(failed(&dirs.work))?;
    Ok(())
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
