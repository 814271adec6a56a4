//! What can go wrong with a directory source.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use thiserror::Error;

use crate::tree::{NodeId, TreeError};

/// Why a directory could not be scanned, or a file of it not be read.
///
/// Paths are the root as it was given, joined with the path below it. The
/// message is about the object; the cause is the error's source.
#[derive(Debug, Error)]
pub enum ScanError {
    /// Permission denied.
    #[error("cannot read {path:?}")]
    Unreadable {
        /// The object.
        path: PathBuf,
        /// `EACCES` or `EPERM`.
        source: io::Error,
    },
    /// The object was listed, and then was gone.
    #[error("{path:?} vanished while it was read")]
    Vanished {
        /// The object.
        path: PathBuf,
    },
    /// The object is not, or no longer, what it was when it was scanned.
    #[error("{path:?} changed while it was read")]
    Changed {
        /// The object.
        path: PathBuf,
    },
    /// The object has content behind its end: those of proc and the like say
    /// that they are empty.
    #[error(
        "{path:?} has more content than its size says: it is not a stored file but made by a \
         filesystem such as proc or sysfs; leave that out"
    )]
    Endless {
        /// The object.
        path: PathBuf,
    },
    /// Any other failure to read.
    #[error("cannot read {path:?}")]
    Io {
        /// The object.
        path: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The process or the machine ran out of descriptors or memory. Never
    /// skipped: it says nothing about the object.
    #[error("cannot open {path:?}")]
    Exhausted {
        /// The object that was to be opened.
        path: PathBuf,
        /// `EMFILE`, `ENFILE` or `ENOMEM`.
        source: io::Error,
    },
    /// The object cannot be part of a tree, such as one with a name over 255 bytes.
    #[error("{path:?} cannot be stored")]
    Unsupported {
        /// The object.
        path: PathBuf,
        /// The rule that it breaks.
        source: TreeError,
    },
    /// The object is of no type that this library knows.
    #[error("{path:?} is of an unknown file type")]
    UnknownType {
        /// The object.
        path: PathBuf,
    },
    /// The kernel cannot list the names of the attributes: over 65,536 bytes.
    #[error("{path:?} has more extended attributes than the kernel can list")]
    TooManyXattrs {
        /// The object.
        path: PathBuf,
    },
    /// `/proc` is needed to reach attributes without following links.
    #[error(
        "extended attributes below {path:?} cannot be read because /proc is not there \
         (mount it, or leave attributes out)"
    )]
    NoProc {
        /// The root of the scan.
        path: PathBuf,
    },
    /// The root is not a directory.
    #[error("{path:?} is not a directory")]
    NotADirectory {
        /// The root of the scan.
        path: PathBuf,
    },
    /// The root is one of [`ScanOptions::exclude_ids`](super::ScanOptions::exclude_ids).
    #[error("{path:?} is where the output goes")]
    OutputIsSource {
        /// The root of the scan.
        path: PathBuf,
    },
    /// A node that is no regular file of this scan was to be opened.
    #[error("node {} is not a regular file of this scan", .node.0)]
    NotScanned {
        /// The node.
        node: NodeId,
    },
    /// The progress callback asked to stop.
    #[error("the scan was cancelled")]
    Cancelled,
}

impl ScanError {
    /// Whether this is about one object, so that leaving it out makes sense.
    pub(crate) fn is_about_one_object(&self) -> bool {
        match self {
            Self::Unreadable { .. }
            | Self::Vanished { .. }
            | Self::Changed { .. }
            | Self::Endless { .. }
            | Self::Io { .. }
            | Self::Unsupported { source: TreeError::BadName { .. }, .. }
            | Self::Unsupported { source: TreeError::BadTarget { .. }, .. }
            | Self::Unsupported { source: TreeError::BadXattr { .. }, .. }
            | Self::Unsupported { source: TreeError::BadTimestamp(_), .. }
            | Self::Unsupported { source: TreeError::FileTooLarge(_), .. }
            | Self::UnknownType { .. }
            | Self::TooManyXattrs { .. } => true,
            Self::Unsupported { .. }
            | Self::Exhausted { .. }
            | Self::NoProc { .. }
            | Self::NotADirectory { .. }
            | Self::OutputIsSource { .. }
            | Self::NotScanned { .. }
            | Self::Cancelled => false,
        }
    }
}

/// An object that was left out of the tree.
#[derive(Debug)]
pub struct Skipped {
    /// Path below the root, without leading slash.
    pub path: Vec<u8>,
    /// Why.
    pub reason: SkipReason,
}

/// Why an object was left out.
#[derive(Debug)]
pub enum SkipReason {
    /// It is one of [`ScanOptions::exclude_ids`](super::ScanOptions::exclude_ids).
    Output,
    /// It is mounted there from another filesystem, and is not a directory
    /// ([`ScanOptions::one_file_system`](super::ScanOptions::one_file_system)).
    OtherFilesystem,
    /// It could not be read ([`OnError::Skip`](super::OnError::Skip)).
    Failed(ScanError),
}

/// A failure before it is known which path it belongs to.
#[derive(Debug, Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    System(#[from] Errno),
    #[error("changed while it was read")]
    Changed,
    #[error("more content than its size says")]
    Endless,
    #[error(transparent)]
    Tree(#[from] TreeError),
    #[error("unknown file type")]
    UnknownType,
    #[error("more extended attributes than the kernel can list")]
    TooManyXattrs,
    #[error("/proc is not there")]
    NoProc,
}

impl Fault {
    /// The error about the object of path `relative` below `root`.
    pub(super) fn at(self, root: &Path, relative: &[u8]) -> ScanError {
        let path = full_path(root, relative);
        match self {
            Self::System(Errno::ACCESS | Errno::PERM) => {
                ScanError::Unreadable { path, source: self.into_io() }
            }
            Self::System(Errno::NOENT) => ScanError::Vanished { path },
            Self::System(Errno::NOTDIR | Errno::LOOP | Errno::NXIO | Errno::STALE)
            | Self::Changed => ScanError::Changed { path },
            Self::Endless => ScanError::Endless { path },
            Self::System(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
                ScanError::Exhausted { path, source: self.into_io() }
            }
            Self::System(_) => ScanError::Io { path, source: self.into_io() },
            Self::Tree(source) => ScanError::Unsupported { path, source },
            Self::UnknownType => ScanError::UnknownType { path },
            Self::TooManyXattrs => ScanError::TooManyXattrs { path },
            Self::NoProc => ScanError::NoProc { path: root.to_path_buf() },
        }
    }

    pub(crate) fn into_io(self) -> io::Error {
        match self {
            Self::System(errno) => errno.into(),
            other => io::Error::other(other),
        }
    }
}

/// The root as it was given, joined with a path below it.
pub(super) fn full_path(root: &Path, relative: &[u8]) -> PathBuf {
    if relative.is_empty() { root.to_path_buf() } else { root.join(OsStr::from_bytes(relative)) }
}
