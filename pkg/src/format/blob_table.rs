//! The blob table: other blobs whose blocks this layer uses.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::Digest;

/// Bytes of a stored record.
pub const BLOB_RECORD_SIZE: usize = 72;

/// A record of the blob table as stored.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawBlobRecord {
    /// SHA-256 of the whole blob (its OCI digest).
    pub blob_sha256: Digest,
    /// SHA-256 of the blob's superblock (its last 4096 bytes).
    pub superblock_sha256: Digest,
    /// Length of the blob in bytes.
    pub length: U64,
}

const _: () = assert!(size_of::<RawBlobRecord>() == BLOB_RECORD_SIZE);

/// A blob that a layer refers to: one lower in the same manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlobRecord {
    /// SHA-256 of the whole blob (its OCI digest).
    pub blob_sha256: Digest,
    /// SHA-256 of the blob's superblock (its last 4096 bytes).
    pub superblock_sha256: Digest,
    /// Length of the blob in bytes.
    pub length: u64,
}

impl BlobRecord {
    /// The meaning of a stored record.
    #[must_use]
    pub fn parse(raw: &RawBlobRecord) -> Self {
        Self {
            blob_sha256: raw.blob_sha256,
            superblock_sha256: raw.superblock_sha256,
            length: raw.length.get(),
        }
    }

    /// The record to store.
    #[must_use]
    pub fn to_raw(&self) -> RawBlobRecord {
        RawBlobRecord {
            blob_sha256: self.blob_sha256,
            superblock_sha256: self.superblock_sha256,
            length: U64::new(self.length),
        }
    }
}
