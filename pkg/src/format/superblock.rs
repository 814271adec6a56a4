//! The superblock: the last 4096 bytes, from which everything else is found.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::blob_table::BLOB_RECORD_SIZE;
use super::block_pointer::{POINTER_SIZE, PointerBounds};
use super::section::{Section, Sections};
use super::{
    BLOB_TABLE_MAX, BLOCK_LOG, Digest, DigestAlgorithm, FormatError, METADATA_LOG, PAGE_LOG,
    PROLOGUE_SIZE, Place, Rule, SUPERBLOCK_SIZE, VERSION, WINDOW_LOG_MAX, wide,
};

/// First bytes of every superblock.
pub const MAGIC: [u8; 8] = *b"\x89mfs-end";

/// Bytes that the superblock's own digest covers.
const DIGESTED: usize = SUPERBLOCK_SIZE - 32;

/// Number of file-type counters: types 1 to 7 and link-below.
pub const KINDS: usize = 8;

/// Sums over the whole layer, for reports and `statfs`. Sums saturate.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(C)]
pub struct RawTotals {
    /// Bytes of regular files, holes not counted, each inode once.
    pub data_bytes: U64,
    /// Bytes of regular files that lie in holes.
    pub hole_bytes: U64,
    /// Plain bytes of all content blocks.
    pub content_plain: U64,
    /// Stored bytes of all content blocks.
    pub content_stored: U64,
    /// Plain bytes of all metadata blocks.
    pub metadata_plain: U64,
    /// Stored bytes of all metadata blocks.
    pub metadata_stored: U64,
    /// Bytes of files whose extents the kernel's EROFS driver cannot map.
    pub unmappable_bytes: U64,
    /// Inodes by dentry code 1 to 8.
    pub kinds: [U64; KINDS],
    /// Whiteout dentries.
    pub whiteouts: U64,
    /// Opaque directories.
    pub opaque: U64,
}

/// The superblock as stored.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawSuperblock {
    /// [`MAGIC`].
    pub magic: [u8; 8],
    /// Format version.
    pub version: U32,
    /// [`SUPERBLOCK_SIZE`].
    pub superblock_size: U32,
    /// Features without which the blob cannot be read.
    pub incompatible: U64,
    /// Features that a reader may ignore.
    pub compatible: U64,
    /// Length of the blob in bytes.
    pub blob_length: U64,
    /// Base-2 logarithm of the content block size.
    pub block_log: u8,
    /// Base-2 logarithm of the metadata block size.
    pub metadata_log: u8,
    /// Code of the digest algorithm.
    pub digest_algorithm: u8,
    /// Base-2 logarithm of the number of block pointers in a page.
    pub page_log: u8,
    /// Largest zstd window in the blob as base-2 logarithm, 0 without zstd blocks.
    pub window_log: u8,
    /// Zero.
    pub reserved: [u8; 3],
    /// Bit `1 << code` for each codec of content blocks.
    pub content_codecs: U32,
    /// Bit `1 << code` for each codec of metadata blocks.
    pub metadata_codecs: U32,
    /// Number of content blocks.
    pub content_blocks: U64,
    /// Number of metadata blocks.
    pub metadata_blocks: U64,
    /// First byte of the content blocks.
    pub content_offset: U64,
    /// First byte after them.
    pub content_end: U64,
    /// First byte of the metadata blocks.
    pub metadata_offset: U64,
    /// First byte after them.
    pub metadata_end: U64,
    /// First byte of the block pointers.
    pub pointers_offset: U64,
    /// First byte of the page digests.
    pub pages_offset: U64,
    /// First byte of the blob table.
    pub blobs_offset: U64,
    /// Number of records in the blob table.
    pub blob_count: U32,
    /// Zero.
    pub reserved2: U32,
    /// Digest over the page digests and the blob table.
    pub tail_digest: Digest,
    /// Metadata blocks and records of each section.
    pub sections: [[U64; 2]; Section::ALL.len()],
    /// Sums.
    pub totals: RawTotals,
    /// Bits of [`known`](super::xattr::known).
    pub xattr_known: U32,
    /// Number of distinct xattr names.
    pub xattr_names: U32,
    /// Program, its version and that of its libraries; text padded with NUL.
    pub encoder: [u8; 64],
    /// Zero, for later use.
    pub unused: [u8; 3528],
    /// Digest of all bytes before this field.
    pub digest: Digest,
}

const _: () = assert!(size_of::<RawSuperblock>() == SUPERBLOCK_SIZE);

/// A checked superblock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Length of the blob in bytes.
    pub blob_length: u64,
    /// Base-2 logarithm of the content block size, 9 to 20.
    pub block_log: u8,
    /// Base-2 logarithm of the metadata block size, 12 to 16.
    pub metadata_log: u8,
    /// Base-2 logarithm of the number of block pointers in a page, 4 to 10.
    pub page_log: u8,
    /// Largest zstd window as base-2 logarithm.
    pub window_log: u8,
    /// How digests are made.
    pub digest_algorithm: DigestAlgorithm,
    /// Bit `1 << code` for each codec of content blocks.
    pub content_codecs: u32,
    /// Bit `1 << code` for each codec of metadata blocks.
    pub metadata_codecs: u32,
    /// Number of content blocks.
    pub content_blocks: u64,
    /// First byte of the content blocks, and first byte after them.
    pub content: (u64, u64),
    /// First byte of the metadata blocks, and first byte after them.
    pub metadata: (u64, u64),
    /// First byte of the block pointers.
    pub pointers_offset: u64,
    /// First byte of the page digests.
    pub pages_offset: u64,
    /// First byte of the blob table.
    pub blobs_offset: u64,
    /// Number of records in the blob table.
    pub blob_count: u32,
    /// Digest over the page digests and the blob table.
    pub tail_digest: Digest,
    /// Where the metadata sections are.
    pub sections: Sections,
    /// Sums over the layer.
    pub totals: RawTotals,
    /// Bits of [`known`](super::xattr::known).
    pub xattr_known: u32,
    /// Program and version that wrote the blob, padded with NUL.
    pub encoder: [u8; 64],
}

impl Superblock {
    /// Checks the last 4096 bytes of a blob of `blob_length` bytes.
    ///
    /// # Errors
    /// Rules 1 to 9 and 30.
    pub fn parse(bytes: &[u8], blob_length: u64) -> Result<Self, FormatError> {
        let bad = |rule, at| FormatError::new(rule, Place::Superblock(at));
        let size = wide(SUPERBLOCK_SIZE);
        let multiple = blob_length.checked_rem(size) == Some(0);
        if !multiple || blob_length < size.saturating_mul(2) {
            return Err(FormatError::new(Rule::Length, Place::Blob));
        }
        let raw = RawSuperblock::read_from_bytes(bytes).map_err(|_| bad(Rule::Length, 0))?;
        if raw.magic != MAGIC {
            return Err(bad(Rule::Magic, 0));
        }
        if raw.version.get() != VERSION || u64::from(raw.superblock_size.get()) != size {
            return Err(bad(Rule::Version, 8));
        }
        if raw.incompatible.get() != 0 {
            return Err(bad(Rule::Feature, 16));
        }
        let algorithm = DigestAlgorithm::from_code(raw.digest_algorithm);
        let algorithm = algorithm.ok_or(bad(Rule::Geometry, 42))?;
        let digested = bytes.get(..DIGESTED).unwrap_or_default();
        if algorithm.digest(digested) != raw.digest {
            return Err(bad(Rule::SuperblockDigest, 4064));
        }
        if raw.blob_length.get() != blob_length {
            return Err(bad(Rule::RecordedLength, 32));
        }
        if !BLOCK_LOG.contains(&raw.block_log)
            || !METADATA_LOG.contains(&raw.metadata_log)
            || !PAGE_LOG.contains(&raw.page_log)
            || raw.window_log > WINDOW_LOG_MAX
        {
            return Err(bad(Rule::Geometry, 40));
        }
        let metadata_size = 1u64.checked_shl(u32::from(raw.metadata_log)).unwrap_or(0);
        let sections = Sections::new(
            raw.sections.map(|[blocks, count]| (blocks.get(), count.get())),
            metadata_size,
        )?;
        if sections.blocks() != raw.metadata_blocks.get()
            || sections.span(Section::XattrNames).count != u64::from(raw.xattr_names.get())
        {
            return Err(bad(Rule::Sections, 64));
        }
        let inodes = sections.span(Section::Inodes).count;
        if inodes == 0 || inodes >= u64::from(u32::MAX) {
            return Err(bad(Rule::Sections, 168));
        }
        let superblock = Self {
            blob_length,
            block_log: raw.block_log,
            metadata_log: raw.metadata_log,
            page_log: raw.page_log,
            window_log: raw.window_log,
            digest_algorithm: algorithm,
            content_codecs: raw.content_codecs.get(),
            metadata_codecs: raw.metadata_codecs.get(),
            content_blocks: raw.content_blocks.get(),
            content: (raw.content_offset.get(), raw.content_end.get()),
            metadata: (raw.metadata_offset.get(), raw.metadata_end.get()),
            pointers_offset: raw.pointers_offset.get(),
            pages_offset: raw.pages_offset.get(),
            blobs_offset: raw.blobs_offset.get(),
            blob_count: raw.blob_count.get(),
            tail_digest: raw.tail_digest,
            sections,
            totals: raw.totals,
            xattr_known: raw.xattr_known.get(),
            encoder: raw.encoder,
        };
        superblock.check_parts()?;
        Ok(superblock)
    }

    fn check_parts(&self) -> Result<(), FormatError> {
        if self.blob_count > BLOB_TABLE_MAX {
            return Err(FormatError::new(Rule::BlobTable, Place::Superblock(128)));
        }
        self.parts_fit().ok_or(FormatError::new(Rule::Parts, Place::Superblock(72)))
    }

    /// `None` when an offset is out of order or does not follow from the counts.
    fn parts_fit(&self) -> Option<()> {
        let end = self.blob_length.checked_sub(wide(SUPERBLOCK_SIZE))?;
        let pointers = self.block_count()?.checked_mul(wide(POINTER_SIZE))?;
        let pages = self.page_count()?.checked_mul(32)?;
        let blobs = u64::from(self.blob_count).checked_mul(wide(BLOB_RECORD_SIZE))?;
        let after_pointers = self.pointers_offset.checked_add(pointers)?;
        let after_pages = self.pages_offset.checked_add(pages)?;
        let after_blobs = self.blobs_offset.checked_add(blobs)?;
        let order = [
            wide(PROLOGUE_SIZE),
            self.content.0,
            self.content.1,
            self.metadata.0,
            self.metadata.1,
            self.pointers_offset,
            after_pointers,
            self.pages_offset,
            after_pages,
            self.blobs_offset,
            after_blobs,
            end,
        ];
        let ordered = order.is_sorted();
        // Every block stores at least one byte, so counts are bounded by the length.
        let content = self.content.1.checked_sub(self.content.0)?;
        let metadata = self.metadata.1.checked_sub(self.metadata.0)?;
        let bounded = self.content_blocks <= content && self.sections.blocks() <= metadata;
        (ordered && bounded).then_some(())
    }

    /// The 4096 bytes to store, digest included.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; SUPERBLOCK_SIZE] {
        let mut raw = RawSuperblock::new_zeroed();
        raw.magic = MAGIC;
        raw.version = U32::new(VERSION);
        raw.superblock_size = U32::new(u32::try_from(SUPERBLOCK_SIZE).unwrap_or(0));
        raw.blob_length = U64::new(self.blob_length);
        raw.block_log = self.block_log;
        raw.metadata_log = self.metadata_log;
        raw.digest_algorithm = self.digest_algorithm.code();
        raw.page_log = self.page_log;
        raw.window_log = self.window_log;
        raw.content_codecs = U32::new(self.content_codecs);
        raw.metadata_codecs = U32::new(self.metadata_codecs);
        raw.content_blocks = U64::new(self.content_blocks);
        raw.metadata_blocks = U64::new(self.sections.blocks());
        raw.content_offset = U64::new(self.content.0);
        raw.content_end = U64::new(self.content.1);
        raw.metadata_offset = U64::new(self.metadata.0);
        raw.metadata_end = U64::new(self.metadata.1);
        raw.pointers_offset = U64::new(self.pointers_offset);
        raw.pages_offset = U64::new(self.pages_offset);
        raw.blobs_offset = U64::new(self.blobs_offset);
        raw.blob_count = U32::new(self.blob_count);
        raw.tail_digest = self.tail_digest;
        let stored = self.sections.stored();
        raw.sections = stored.map(|(blocks, count)| [U64::new(blocks), U64::new(count)]);
        raw.totals = self.totals;
        raw.xattr_known = U32::new(self.xattr_known);
        let names = self.sections.span(Section::XattrNames).count;
        raw.xattr_names = U32::new(u32::try_from(names).unwrap_or(u32::MAX));
        raw.encoder = self.encoder;
        let digested = raw.as_bytes().get(..DIGESTED).unwrap_or_default();
        raw.digest = self.digest_algorithm.digest(digested);
        let mut bytes = [0; SUPERBLOCK_SIZE];
        bytes.copy_from_slice(raw.as_bytes());
        bytes
    }

    /// Content block size in bytes.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        1u32.checked_shl(u32::from(self.block_log)).unwrap_or(0)
    }

    /// Metadata block size in bytes.
    #[must_use]
    pub fn metadata_size(&self) -> u32 {
        1u32.checked_shl(u32::from(self.metadata_log)).unwrap_or(0)
    }

    /// Number of blocks of both kinds; `None` when it overflows.
    #[must_use]
    pub fn block_count(&self) -> Option<u64> {
        self.content_blocks.checked_add(self.sections.blocks())
    }

    /// Number of pages of block pointers; `None` when the count overflows.
    #[must_use]
    pub fn page_count(&self) -> Option<u64> {
        let per_page = 1u64.checked_shl(u32::from(self.page_log))?;
        Some(self.block_count()?.div_ceil(per_page))
    }

    /// Number of inodes, 1 to 2^32 - 2.
    #[must_use]
    pub fn inode_count(&self) -> u64 {
        self.sections.span(Section::Inodes).count
    }

    /// Bytes of parts 2, 3 and 1: from the first metadata block to the end.
    #[must_use]
    pub fn tail_length(&self) -> u64 {
        self.blob_length.saturating_sub(self.metadata.0)
    }

    /// What block `number`'s pointer is checked against.
    #[must_use]
    pub fn pointer_bounds(&self, number: u64) -> PointerBounds {
        if number < self.content_blocks {
            let (start, end) = self.content;
            PointerBounds { start, end, block_size: self.block_size() }
        } else {
            let (start, end) = self.metadata;
            PointerBounds { start, end, block_size: self.metadata_size() }
        }
    }
}
