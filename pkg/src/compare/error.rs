//! Why trees could not be compared.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::error::ReadError;
use crate::scan::Fault;

/// One of the two trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Side {
    /// The first argument.
    A,
    /// The second argument.
    B,
}

/// One tree could not be read, so that nothing can be said about it.
#[derive(Debug, Error)]
#[error("cannot compare {:?}", String::from_utf8_lossy(.path))]
pub struct CompareError {
    /// Which tree.
    pub side: Side,
    /// Path below the root, without leading slash; empty for the root.
    pub path: Vec<u8>,
    /// What happened.
    #[source]
    pub source: ViewError,
}

/// A failure to read an object of a view.
#[derive(Debug, Error)]
pub enum ViewError {
    /// A directory on disk gave an error.
    #[error(transparent)]
    Io(io::Error),
    /// An object on disk changed while it was read.
    #[error("changed while it was read")]
    Changed,
    /// A stack gave an error.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A stack does not have what was asked for.
    #[error("no such name")]
    NoSuchName,
    /// The directory to compare cannot be opened.
    #[error("cannot open {path:?}")]
    Root {
        /// The directory.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl From<Fault> for ViewError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Changed => Self::Changed,
            other => Self::Io(other.into_io()),
        }
    }
}
