//! Taking a mount away, by umount(2) where that is permitted, else through fusermount3.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::error::UnmountError;
use crate::fusermount;

/// Unmounts what is on top at a resolved path. A lazy unmount takes it out of
/// the namespace at once, with everything mounted below it, and lets those go
/// on who have files open.
pub(crate) fn detach(mount_point: &Path, lazy: bool) -> Result<(), UnmountError> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazy);
    let path = || mount_point.to_owned();
    match rustix::mount::unmount(mount_point, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(UnmountError::Busy { path: path() }),
        Err(Errno::PERM) => by_fusermount(mount_point, lazy),
        Err(errno) => Err(UnmountError::Unmount { path: path(), source: errno.into() }),
    }
}

fn by_fusermount(mount_point: &Path, lazy: bool) -> Result<(), UnmountError> {
    let mode = OsStr::new(if lazy { "-uz" } else { "-u" });
    let arguments = [mode, OsStr::new("--"), mount_point.as_os_str()];
    let error = |source| UnmountError::Unmount { path: mount_point.to_owned(), source };
    let child = fusermount::start(&arguments, None).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => UnmountError::NoFusermount,
        _ => error(source),
    })?;
    let output = child.wait_with_output().map_err(error)?;
    if output.status.success() {
        return Ok(());
    }
    let message = fusermount::message(&output.stderr);
    if fusermount::mentions(&message, "busy") {
        return Err(UnmountError::Busy { path: mount_point.to_owned() });
    }
    Err(UnmountError::Refused { message })
}
