//! The report of a check.

use super::findings::Finding;
use crate::format::Codec;
use crate::format::superblock::KINDS;

/// Blocks of one codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodecCount {
    /// The codec.
    pub codec: Codec,
    /// Content blocks.
    pub content_blocks: u64,
    /// Metadata blocks.
    pub metadata_blocks: u64,
    /// Plain bytes of both.
    pub plain_bytes: u64,
    /// Stored bytes of both.
    pub stored_bytes: u64,
}

/// What a check found and counted, over one layer or several.
#[derive(Debug, Clone, Default)]
pub struct CheckReport {
    /// Every problem, once.
    pub findings: Vec<Finding>,
    /// Whether there are more problems than were asked for; the check then
    /// ended early and counts are not complete.
    pub is_cut: bool,
    /// Layers that were checked.
    pub layers: u64,
    /// Bytes of their blobs.
    pub blob_bytes: u64,
    /// Blocks by codec, those that occur, in the order of the codes.
    pub codecs: Vec<CodecCount>,
    /// Inodes by dentry code 1 to 8: files, directories, symbolic links,
    /// character devices, block devices, pipes, sockets, links to layers below.
    pub kinds: [u64; KINDS],
    /// Dentries, whiteouts included.
    pub dentries: u64,
    /// Whiteouts.
    pub whiteouts: u64,
    /// Extent records; a file in one piece needs none.
    pub extents: u64,
    /// Distinct sets of extended attributes.
    pub xattr_sets: u64,
    /// Plain bytes of content that no file of the same layer uses: legal.
    pub unused_bytes: u64,
    /// Zero bytes of the blob that belong to nothing: legal.
    pub gap_bytes: u64,
}

impl CheckReport {
    /// Whether nothing was found.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    /// Number of inodes.
    #[must_use]
    pub fn inodes(&self) -> u64 {
        self.kinds.iter().copied().fold(0, u64::saturating_add)
    }

    /// Counts a block.
    pub(super) fn count_block(&mut self, codec: Codec, is_content: bool, plain: u64, stored: u64) {
        let add = |count: &mut u64, more: u64| *count = count.saturating_add(more);
        let slot = match self.codecs.binary_search_by_key(&codec, |count| count.codec) {
            Ok(slot) => slot,
            Err(slot) => {
                let none = CodecCount {
                    codec,
                    content_blocks: 0,
                    metadata_blocks: 0,
                    plain_bytes: 0,
                    stored_bytes: 0,
                };
                self.codecs.insert(slot, none);
                slot
            }
        };
        if let Some(count) = self.codecs.get_mut(slot) {
            let blocks =
                if is_content { &mut count.content_blocks } else { &mut count.metadata_blocks };
            add(blocks, 1);
            add(&mut count.plain_bytes, plain);
            add(&mut count.stored_bytes, stored);
        }
    }

    /// Adds the report of another layer.
    pub fn add(&mut self, other: Self) {
        let sum = |count: &mut u64, more: u64| *count = count.saturating_add(more);
        for count in other.codecs {
            match self.codecs.binary_search_by_key(&count.codec, |mine| mine.codec) {
                Err(slot) => self.codecs.insert(slot, count),
                Ok(slot) => {
                    if let Some(mine) = self.codecs.get_mut(slot) {
                        sum(&mut mine.content_blocks, count.content_blocks);
                        sum(&mut mine.metadata_blocks, count.metadata_blocks);
                        sum(&mut mine.plain_bytes, count.plain_bytes);
                        sum(&mut mine.stored_bytes, count.stored_bytes);
                    }
                }
            }
        }
        for (mine, more) in self.kinds.iter_mut().zip(other.kinds) {
            sum(mine, more);
        }
        self.findings.extend(other.findings);
        self.is_cut |= other.is_cut;
        sum(&mut self.layers, other.layers);
        sum(&mut self.blob_bytes, other.blob_bytes);
        sum(&mut self.dentries, other.dentries);
        sum(&mut self.whiteouts, other.whiteouts);
        sum(&mut self.extents, other.extents);
        sum(&mut self.xattr_sets, other.xattr_sets);
        sum(&mut self.unused_bytes, other.unused_bytes);
        sum(&mut self.gap_bytes, other.gap_bytes);
    }
}
