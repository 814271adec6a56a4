//! Making and opening things by one name in an open directory.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::error::{Action, ExtractError, Failure, failed};

/// Mode of directories while the work goes on.
pub const PRIVATE_DIRECTORY: Mode = Mode::RWXU;
/// Mode of files while the work goes on.
pub const PRIVATE_FILE: Mode = Mode::from_raw_mode(0o600);

/// How names are resolved.
#[derive(Debug, Default)]
pub struct Resolver {
    /// The kernel or a sandbox has no `openat2`.
    without_openat2: AtomicBool,
}

impl Resolver {
    /// Opens or makes `name`, which is a single name, in `directory`; a
    /// symbolic link there is an error.
    pub fn open(
        &self,
        directory: impl AsFd,
        name: &[u8],
        flags: OFlags,
        mode: Mode,
    ) -> rustix::io::Result<OwnedFd> {
        if crate::tree::check_name(name).is_err() {
            return Err(Errno::INVAL);
        }
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if !self.without_openat2.load(Ordering::Relaxed) {
            let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            match rustix::fs::openat2(&directory, name, flags, mode, resolve) {
                // A sandbox that does not know the call forbids it.
                Err(Errno::NOSYS | Errno::PERM) => {}
                other => return other,
            }
            self.without_openat2.store(true, Ordering::Relaxed);
        }
        rustix::fs::openat(directory, name, flags, mode)
    }

    /// Opens a directory to work in.
    pub fn open_directory(&self, directory: impl AsFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
        self.open(directory, name, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())
    }
}

/// Makes the target when it is not there and opens it.
pub fn open_target(path: &Path, force: bool) -> Result<OwnedFd, ExtractError> {
    let fail = |action: Action| move |errno| failed(action)(errno).at(path.to_path_buf());
    match rustix::fs::mkdir(path, PRIVATE_DIRECTORY) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(fail(Action::Create)(errno)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let target = rustix::fs::open(path, flags, Mode::empty()).map_err(fail(Action::Open))?;
    if !force {
        let entries = rustix::fs::Dir::read_from(&target).map_err(fail(Action::Open))?;
        for entry in entries {
            let entry = entry.map_err(fail(Action::Open))?;
            if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
                return Err(ExtractError::NotEmpty { path: path.to_path_buf() });
            }
        }
    }
    forget_acls(&target);
    Ok(target)
}

/// Takes away the ACLs of a directory that was there before, or that a new
/// one inherited: what is made in it would inherit them, too.
pub fn forget_acls(directory: impl AsFd) {
    for name in ["system.posix_acl_default", "system.posix_acl_access"] {
        // Most directories and many filesystems have none.
        let _ = rustix::fs::fremovexattr(&directory, name);
    }
}

/// Runs `make`; when something is in its way and may be replaced, removes
/// that and runs it again.
pub fn make<T>(
    directory: impl AsFd,
    name: &[u8],
    force: bool,
    make: impl Fn() -> rustix::io::Result<T>,
) -> Result<T, Failure> {
    match make() {
        Err(Errno::EXIST) if force => {
            rustix::fs::unlinkat(directory, name, AtFlags::empty())
                .map_err(failed(Action::Replace))?;
            make().map_err(failed(Action::Create))
        }
        other => other.map_err(failed(Action::Create)),
    }
}

/// Makes a directory; with `force`, one that is there already is used.
/// Returns whether it was there.
pub fn make_directory(directory: impl AsFd, name: &[u8], force: bool) -> Result<bool, Failure> {
    let create = || rustix::fs::mkdirat(&directory, name, PRIVATE_DIRECTORY);
    match create() {
        Err(Errno::EXIST) if force => {
            let there = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(failed(Action::Open))?;
            if rustix::fs::FileType::from_raw_mode(there.st_mode).is_dir() {
                return Ok(true);
            }
            rustix::fs::unlinkat(&directory, name, AtFlags::empty())
                .map_err(failed(Action::Replace))?;
            create().map_err(failed(Action::Create)).map(|()| false)
        }
        other => other.map_err(failed(Action::Create)).map(|()| false),
    }
}
