//! The extents of regular files.

use zerocopy::{FromBytes, IntoBytes};

use super::Checker;
use super::shape::Shapes;
use crate::error::ReadError;
use crate::format::extent::{BlockSlice, Extent, RawExtent};
use crate::format::inode::{FileData, Inode};
use crate::format::section::Section;
use crate::format::{Place, Rule};

/// How often an extent is looked at, on the average of all.
const SHARING_MAX: u64 = 16;

/// Content block sizes that the kernel's EROFS driver can map, as logarithms.
const MAPPABLE_LOG: std::ops::Range<u8> = 12..20;

/// Bytes of files, to be compared with the superblock's totals.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FileSums {
    pub data: u64,
    pub holes: u64,
    pub unmappable: u64,
    /// Extent records that were looked at.
    pub visits: u64,
}

/// The extent before the one that is looked at.
#[derive(Debug, Clone, Copy)]
struct Before {
    file_offset: u64,
    data: Option<BlockSlice>,
}

impl Checker<'_> {
    /// Rules 24, 25 and 30 for one file.
    pub(super) fn file(
        &mut self,
        inode: &Inode,
        data: FileData,
        shapes: &mut Shapes<'_>,
        sums: &mut FileSums,
    ) {
        let log = self.image.superblock.block_log;
        let bytes = inode.size.saturating_sub(inode.hole_bytes);
        let mapped = match data {
            FileData::Empty => true,
            FileData::Inline(slice) => {
                let place = Place::Inode(inode.index);
                let taken = shapes.take(&slice, inode.size, place);
                self.read(taken);
                let end = u64::from(slice.offset).saturating_add(inode.size);
                slice.offset == 0 || end <= u64::from(self.image.superblock.block_size())
            }
            FileData::Extents { first, count } => {
                self.extents(inode, first, count, shapes, sums).unwrap_or(true)
            }
        };
        sums.data = sums.data.saturating_add(bytes);
        sums.holes = sums.holes.saturating_add(inode.hole_bytes);
        let mapped = mapped && (MAPPABLE_LOG.contains(&log) || bytes == 0);
        if !mapped {
            sums.unmappable = sums.unmappable.saturating_add(bytes);
        }
    }

    /// Whether all data starts with a block; `None` when an extent is broken.
    fn extents(
        &mut self,
        inode: &Inode,
        first: u64,
        count: u32,
        shapes: &mut Shapes<'_>,
        sums: &mut FileSums,
    ) -> Option<bool> {
        let total = self.image.superblock.sections.span(Section::Extents).count;
        let after = first.saturating_add(u64::from(count));
        if after > total {
            self.spoil(Rule::ExtentOrder, Place::Inode(inode.index));
            return None;
        }
        // Files may share extents, but a hostile blob could share without end.
        let visits_max = total.saturating_mul(SHARING_MAX);
        sums.visits = sums.visits.saturating_add(u64::from(count));
        if sums.visits > visits_max {
            let what = "extents shared by files";
            self.incomplete = true;
            self.findings.error(ReadError::Limit { what, limit: visits_max });
            return None;
        }
        let mut before: Option<Before> = None;
        let mut holes = 0u64;
        let mut aligned = true;
        for number in first..after {
            let extent = self.extent(number)?;
            let place = Place::Extent(number);
            let in_order = match before {
                None => extent.file_offset == 0,
                Some(before) => extent.file_offset > before.file_offset,
            };
            if !in_order || extent.file_offset >= inode.size {
                self.spoil(Rule::ExtentOrder, place);
                return None;
            }
            if let Some(before) = before {
                let length = extent.file_offset.saturating_sub(before.file_offset);
                if self.goes_on(&before, length, &extent) {
                    self.spoil(Rule::ExtentOrder, place);
                }
                self.cover(number.saturating_sub(1), &before, length, shapes, &mut holes)?;
            }
            aligned &= extent.data.is_none_or(|slice| slice.offset == 0);
            before = Some(Before { file_offset: extent.file_offset, data: extent.data });
        }
        if let Some(last) = before {
            let length = inode.size.saturating_sub(last.file_offset);
            self.cover(after.saturating_sub(1), &last, length, shapes, &mut holes)?;
        }
        if holes != inode.hole_bytes {
            self.spoil(Rule::ExtentOrder, Place::Inode(inode.index));
        }
        Some(aligned)
    }

    /// The record, which is stored as its meaning would be.
    fn extent(&mut self, number: u64) -> Option<Extent> {
        let place = Place::Extent(number);
        let record = self.image.record::<24>(Section::Extents, number, Rule::ExtentOrder, place);
        let record = self.read(record)?;
        let extent = Extent::parse(RawExtent::ref_from_bytes(&record).ok()?);
        // A hole has no place.
        if extent.to_raw().as_bytes() != record {
            self.spoil(Rule::ExtentBlocks, place);
        }
        Some(extent)
    }

    fn cover(
        &mut self,
        number: u64,
        extent: &Before,
        length: u64,
        shapes: &mut Shapes<'_>,
        holes: &mut u64,
    ) -> Option<()> {
        match extent.data {
            None => {
                *holes = holes.saturating_add(length);
                Some(())
            }
            Some(slice) => {
                let taken = shapes.take(&slice, length, Place::Extent(number));
                self.read(taken)
            }
        }
    }

    /// Whether two extents should have been one.
    fn goes_on(&self, before: &Before, length: u64, extent: &Extent) -> bool {
        let (Some(a), Some(b)) = (before.data, extent.data) else {
            return before.data.is_none() && extent.data.is_none();
        };
        // Plain bytes counted as if all blocks of the blob were full.
        let own = self.image.superblock.block_log;
        let log = match a.blob.checked_sub(1) {
            None => Some(own),
            Some(record) => {
                let below = self.image.below.get(crate::format::index(record));
                below.map(|image| image.superblock.block_log)
            }
        };
        let Some(size) = log.and_then(|log| 1u128.checked_shl(u32::from(log))) else {
            return false;
        };
        let at = |slice: BlockSlice| {
            u128::from(slice.block).saturating_mul(size).saturating_add(slice.offset.into())
        };
        a.blob == b.blob && at(a).saturating_add(length.into()) == at(b)
    }
}
