//! Directories to mount on, and mounts to take down.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::{MountError, UnmountError};
use crate::mountinfo::{self, MountEntry};
use crate::options::SUBTYPE;
use crate::overlay::overlay_at;

/// Whether a mount is one of ours by its type.
pub(crate) fn is_microfs(mount: &MountEntry) -> bool {
    mount.fs_type.strip_prefix(b"fuse.") == Some(SUBTYPE.as_bytes())
}

/// Whether a program serves a mount through FUSE. With a subtype of its own, a
/// mount of ours cannot be told from others of this kind, so all are treated
/// alike: whom the system lets unmount it, may.
pub(crate) fn is_fuse(mount: &MountEntry) -> bool {
    mount.fs_type == b"fuse" || mount.fs_type.starts_with(b"fuse.")
}

/// Checks and resolves a directory to mount on; `over` permits one that shows
/// a FUSE mount or one of our overlays. Mounts of other kinds may be mounted
/// over, as with mount(8).
pub(crate) fn check(path: &Path, over: bool) -> Result<PathBuf, MountError> {
    let failed = |source: io::Error| {
        let path = path.to_owned();
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => MountError::NoMountPoint { path },
            Some(Errno::NOTCONN) => MountError::DeadMount { path },
            Some(Errno::NOTDIR) => MountError::NotADirectory { path },
            _ => MountError::MountPoint { path, source },
        }
    };
    let resolved = path.canonicalize().map_err(failed)?;
    if !resolved.metadata().map_err(failed)?.is_dir() {
        return Err(MountError::NotADirectory { path: path.to_owned() });
    }
    let mounts = mountinfo::read().map_err(failed)?;
    let top = mountinfo::top_at(&mounts, &resolved);
    if top.is_some_and(|mount| mount.fs_type.starts_with(b"fuse")) {
        // Unlike attributes, this is never answered from the kernel's cache.
        rustix::fs::statfs(&resolved).map_err(|errno| failed(errno.into()))?;
    }
    let is_taken = |mount: &MountEntry| is_fuse(mount) || overlay_at(&mounts, &resolved).is_some();
    match top.filter(|mount| !over && is_taken(mount)) {
        Some(mount) => {
            let fs_type = mount.fs_type.clone();
            Err(MountError::AlreadyMounted { path: resolved, fs_type })
        }
        None => Ok(resolved),
    }
}

/// Resolves a mount point whose server may be dead: its own last component is
/// looked at only if that is a symbolic link or no plain name.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, UnmountError> {
    let failed = |source: io::Error| {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => UnmountError::Missing { path },
            _ => UnmountError::Path { path, source },
        }
    };
    match path.canonicalize() {
        Ok(resolved) => Ok(resolved),
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            resolve_dead(path).map_err(failed)
        }
        // No permission to look at the mount itself: a parent will do.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            resolve_dead(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

fn resolve_dead(path: &Path) -> io::Result<PathBuf> {
    // Links to links end somewhere below the system's own limit.
    let mut path = std::path::absolute(path)?;
    for _ in 0..40 {
        let Some(name) = path.file_name().map(ToOwned::to_owned) else { break };
        let parent = path.parent().unwrap_or(Path::new("/")).canonicalize()?;
        path = parent.join(name);
        match std::fs::read_link(&path) {
            Ok(target) => path = parent.join(target),
            Err(_) => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

/// The mount to take down at a resolved path.
pub(crate) fn mounted_at(path: &Path) -> Result<MountEntry, UnmountError> {
    let mounts =
        mountinfo::read().map_err(|source| UnmountError::Path { path: path.to_owned(), source })?;
    let index = mounts.iter().rposition(|mount| mount.mount_point == path);
    let mount = index.and_then(|index| mounts.into_iter().nth(index));
    match mount {
        None => Err(UnmountError::NotMounted { path: path.to_owned() }),
        Some(mount) if is_fuse(&mount) => Ok(mount),
        Some(mount) => Err(UnmountError::NotFuse { path: path.to_owned(), fs_type: mount.fs_type }),
    }
}

#[cfg(test)]
mod tests;
