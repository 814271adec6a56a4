//! What can go wrong with a source that is read to be converted.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

use oci_spec::image::{Digest, MediaType};

/// A layer as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerName {
    /// Position in the image, base layer 0.
    pub number: usize,
    /// Its digest, its name in an archive, or the file it is.
    pub origin: OsString,
}

impl fmt::Display for LayerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "layer {} ({})", self.number, self.origin.to_string_lossy().escape_debug())
    }
}

/// Failures of [`crate::Source`] that [`crate::OciError`] has no other variant for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A folder that is neither a layout nor an unpacked docker archive, or
    /// something that cannot be read as a file.
    #[error("{} is no OCI layout, no image archive and no layer archive", path.display())]
    NotASource {
        /// What was named.
        path: PathBuf,
    },
    /// What cannot be read in place is copied into a temporary file, and the
    /// folder for these is full.
    #[error("no space in {} to keep a copy of the archive", folder.display())]
    NoSpace {
        /// The folder.
        folder: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no byte to read: whatever should have written it failed.
    #[error("{} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// An image archive that cannot be read to its end.
    #[error("{} is an image archive, but damaged", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// Where reading stopped.
        source: io::Error,
    },
    /// Everything in it has the name of a part of an image archive, yet there
    /// is no `oci-layout` and no `manifest.json` with a list.
    #[error("{} looks like an image archive that is cut: oci-layout or manifest.json is missing", path.display())]
    Incomplete {
        /// The archive.
        path: PathBuf,
    },
    /// More members than [`crate::Limits::archive_members`].
    #[error("{} has more than {limit} members", path.display())]
    TooManyMembers {
        /// The archive.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// A member whose data goes on behind the end of the archive.
    #[error("{} is cut: member {} should have {size} bytes", path.display(), Escaped(member))]
    CutMember {
        /// The archive.
        path: PathBuf,
        /// Name of the member.
        member: Vec<u8>,
        /// Size the archive gives it, bytes.
        size: u64,
    },
    /// A docker archive names a file that it does not have.
    #[error("missing blob: {} has no member {}", path.display(), Escaped(member))]
    MissingMember {
        /// The archive.
        path: PathBuf,
        /// Name of the member.
        member: Vec<u8>,
    },
    /// Links of an archive that lead nowhere.
    #[error("{}: member {} is behind more than {limit} links", path.display(), Escaped(member))]
    TooManyLinks {
        /// The archive.
        path: PathBuf,
        /// Name of the member.
        member: Vec<u8>,
        /// The limit.
        limit: usize,
    },
    /// A layer of a type that is no file system: the whole is something else
    /// than a container image.
    #[error("not an image: layer {number} ({digest}) has the type {media_type:?}")]
    NotALayer {
        /// Position of the layer, base layer 0.
        number: usize,
        /// Digest of the layer.
        digest: Digest,
        /// Its media type.
        media_type: MediaType,
    },
    /// The bytes of a layer cannot be read or decompressed.
    #[error("cannot read {layer}")]
    LayerRead {
        /// The layer.
        layer: LayerName,
        /// Why; a [`crate::decompress::DecompressError`] when compressed data
        /// is at fault.
        source: io::Error,
    },
    /// A layer has not the size that its descriptor states.
    #[error("size mismatch: {layer} has {found} bytes, {expected} are stated")]
    LayerSize {
        /// The layer.
        layer: LayerName,
        /// Size stated, bytes.
        expected: u64,
        /// Size found, bytes.
        found: u64,
    },
    /// A layer's stored bytes have not the digest that its descriptor states.
    #[error("digest mismatch: {layer} has content {found}, stated is {expected}")]
    LayerDigest {
        /// The layer.
        layer: LayerName,
        /// Digest stated.
        expected: Digest,
        /// Digest found.
        found: Digest,
    },
    /// A layer without its compression has not the digest that the config states.
    #[error("diff_id mismatch: {layer} is {found} uncompressed, the config states {expected}")]
    LayerDiffId {
        /// The layer.
        layer: LayerName,
        /// Entry of `rootfs.diff_ids`.
        expected: Digest,
        /// Digest found.
        found: Digest,
    },
}

struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
