//! The superblock's sums.

use std::mem::offset_of;

use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use super::Checker;
use super::blocks::BlockSums;
use super::inodes::Inodes;
use crate::format::superblock::{RawSuperblock, RawTotals};
use crate::format::{Place, Rule};

impl Checker<'_> {
    /// Rule 33.
    pub(super) fn totals(
        &mut self,
        blocks: &BlockSums,
        inodes: &Inodes,
        whiteouts: u64,
        xattr_known: u32,
    ) {
        let expected = RawTotals {
            data_bytes: inodes.files.data.into(),
            hole_bytes: inodes.files.holes.into(),
            content_plain: blocks.content_plain.into(),
            content_stored: blocks.content_stored.into(),
            metadata_plain: blocks.metadata_plain.into(),
            metadata_stored: blocks.metadata_stored.into(),
            unmappable_bytes: inodes.files.unmappable.into(),
            kinds: self.report.kinds.map(U64::new),
            whiteouts: whiteouts.into(),
            opaque: inodes.opaque.into(),
        };
        let superblock = &self.image.superblock;
        let stored = superblock.totals.as_bytes().chunks_exact(8);
        let mut at = offset_of!(RawSuperblock, totals);
        let mut wrong = Vec::new();
        for (stored, expected) in stored.zip(expected.as_bytes().chunks_exact(8)) {
            if stored != expected {
                wrong.push(at);
            }
            at = at.saturating_add(8);
        }
        let zstd =
            (blocks.content_codecs | blocks.metadata_codecs) & crate::format::Codec::Zstd.bit();
        let window_log = u32::from(superblock.window_log);
        let window = 1u64.checked_shl(window_log).unwrap_or(0);
        let window_is_right =
            if zstd == 0 { window_log == 0 } else { window_log > 0 && blocks.window <= window };
        let others = [
            (window_is_right, offset_of!(RawSuperblock, window_log)),
            (
                superblock.content_codecs == blocks.content_codecs,
                offset_of!(RawSuperblock, content_codecs),
            ),
            (
                superblock.metadata_codecs == blocks.metadata_codecs,
                offset_of!(RawSuperblock, metadata_codecs),
            ),
            (superblock.xattr_known == xattr_known, offset_of!(RawSuperblock, xattr_known)),
        ];
        wrong.extend(others.into_iter().filter(|(is_right, _)| !is_right).map(|(_, at)| at));
        for at in wrong {
            let at = u32::try_from(at).unwrap_or(u32::MAX);
            self.findings.broken(Rule::Totals, Place::Superblock(at));
        }
    }
}
