//! Content that layers below have already.

use std::collections::HashMap;

use crate::format::blob_table::BlobRecord;
use crate::format::extent::BlockSlice;
use crate::format::index;

/// A blob that lies below the layer that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseBlob {
    /// What the blob table says of it, if it is referred to.
    pub record: BlobRecord,
    /// Its content block size, in bytes.
    pub block_size: u32,
}

/// Where a piece of content lies in a [`BaseBlob`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BasePlace {
    /// Index into the blobs of the [`Base`].
    pub blob: u32,
    /// Number of the content block, which holds all of the piece.
    pub block: u64,
    /// First plain byte in that block.
    pub offset: u32,
}

/// Pieces that layers below have, by the BLAKE3 digest of their plain bytes: a
/// layer on top refers to them where it would store the same. About 64 bytes
/// of memory a piece.
#[derive(Debug, Clone, Default)]
pub struct Base {
    blobs: Vec<BaseBlob>,
    places: HashMap<[u8; 32], BasePlace>,
}

impl Base {
    /// Blobs without any known piece, lowest first.
    #[must_use]
    pub fn new(blobs: Vec<BaseBlob>) -> Self {
        Self { blobs, places: HashMap::new() }
    }

    /// Makes a piece known; the first place of equal pieces counts.
    pub fn add(&mut self, digest: [u8; 32], place: BasePlace) {
        self.places.entry(digest).or_insert(place);
    }

    /// Number of different pieces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether no piece is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// A [`Base`] in use: numbers its blobs as they are first referred to.
#[derive(Debug, Default)]
pub(super) struct Below {
    base: Base,
    /// By index of the base: 1 + index into `used`.
    numbers: HashMap<u32, u32>,
    used: Vec<BaseBlob>,
}

impl Below {
    pub(super) fn new(base: Base) -> Self {
        Self { base, ..Self::default() }
    }

    /// The place of a piece, as an extent names it.
    pub(super) fn find(&mut self, digest: &[u8; 32]) -> Option<BlockSlice> {
        let place = *self.base.places.get(digest)?;
        let number = match self.numbers.get(&place.blob) {
            Some(number) => *number,
            None => {
                self.used.push(*self.base.blobs.get(index(place.blob))?);
                let number = u32::try_from(self.used.len()).ok()?;
                self.numbers.insert(place.blob, number);
                number
            }
        };
        Some(BlockSlice { blob: number, block: place.block, offset: place.offset })
    }

    /// Content block size of a blob that an extent names; `None` for the layer itself.
    pub(super) fn block_size(&self, blob: u32) -> Option<u32> {
        let used = self.used.get(index(blob.checked_sub(1)?))?;
        Some(used.block_size)
    }

    /// The blob table.
    pub(super) fn records(&self) -> Vec<BlobRecord> {
        self.used.iter().map(|blob| blob.record).collect()
    }
}
