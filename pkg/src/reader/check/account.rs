//! Every byte of the blob: prologue, superblock, blob table, gaps.

use zerocopy::IntoBytes;

use super::Checker;
use crate::format::blob_table::BLOB_RECORD_SIZE;
use crate::format::block_pointer::POINTER_SIZE;
use crate::format::prologue::{MAGIC, RawPrologue, TEXT};
use crate::format::{PROLOGUE_SIZE, Place, Rule, SUPERBLOCK_SIZE, VERSION, index64, wide};

/// Bytes of a gap that are read at a time.
const CHUNK: u64 = 64 << 10;

/// Where the superblock's compatible feature bits are; a later version may
/// set some that are not known here.
const COMPATIBLE: std::ops::Range<usize> = 24..32;

impl Checker<'_> {
    /// Rule 35.
    pub(super) fn prologue(&mut self) {
        let superblock = &self.image.superblock;
        let expected = RawPrologue {
            magic: MAGIC,
            version: VERSION.into(),
            block_log: superblock.block_log,
            metadata_log: superblock.metadata_log,
            digest_algorithm: superblock.digest_algorithm.code(),
            reserved: 0,
            text: TEXT,
        };
        let stored = self.image.raw_bytes(0, PROLOGUE_SIZE);
        if let Some(stored) = self.read(stored)
            && stored != expected.as_bytes()
        {
            self.findings.broken(Rule::Prologue, Place::Prologue);
        }
    }

    /// Rule 34 for the superblock: what has no meaning is zero.
    pub(super) fn superblock(&mut self) {
        let superblock = &self.image.superblock;
        let start = superblock.blob_length.saturating_sub(wide(SUPERBLOCK_SIZE));
        let stored = self.image.raw_bytes(start, SUPERBLOCK_SIZE);
        let Some(stored) = self.read(stored) else { return };
        // The last 32 bytes are the digest of all others.
        let digested = SUPERBLOCK_SIZE.saturating_sub(32);
        let meaning = superblock.to_bytes();
        let pairs = stored.iter().zip(&meaning).take(digested).enumerate();
        let mut other = pairs.filter(|(at, (a, b))| a != b && !COMPATIBLE.contains(at));
        if let Some((at, _)) = other.next() {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            self.findings.broken(Rule::Unaccounted, Place::Superblock(at));
        }
    }

    /// Rule 34: no byte belongs to two things, and those that belong to none
    /// are zero. `spans` are the stored bytes of all blocks.
    pub(super) fn account(&mut self, mut spans: Vec<(u64, u64)>) {
        let superblock = &self.image.superblock;
        let blocks = superblock.block_count().unwrap_or(0);
        let pages = superblock.page_count().unwrap_or(0);
        let end = superblock.blob_length.saturating_sub(wide(SUPERBLOCK_SIZE));
        let blobs = u64::from(superblock.blob_count).saturating_mul(wide(BLOB_RECORD_SIZE));
        let are_all = wide(spans.len()) == blocks;
        spans.extend([
            (0, wide(PROLOGUE_SIZE)),
            (superblock.pointers_offset, blocks.saturating_mul(wide(POINTER_SIZE))),
            (superblock.pages_offset, pages.saturating_mul(32)),
            (superblock.blobs_offset, blobs),
            (end, wide(SUPERBLOCK_SIZE)),
        ]);
        spans.sort_unstable();
        let mut at = 0u64;
        for (start, length) in spans {
            if start < at && length > 0 {
                self.findings.broken(Rule::Unaccounted, Place::Offset(start));
            }
            // Bytes of a block whose pointer is broken are no gap.
            if start > at && are_all {
                self.gap(at, start);
            }
            at = at.max(start.saturating_add(length));
            if self.findings.is_full() {
                return;
            }
        }
    }

    fn gap(&mut self, start: u64, end: u64) {
        let mut at = start;
        while at < end {
            let take = end.saturating_sub(at).min(CHUNK);
            let bytes = self.image.raw_bytes(at, index64(take));
            let Some(bytes) = self.read(bytes) else { return };
            if let Some(inside) = bytes.iter().position(|byte| *byte != 0) {
                let place = Place::Offset(at.saturating_add(wide(inside)));
                return self.findings.broken(Rule::Unaccounted, place);
            }
            at = at.saturating_add(take);
        }
        let length = end.saturating_sub(start);
        self.report.gap_bytes = self.report.gap_bytes.saturating_add(length);
    }
}
