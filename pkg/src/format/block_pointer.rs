//! Block pointers: where each block is, how it is stored, what its digest is.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Codec, Digest, FormatError, Place, Rule};

/// Bytes of a stored block pointer.
pub const POINTER_SIZE: usize = 48;

/// A block pointer as stored.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawBlockPointer {
    /// Offset of the stored bytes in the blob.
    pub offset: U64,
    /// Stored length in bits 0 to 23, codec in bits 24 to 31.
    pub stored: U32,
    /// Plain length in bits 0 to 23; bits 24 to 31 are zero.
    pub plain: U32,
    /// Digest of the stored bytes.
    pub digest: Digest,
}

const _: () = assert!(size_of::<RawBlockPointer>() == POINTER_SIZE);

const LENGTH_MASK: u32 = 0x00ff_ffff;

/// A checked block pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPointer {
    /// Offset of the stored bytes in the blob.
    pub offset: u64,
    /// Stored length in bytes, 1 to `plain_length`.
    pub stored_length: u32,
    /// Plain length in bytes, at most the block size of the block's part.
    pub plain_length: u32,
    /// How it is stored.
    pub codec: Codec,
    /// Digest of the stored bytes.
    pub digest: Digest,
}

/// What a block's pointer is checked against.
#[derive(Debug, Clone, Copy)]
pub struct PointerBounds {
    /// First byte of the block's part in the blob.
    pub start: u64,
    /// First byte after the part.
    pub end: u64,
    /// Largest plain length in bytes.
    pub block_size: u32,
}

impl BlockPointer {
    /// Checks the record of block `number`.
    ///
    /// # Errors
    /// [`Rule::BlockPointer`].
    pub fn parse(
        raw: &RawBlockPointer,
        number: u64,
        bounds: &PointerBounds,
    ) -> Result<Self, FormatError> {
        let bad = || FormatError::new(Rule::BlockPointer, Place::Block(number));
        let stored = raw.stored.get();
        let plain_length = raw.plain.get();
        let stored_length = stored & LENGTH_MASK;
        let [.., code] = stored.to_le_bytes();
        let codec = Codec::from_code(code).ok_or_else(bad)?;
        let offset = raw.offset.get();
        let end = offset.checked_add(u64::from(stored_length)).ok_or_else(bad)?;
        let fits = stored_length > 0
            && stored_length <= plain_length
            && plain_length <= bounds.block_size
            && (codec != Codec::Raw || stored_length == plain_length)
            && offset >= bounds.start
            && end <= bounds.end;
        if !fits {
            return Err(bad());
        }
        Ok(Self { offset, stored_length, plain_length, codec, digest: raw.digest })
    }

    /// The record to store.
    #[must_use]
    pub fn to_raw(&self) -> RawBlockPointer {
        let [a, b, c, _] = self.stored_length.to_le_bytes();
        RawBlockPointer {
            offset: U64::new(self.offset),
            stored: U32::from_bytes([a, b, c, self.codec.code()]),
            plain: U32::new(self.plain_length & LENGTH_MASK),
            digest: self.digest,
        }
    }
}
