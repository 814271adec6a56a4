//! Advisory locks on open files. They die with the process that holds them.

use std::fs::File;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::error::OciError;

/// Who may hold the lock at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// With other shared holders.
    Shared,
    /// Alone.
    Exclusive,
}

/// A lock that is held until this value is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Lock {
    /// Waits for the lock.
    pub(crate) fn wait(file: File, path: &Path, mode: Mode) -> Result<Self, OciError> {
        let operation = match mode {
            Mode::Shared => FlockOperation::LockShared,
            Mode::Exclusive => FlockOperation::LockExclusive,
        };
        loop {
            match rustix::fs::flock(&file, operation) {
                Ok(()) => return Ok(Self { file }),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(OciError::sys("lock", path)(errno)),
            }
        }
    }

    /// Whether the locked file still has a name.
    pub(crate) fn is_linked(&self, path: &Path) -> Result<bool, OciError> {
        let stat = rustix::fs::fstat(&self.file).map_err(OciError::sys("examine", path))?;
        Ok(stat.st_nlink > 0)
    }

    /// Takes the lock alone if nobody has it, else `None`.
    pub(crate) fn attempt(file: File, path: &Path) -> Result<Option<Self>, OciError> {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(OciError::sys("lock", path)(errno)),
        }
    }
}
