//! Why no archive can be given back.

use std::io;

use thiserror::Error;

use crate::archive::EmitError;
use crate::error::ReadError;

/// Why an archive cannot be written. Paths are relative to the root; that of
/// the root is empty.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// An object cannot be read.
    #[error("cannot read {:?}", String::from_utf8_lossy(.path))]
    Read {
        /// Its path.
        path: Vec<u8>,
        /// Why.
        #[source]
        cause: ReadError,
    },
    /// The archive cannot be written.
    #[error("cannot write the archive")]
    Sink(#[source] io::Error),
    /// A socket.
    #[error("{:?} is a socket, which tar does not have", String::from_utf8_lossy(.path))]
    Socket {
        /// Its path.
        path: Vec<u8>,
    },
    /// A name that begins with `.wh.`.
    #[error("{:?} would be read as a whiteout", String::from_utf8_lossy(.path))]
    WhiteoutName {
        /// Its path.
        path: Vec<u8>,
    },
    /// Something that a member cannot express.
    #[error("cannot write {:?} into a tar archive", String::from_utf8_lossy(.path))]
    Member {
        /// Its path.
        path: Vec<u8>,
        /// Why.
        #[source]
        cause: EmitError,
    },
    /// Hard links to lower layers of which each has the name that another
    /// leads to: no order of members says that.
    #[error("hard link {:?} to a lower layer is one of a circle", String::from_utf8_lossy(.path))]
    LinkCircle {
        /// Path of one of them.
        path: Vec<u8>,
    },
}

/// Adds the path to an error of the reader.
pub fn unreadable(path: &[u8]) -> impl FnOnce(ReadError) -> ExportError {
    let path = path.to_vec();
    move |cause| ExportError::Read { path, cause }
}
