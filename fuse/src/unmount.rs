//! Taking a mount down from another process.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::detach::detach;
use crate::error::UnmountError;
use crate::mount_point::{mounted_at, resolve};
use crate::mountinfo;
use crate::overlay::uncover;

/// How long a mount that the system agreed to remove may still be seen.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked for.
const PAUSE: Duration = Duration::from_millis(5);

/// How to unmount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unmount {
    /// Only when nothing uses it.
    #[default]
    WhenIdle,
    /// Take it out of sight now; its server ends with the last user.
    Lazily,
}

/// Takes down the FUSE mount at `mount_point`, that of a dead server too, and
/// the overlay that makes it writable, if there is one. A mount of another
/// program is taken down as well, if the system lets the caller do that: nothing
/// tells it from one of ours with a subtype of its own.
/// Returns when it is gone from the mount table.
///
/// # Errors
/// [`UnmountError`]: among them that no FUSE is mounted there, or that it is busy.
pub fn unmount(mount_point: &Path, how: Unmount) -> Result<(), UnmountError> {
    let path = resolve(mount_point)?;
    uncover(&path, how == Unmount::Lazily)?;
    let mount = mounted_at(&path)?;
    detach(&path, how == Unmount::Lazily)?;
    let end = Instant::now().checked_add(PATIENCE);
    loop {
        let mounts = mountinfo::read()
            .map_err(|source| UnmountError::Path { path: path.clone(), source })?;
        if !mounts.iter().any(|other| other.id == mount.id && other.mount_point == path) {
            return Ok(());
        }
        if end.is_none_or(|end| Instant::now() >= end) {
            return Err(UnmountError::StillThere { path });
        }
        std::thread::sleep(PAUSE);
    }
}
