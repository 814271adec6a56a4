//! What is wrong with an archive.

use std::io;

use thiserror::Error;

use crate::tree::TreeError;

/// A fault and where it is.
#[derive(Debug, Error)]
#[error("tar member {:?} at byte {offset}", String::from_utf8_lossy(.member))]
pub struct ArchiveError {
    /// Path of the member as far as it is known.
    pub member: Vec<u8>,
    /// Byte offset of its header in the uncompressed archive.
    pub offset: u64,
    /// What is wrong.
    #[source]
    pub fault: Fault,
}

/// Why a member cannot be taken.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The archive ends inside a header or a member's data.
    #[error("the archive ends in the middle of it")]
    Truncated,
    /// The archive ends after a header that announces another.
    #[error("the archive ends after an extended header")]
    NothingExtended,
    /// A header's checksum is wrong.
    #[error("wrong header checksum")]
    Checksum,
    /// A single block of zeros with more behind it.
    #[error("a lone block of zeros inside the archive")]
    LoneZeroBlock,
    /// A number is no number or out of range.
    #[error("field {field} holds no valid number")]
    Number {
        /// The header field or pax key.
        field: &'static str,
    },
    /// A type that cannot be represented.
    #[error("type {:?} cannot be represented", char::from(*.0))]
    Type(u8),
    /// An extended header is malformed.
    #[error("malformed pax header")]
    Pax,
    /// An extended header or long name is over its limit.
    #[error("{what} over the limit of {limit} bytes")]
    TooLong {
        /// What.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// A sparse map is malformed, out of order or does not fit the data.
    #[error("malformed sparse map")]
    Sparse,
    /// A path is empty or holds NUL.
    #[error("the path is empty or holds a NUL byte")]
    Path,
    /// A path climbs out of the root.
    #[error("the path leads out of the root directory")]
    Escapes,
    /// A symbolic link without target.
    #[error("a symbolic link without target")]
    EmptyTarget,
    /// More symbolic links than Linux follows.
    #[error("too many symbolic links on the way")]
    Loop,
    /// A name that begins with `.wh.` where it means nothing.
    #[error("names that begin with .wh. are reserved for whiteouts")]
    Whiteout,
    /// A hard link to a directory.
    #[error("a hard link to a directory")]
    LinkToDirectory,
    /// Something other than a directory at the root.
    #[error("the root of a layer must be a directory")]
    Root,
    /// A rule of the tree is broken.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The archive cannot be read.
    #[error("cannot read the archive")]
    Read(#[source] io::Error),
}
