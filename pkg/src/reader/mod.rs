//! Reading one layer: open, inodes, names, xattrs, file bytes.
//!
//! Everything goes through blocks: a block's pointer comes from a verified
//! page, its stored bytes are read into an owned buffer, checked against the
//! pointer's digest, decoded, and only then used. Nothing is mapped and
//! nothing is trusted.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::as_conversions)]

use std::cell::RefCell;
use std::sync::Arc;

use zerocopy::FromBytes;

use crate::compress;
use crate::error::ReadError;
use crate::format::blob_table::{BLOB_RECORD_SIZE, BlobRecord, RawBlobRecord};
use crate::format::block_pointer::{BlockPointer, POINTER_SIZE, RawBlockPointer};
use crate::format::superblock::Superblock;
use crate::format::{
    Codec, DigestAlgorithm, FormatError, Place, Rule, SUPERBLOCK_SIZE, index, index64, wide,
};
use crate::source::ReadAt;

pub use self::cache::{Block, BlockCache, CacheCounts};
pub use self::file::{Run, RunKind, Share};
pub use self::names::{EachDentry, FoundDentry};
pub use self::xattrs::Xattr;

mod cache;
pub mod check;
mod file;
mod metadata;
mod names;
mod xattrs;

/// Most bytes of page digests and blob table that a reader loads: enough for
/// half a billion blocks.
const TAIL_TABLE_MAX: u64 = 256 << 20;

thread_local! {
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// One opened layer.
pub struct Image {
    source: Box<dyn ReadAt>,
    layer: u32,
    superblock: Superblock,
    superblock_sha256: [u8; 32],
    pages: Vec<u8>,
    blobs: Vec<BlobRecord>,
    /// The images behind `blobs`, same order.
    below: Vec<Arc<Image>>,
    cache: Arc<BlockCache>,
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("layer", &self.layer).finish_non_exhaustive()
    }
}

impl Image {
    /// Opens a layer: reads and checks its superblock, page digests and blob
    /// table, a few KiB however large the layer is. `layer` names it in errors
    /// and in the cache. [`Image::attach`] must follow when it has a blob table.
    ///
    /// # Errors
    /// [`ReadError::Io`], [`ReadError::Corrupt`] (rules 1 to 10 and 30),
    /// [`ReadError::Limit`] for more than 256 MiB of tables.
    pub fn open(
        source: Box<dyn ReadAt>,
        layer: u32,
        cache: Arc<BlockCache>,
    ) -> Result<Self, ReadError> {
        let io = |cause| ReadError::Io { layer, cause: Arc::new(cause) };
        let corrupt = |cause| ReadError::Corrupt { layer, cause };
        let length = source.length().map_err(io)?;
        let mut bytes = vec![0; SUPERBLOCK_SIZE];
        let at = length.checked_sub(wide(SUPERBLOCK_SIZE));
        let at = at.ok_or(corrupt(FormatError::new(Rule::Length, Place::Blob)))?;
        source.read_exact_at(at, &mut bytes).map_err(io)?;
        let superblock = Superblock::parse(&bytes, length).map_err(corrupt)?;

        let page_bytes = superblock.page_count().unwrap_or(u64::MAX).saturating_mul(32);
        let blob_bytes = u64::from(superblock.blob_count).saturating_mul(wide(BLOB_RECORD_SIZE));
        let tables = page_bytes.saturating_add(blob_bytes);
        if tables > TAIL_TABLE_MAX {
            let what = "bytes of page digests";
            return Err(ReadError::Limit { what, limit: TAIL_TABLE_MAX });
        }
        let mut pages = vec![0; index64(tables)];
        let (page_part, blob_part) = pages
            .split_at_mut_checked(index64(page_bytes))
            .ok_or(corrupt(FormatError::new(Rule::Parts, Place::Tail)))?;
        source.read_exact_at(superblock.pages_offset, page_part).map_err(io)?;
        source.read_exact_at(superblock.blobs_offset, blob_part).map_err(io)?;
        let raw = <[RawBlobRecord]>::ref_from_bytes(blob_part).unwrap_or_default();
        let blobs = raw.iter().map(BlobRecord::parse).collect();
        if superblock.digest_algorithm.digest(&pages) != superblock.tail_digest {
            return Err(corrupt(FormatError::new(Rule::TailDigest, Place::Tail)));
        }
        pages.truncate(index64(page_bytes));
        let superblock_sha256 = DigestAlgorithm::Sha256.digest(&bytes);
        let below = Vec::new();
        Ok(Self { source, layer, superblock, superblock_sha256, pages, blobs, below, cache })
    }

    /// The blobs that this layer refers to.
    #[must_use]
    pub fn blob_table(&self) -> &[BlobRecord] {
        &self.blobs
    }

    /// Gives the layer the images behind its blob table, in its order.
    ///
    /// # Errors
    /// [`ReadError::MissingBlob`] when there are fewer than records;
    /// [`ReadError::Corrupt`] (rule 30) when one has not the superblock or
    /// length that its record says.
    pub fn attach(&mut self, below: Vec<Arc<Image>>) -> Result<(), ReadError> {
        for (record, image) in self.blobs.iter().zip(&below) {
            if record.superblock_sha256 != image.superblock_sha256
                || record.length != image.superblock.blob_length
            {
                return Err(self.corrupt(Rule::BlobTable, Place::Tail));
            }
        }
        if let Some(missing) = self.blobs.get(below.len()) {
            let digest = missing.blob_sha256;
            return Err(ReadError::MissingBlob { layer: self.layer, digest });
        }
        self.below = below;
        Ok(())
    }

    /// The checked superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// SHA-256 of the last 4096 bytes of the blob.
    #[must_use]
    pub fn superblock_sha256(&self) -> [u8; 32] {
        self.superblock_sha256
    }

    /// Number of the layer in its stack.
    #[must_use]
    pub fn layer(&self) -> u32 {
        self.layer
    }

    pub(crate) fn corrupt(&self, rule: Rule, place: Place) -> ReadError {
        ReadError::Corrupt { layer: self.layer, cause: FormatError::new(rule, place) }
    }

    pub(crate) fn broken(&self, cause: FormatError) -> ReadError {
        ReadError::Corrupt { layer: self.layer, cause }
    }

    fn io(&self, cause: std::io::Error) -> ReadError {
        ReadError::Io { layer: self.layer, cause: Arc::new(cause) }
    }

    /// A verified page of block pointers.
    fn page(&self, page: u64) -> Result<Block, ReadError> {
        let bad = || self.corrupt(Rule::PageDigest, Place::Page(page));
        let per_page = 1u64.checked_shl(u32::from(self.superblock.page_log)).unwrap_or(1);
        let pointers = self.superblock.block_count().unwrap_or(0);
        let first = page.checked_mul(per_page).ok_or_else(bad)?;
        let records = pointers.checked_sub(first).ok_or_else(bad)?.min(per_page);
        let length = records.saturating_mul(wide(POINTER_SIZE));
        self.cache.fetch(cache::Key::Page(self.layer, page), length, || {
            let skip = first.saturating_mul(wide(POINTER_SIZE));
            let at = self.superblock.pointers_offset.saturating_add(skip);
            let mut bytes = vec![0; index64(length)];
            self.source.read_exact_at(at, &mut bytes).map_err(|cause| self.io(cause))?;
            let start = index64(page.saturating_mul(32));
            let recorded = self.pages.get(start..start.saturating_add(32));
            let digest = self.superblock.digest_algorithm.digest(&bytes);
            if recorded == Some(digest.as_slice()) { Ok(bytes) } else { Err(bad()) }
        })
    }

    /// The checked pointer of block `number`.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] (rules 11, 12 and 25), [`ReadError::Io`].
    pub fn block_pointer(&self, number: u64) -> Result<BlockPointer, ReadError> {
        if number >= self.superblock.block_count().unwrap_or(0) {
            return Err(self.corrupt(Rule::ExtentBlocks, Place::Block(number)));
        }
        let log = u32::from(self.superblock.page_log);
        let page = self.page(number.checked_shr(log).unwrap_or(0))?;
        let first = number.checked_shr(log).and_then(|page| page.checked_shl(log)).unwrap_or(0);
        let slot = index64(number.saturating_sub(first));
        let start = slot.saturating_mul(POINTER_SIZE);
        let raw = page.get(start..start.saturating_add(POINTER_SIZE));
        let raw = raw.and_then(|bytes| RawBlockPointer::ref_from_bytes(bytes).ok());
        let raw = raw.ok_or_else(|| self.corrupt(Rule::BlockPointer, Place::Block(number)))?;
        BlockPointer::parse(raw, number, &self.superblock.pointer_bounds(number))
            .map_err(|cause| self.broken(cause))
    }

    /// Reads, verifies and decodes a block into `plain`, which is as long as
    /// the pointer says; nothing is cached.
    fn load_into(
        &self,
        number: u64,
        pointer: &BlockPointer,
        plain: &mut [u8],
    ) -> Result<(), ReadError> {
        self.cache.count_block(pointer.stored_length, pointer.plain_length);
        let verify = |stored: &[u8]| {
            if self.superblock.digest_algorithm.digest(stored) == pointer.digest {
                Ok(())
            } else {
                Err(self.corrupt(Rule::BlockDigest, Place::Block(number)))
            }
        };
        if pointer.codec == Codec::Raw {
            let read = self.source.read_exact_at(pointer.offset, plain);
            read.map_err(|cause| self.io(cause))?;
            return verify(plain);
        }
        STORED.with_borrow_mut(|stored| {
            stored.resize(index(pointer.stored_length), 0);
            let read = self.source.read_exact_at(pointer.offset, stored);
            read.map_err(|cause| self.io(cause))?;
            verify(stored)?;
            compress::decode_verified(pointer.codec, stored, plain).map_err(|cause| match cause {
                compress::CodecError::Damaged => {
                    self.corrupt(Rule::BlockData, Place::Block(number))
                }
                other => {
                    let cause = Arc::new(other);
                    ReadError::Codec { layer: self.layer, block: number, cause }
                }
            })
        })
    }

    fn load(&self, number: u64, pointer: &BlockPointer) -> Result<Vec<u8>, ReadError> {
        let mut plain = vec![0; index(pointer.plain_length)];
        self.load_into(number, pointer, &mut plain)?;
        Ok(plain)
    }

    /// A block through the cache.
    fn block(&self, number: u64, pointer: &BlockPointer) -> Result<Block, ReadError> {
        let key = cache::Key::Block(self.layer, number);
        self.cache.fetch(key, u64::from(pointer.plain_length), || self.load(number, pointer))
    }

    fn cached(&self, number: u64) -> Option<Block> {
        self.cache.peek(cache::Key::Block(self.layer, number))
    }

    /// Stored bytes of a block, verified but not decoded.
    ///
    /// # Errors
    /// [`ReadError::Io`] and [`ReadError::Corrupt`].
    pub fn stored_block(&self, number: u64) -> Result<(BlockPointer, Vec<u8>), ReadError> {
        let pointer = self.block_pointer(number)?;
        let mut stored = vec![0; index(pointer.stored_length)];
        let read = self.source.read_exact_at(pointer.offset, &mut stored);
        read.map_err(|cause| self.io(cause))?;
        if self.superblock.digest_algorithm.digest(&stored) != pointer.digest {
            return Err(self.corrupt(Rule::BlockDigest, Place::Block(number)));
        }
        Ok((pointer, stored))
    }

    /// Unverified bytes of the blob, for `check`.
    pub(crate) fn raw_bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; length];
        self.source.read_exact_at(offset, &mut bytes).map_err(|cause| self.io(cause))?;
        Ok(bytes)
    }
}
