//! Errors of extracting.

use std::fmt;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::report::What;
use crate::error::ReadError;

/// What could not be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Making the object.
    Create,
    /// Opening what was made.
    Open,
    /// Replacing what was there.
    Replace,
    /// Writing content.
    Write,
    /// Setting a file's length, in bytes.
    SetLength(u64),
    /// Making one more name of a file.
    Link,
    /// Setting the owner.
    SetOwner,
    /// Setting the mode.
    SetMode,
    /// Setting the modification time.
    SetTime,
    /// Setting an extended attribute.
    SetXattr,
    /// Getting everything onto the disk.
    Sync,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create => write!(f, "create"),
            Self::Open => write!(f, "open"),
            Self::Replace => write!(f, "replace"),
            Self::Write => write!(f, "write"),
            Self::SetLength(length) => write!(f, "set a length of {length} bytes for"),
            Self::Link => write!(f, "hard-link"),
            Self::SetOwner => write!(f, "set the owner of"),
            Self::SetMode => write!(f, "set the mode of"),
            Self::SetTime => write!(f, "set the time of"),
            Self::SetXattr => write!(f, "set an extended attribute of"),
            Self::Sync => write!(f, "sync"),
        }
    }
}

/// Why a stack is not extracted, or not all of it.
#[derive(Debug, Error)]
pub enum ExtractError {
    /// The target holds something already.
    #[error("{path:?} is not empty")]
    NotEmpty {
        /// The target.
        path: PathBuf,
    },
    /// The system refuses something.
    #[error("cannot {action} {path:?}")]
    System {
        /// What.
        action: Action,
        /// To what: the target's path with the object's path in it.
        path: PathBuf,
        /// Why.
        #[source]
        cause: io::Error,
    },
    /// An object cannot be read.
    #[error("cannot read the image at {path:?}")]
    Read {
        /// Where it would go.
        path: PathBuf,
        /// Why.
        #[source]
        cause: ReadError,
    },
    /// Something was not restored and that was not allowed.
    #[error("cannot restore {what} of {path:?}")]
    Strict {
        /// Where.
        path: PathBuf,
        /// What.
        what: What,
    },
}

/// What stops the work, before the object's path is known.
#[derive(Debug)]
pub(super) enum Failure {
    System(Action, io::Error),
    Read(ReadError),
    Strict(What),
}

impl Failure {
    pub(super) fn at(self, path: PathBuf) -> ExtractError {
        match self {
            Self::System(action, cause) => ExtractError::System { action, path, cause },
            Self::Read(cause) => ExtractError::Read { path, cause },
            Self::Strict(what) => ExtractError::Strict { path, what },
        }
    }
}

impl From<ReadError> for Failure {
    fn from(cause: ReadError) -> Self {
        Self::Read(cause)
    }
}

/// Turns a system error into a failure of `action`.
pub(super) fn failed(action: Action) -> impl Fn(rustix::io::Errno) -> Failure {
    move |errno| Failure::System(action, errno.into())
}
