//! The prologue: 64 bytes that say what the file is.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::PROLOGUE_SIZE;

/// First bytes of every blob.
pub const MAGIC: [u8; 8] = *b"\x89microfs";

/// The prologue as stored.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawPrologue {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// Format version.
    pub version: U32,
    /// Base-2 logarithm of the content block size.
    pub block_log: u8,
    /// Base-2 logarithm of the metadata block size.
    pub metadata_log: u8,
    /// Code of the digest algorithm.
    pub digest_algorithm: u8,
    /// Zero.
    pub reserved: u8,
    /// A line for a human reader.
    pub text: [u8; 48],
}

/// The line in the prologue, padded with NUL.
pub const TEXT: [u8; 48] = *b"microfs layer; its superblock is the last 4 KiB\n";

const _: () = assert!(size_of::<RawPrologue>() == PROLOGUE_SIZE);
