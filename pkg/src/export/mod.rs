//! Giving tar archives back.
//!
//! [`write_layer`] writes one layer of a stack as an OCI layer (image-spec,
//! "Image Layer Filesystem Changeset"), [`write_tree`] the merged tree of all.
//! Members come in the order of a walk: a directory, then what is in it and no
//! directory, then its sub-directories, each sorted by name. The first name of
//! an object has its data, every other is a hard link to it. Of a layer
//!
//! - a whiteout is an empty file `.wh.NAME`, an opaque mark an empty file
//!   `.wh..wh..opq` and the first member in its directory;
//! - an implied directory has no member, so its attributes stay what they are
//!   below, and a symbolic link that is below in its place stays;
//! - hard links to lower layers come first of all, with the directories that
//!   they are in, so that whoever unpacks member by member finds their targets
//!   untouched; a hard link whose target this layer itself has comes last.
//!
//! What is written depends on the layers alone. An archive that
//! [`archive::write_layer`](crate::archive::write_layer) reads back gives the
//! same layer, implied directories without anything in them left aside.
//!
//! Memory: 8 bytes for each directory; of a merged tree also the first path of
//! every file whose other names are to come; of a layer some bytes for each
//! hard link to lower layers.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::as_conversions)]

pub use self::error::ExportError;
pub use self::layer::write_layer;
pub use self::tree::write_tree;

mod below;
mod error;
mod layer;
mod members;
mod tree;

/// How archives are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportOptions {
    /// Whether sockets, which tar does not have, are left out; else they are
    /// an error.
    pub skip_sockets: bool,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// Members of the archive.
    pub members: u64,
    /// Bytes of the archive.
    pub bytes: u64,
    /// Names of sockets that were left out.
    pub sockets: u64,
    /// The first of them, at most [`SOCKETS_LISTED`].
    pub first_sockets: Vec<Vec<u8>>,
}

/// Sockets that [`Exported::first_sockets`] has at most.
pub const SOCKETS_LISTED: usize = 100;

/// Hears how far the work is. Called often.
pub trait Progress: Sync {
    /// So many more bytes of content were written.
    fn bytes(&self, more: u64);
}

/// For those who do not want to hear.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn bytes(&self, _more: u64) {}
}
