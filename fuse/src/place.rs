//! A mount of this process, found again in the mount table.

use std::path::{Path, PathBuf};

use crate::detach::detach;
use crate::error::UnmountError;
use crate::mountinfo::{self, Device, MountEntry};

/// What became of a mount that was to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It was gone already.
    Absent,
    /// It is gone.
    Away,
    /// It is out of sight, and ends with its last user.
    Detached,
}

/// Which mount it is, and where it was made.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) mount_point: PathBuf,
    id: u64,
    pub(crate) device: Device,
}

impl From<MountEntry> for Place {
    fn from(mount: MountEntry) -> Self {
        Self { mount_point: mount.mount_point, id: mount.id, device: mount.device }
    }
}

impl Place {
    /// Takes the mount away, out of sight only if it is in use.
    pub(crate) fn take_away(&self) -> Result<Taken, UnmountError> {
        match self.take_away_if_idle() {
            Err(UnmountError::Busy { path }) => detach(&path, true).map(|()| Taken::Detached),
            other => other,
        }
    }

    /// Takes the mount away unless it is in use.
    pub(crate) fn take_away_if_idle(&self) -> Result<Taken, UnmountError> {
        let failed = |source| UnmountError::Path { path: self.mount_point.clone(), source };
        let mounts = mountinfo::read().map_err(failed)?;
        let Some(path) = self.find(&mounts)? else { return Ok(Taken::Absent) };
        detach(path, false).map(|()| Taken::Away)
    }

    /// Where the mount is now, if it still is; never a place at which
    /// something else is on top.
    fn find<'a>(&self, mounts: &'a [MountEntry]) -> Result<Option<&'a Path>, UnmountError> {
        // Numbers are used again once a mount is gone, so both have to agree.
        let ours = |mount: &&MountEntry| mount.id == self.id && mount.device == self.device;
        let Some(mount) = mounts.iter().find(ours) else { return Ok(None) };
        match mountinfo::top_at(mounts, &mount.mount_point) {
            Some(top) if top.id == self.id => Ok(Some(&mount.mount_point)),
            _ => Err(UnmountError::Covered { path: mount.mount_point.clone() }),
        }
    }
}
