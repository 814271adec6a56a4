//! Extents: which blocks hold which bytes of a file.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Blob number of a hole.
pub const HOLE: u32 = u32::MAX;

/// An extent as stored.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawExtent {
    /// First byte of the file that it covers.
    pub file_offset: U64,
    /// First block in the pointer table of its blob; 0 for a hole.
    pub block: U64,
    /// Where in the plain bytes of that block it starts; 0 for a hole.
    pub block_offset: U32,
    /// 0: this blob; `n`: record `n - 1` of the blob table; 2^32 - 1: a hole.
    pub blob: U32,
}

const _: () = assert!(size_of::<RawExtent>() == 24);

/// A file's slice of blocks, or of nothing. It covers a run of consecutive
/// blocks of its blob, all full but the last, and reaches to the next extent
/// or the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// First byte of the file that it covers.
    pub file_offset: u64,
    /// Where the bytes are; `None` for a hole.
    pub data: Option<BlockSlice>,
}

/// A place in the plain bytes of a blob's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockSlice {
    /// 0: the blob itself; `n`: record `n - 1` of its blob table.
    pub blob: u32,
    /// First block.
    pub block: u64,
    /// First byte in the plain bytes of that block.
    pub offset: u32,
}

impl Extent {
    /// The meaning of a stored record.
    #[must_use]
    pub fn parse(raw: &RawExtent) -> Self {
        let blob = raw.blob.get();
        let slice = BlockSlice { blob, block: raw.block.get(), offset: raw.block_offset.get() };
        Self { file_offset: raw.file_offset.get(), data: (blob != HOLE).then_some(slice) }
    }

    /// The record to store.
    #[must_use]
    pub fn to_raw(&self) -> RawExtent {
        let none = BlockSlice { blob: HOLE, block: 0, offset: 0 };
        let slice = self.data.unwrap_or(none);
        RawExtent {
            file_offset: U64::new(self.file_offset),
            block: U64::new(slice.block),
            block_offset: U32::new(slice.offset),
            blob: U32::new(slice.blob),
        }
    }
}
