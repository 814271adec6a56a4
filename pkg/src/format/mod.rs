//! The format: records, codes and the rules that one record can be held to.
//!
//! `pkg/FORMAT.md` is the specification; the headings there are the modules
//! here. Reader and writer both stand on this module and never on each other.
//! A `Raw…` type is the bytes as stored, the bare name their checked meaning.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::as_conversions)]

pub mod blob_table;
pub mod block_pointer;
pub mod codec;
pub mod dentry;
pub mod digest;
pub mod extent;
pub mod inode;
pub mod planes;
pub mod prologue;
pub mod rule;
pub mod section;
pub mod superblock;
pub mod xattr;

#[cfg(test)]
mod tests;

pub use self::codec::Codec;
pub use self::digest::{Digest, DigestAlgorithm};
pub use self::inode::FileType;
pub use self::rule::{FormatError, Place, Rule};

/// The version that this library writes and reads.
pub const VERSION: u32 = 1;
/// Length of the superblock, and what the blob's length is a multiple of.
pub const SUPERBLOCK_SIZE: usize = 4096;
/// Length of the prologue at the head of the blob.
pub const PROLOGUE_SIZE: usize = 64;
/// Smallest and largest base-2 logarithm of the content block size: 512 B to 1 MiB.
pub const BLOCK_LOG: std::ops::RangeInclusive<u8> = 9..=20;
/// Smallest and largest base-2 logarithm of the metadata block size: 4 to 64 KiB.
pub const METADATA_LOG: std::ops::RangeInclusive<u8> = 12..=16;
/// Smallest and largest base-2 logarithm of the number of block pointers in a page.
pub const PAGE_LOG: std::ops::RangeInclusive<u8> = 4..=10;
/// Largest zstd window of a block, as a base-2 logarithm.
pub const WINDOW_LOG_MAX: u8 = 20;
/// Most entries in a blob table.
pub const BLOB_TABLE_MAX: u32 = 4096;

/// Widens a 32-bit number for use as a position in memory.
#[must_use]
pub fn index(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Narrows a 64-bit number for use as a position in memory; saturates, so
/// that a bounded look-up with it fails.
#[must_use]
pub fn index64(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Widens a length in memory.
#[must_use]
pub fn wide(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
