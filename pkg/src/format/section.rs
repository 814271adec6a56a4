//! The sections of part 2 and how records are found in them.

use super::{FormatError, Place, Rule, index64, wide};

/// A section of the metadata. They lie in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Section {
    /// [`RawInode`](super::inode::RawInode) records.
    Inodes,
    /// Dentry blocks.
    Dentries,
    /// First dentry of each dentry block, 8 bytes each.
    DentryIndex,
    /// [`RawExtent`](super::extent::RawExtent) records.
    Extents,
    /// [`RawXattrSet`](super::xattr::RawXattrSet) records.
    XattrSets,
    /// [`RawXattrEntry`](super::xattr::RawXattrEntry) records.
    XattrEntries,
    /// [`RawXattrName`](super::xattr::RawXattrName) records.
    XattrNames,
    /// Bytes of link targets, xattr names and values.
    Heap,
    /// [`RawHardLink`](super::dentry::RawHardLink) records.
    HardLinks,
    /// Inode indices of implied directories, 4 bytes each.
    Implied,
}

impl Section {
    /// All sections, in stored order.
    pub const ALL: [Self; 10] = [
        Self::Inodes,
        Self::Dentries,
        Self::DentryIndex,
        Self::Extents,
        Self::XattrSets,
        Self::XattrEntries,
        Self::XattrNames,
        Self::Heap,
        Self::HardLinks,
        Self::Implied,
    ];

    /// Bytes of a record; `None` for dentries and heap.
    #[must_use]
    pub fn record_size(self) -> Option<u64> {
        match self {
            Self::Inodes => Some(72),
            Self::DentryIndex => Some(8),
            Self::Extents => Some(24),
            Self::XattrSets | Self::XattrNames => Some(12),
            Self::XattrEntries | Self::HardLinks => Some(16),
            Self::Implied => Some(4),
            Self::Dentries | Self::Heap => None,
        }
    }

    fn position(self) -> usize {
        Self::ALL.iter().position(|section| *section == self).unwrap_or(0)
    }
}

/// Where one section lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SectionSpan {
    /// Number of its first block among the metadata blocks.
    pub first_block: u64,
    /// Its number of metadata blocks.
    pub blocks: u64,
    /// Records; for the heap, bytes of the blocks as if all but the last were full.
    pub count: u64,
}

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Metadata block, counted from the first one of part 2.
    pub block: u64,
    /// Records in that block.
    pub records: usize,
    /// The record's number there.
    pub slot: usize,
}

/// All sections of a blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sections {
    spans: [SectionSpan; Section::ALL.len()],
    metadata_size: u64,
}

impl Sections {
    /// Builds the table from (blocks, count) of each section in stored order.
    ///
    /// # Errors
    /// [`Rule::Sections`] when a count does not fill the blocks.
    pub fn new(
        stored: [(u64, u64); Section::ALL.len()],
        metadata_size: u64,
    ) -> Result<Self, FormatError> {
        let bad = || FormatError::new(Rule::Sections, Place::Superblock(168));
        let mut spans = [SectionSpan::default(); Section::ALL.len()];
        let mut first_block = 0u64;
        for ((span, section), (blocks, count)) in spans.iter_mut().zip(Section::ALL).zip(stored) {
            let fits = match section.record_size() {
                Some(size) => {
                    let capacity = metadata_size.checked_div(size).filter(|c| *c > 0);
                    capacity.is_some_and(|capacity| count.div_ceil(capacity) == blocks)
                }
                None if section == Section::Heap => count.div_ceil(metadata_size) == blocks,
                // Every dentry takes at least 8 bytes and every block holds at least one.
                None => blocks <= count && count <= blocks.saturating_mul(metadata_size >> 3),
            };
            if !fits {
                return Err(bad());
            }
            *span = SectionSpan { first_block, blocks, count };
            first_block = first_block.checked_add(blocks).ok_or_else(bad)?;
        }
        let table = Self { spans, metadata_size };
        if table.span(Section::DentryIndex).count != table.span(Section::Dentries).blocks {
            return Err(bad());
        }
        Ok(table)
    }

    /// Where a section lies.
    #[must_use]
    pub fn span(&self, section: Section) -> SectionSpan {
        self.spans.get(section.position()).copied().unwrap_or_default()
    }

    /// Number of metadata blocks of all sections.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        let last = self.spans.last().copied().unwrap_or_default();
        last.first_block.saturating_add(last.blocks)
    }

    /// Records that a full block of a fixed-size section holds.
    #[must_use]
    pub fn capacity(&self, section: Section) -> u64 {
        let size = section.record_size().unwrap_or(1);
        self.metadata_size.checked_div(size).unwrap_or(1).max(1)
    }

    /// Where record `number` of a fixed-size section is; `None` past its end.
    #[must_use]
    pub fn locate(&self, section: Section, number: u64) -> Option<Position> {
        let span = self.span(section);
        if number >= span.count {
            return None;
        }
        let capacity = self.capacity(section);
        let block = number.checked_div(capacity)?;
        let first = block.checked_mul(capacity)?;
        let records = capacity.min(span.count.checked_sub(first)?);
        Some(Position {
            block: span.first_block.checked_add(block)?,
            records: index64(records),
            slot: index64(number.checked_sub(first)?),
        })
    }

    /// Plain length that metadata block `block` must have, where its section
    /// prescribes one; `None` for dentry blocks.
    #[must_use]
    pub fn plain_length(&self, block: u64) -> Option<u64> {
        let mut sections = Section::ALL.into_iter();
        let section = sections.find(|section| {
            let span = self.span(*section);
            block >= span.first_block && block < span.first_block.saturating_add(span.blocks)
        })?;
        let span = self.span(section);
        let inside = block.checked_sub(span.first_block)?;
        match section.record_size() {
            Some(size) => {
                let capacity = self.capacity(section);
                let left = span.count.checked_sub(inside.checked_mul(capacity)?)?;
                capacity.min(left).checked_mul(size)
            }
            None if section == Section::Heap => {
                let left = span.count.checked_sub(inside.checked_mul(self.metadata_size)?)?;
                Some(self.metadata_size.min(left))
            }
            None => None,
        }
    }

    /// Size of a full metadata block in bytes.
    #[must_use]
    pub fn metadata_size(&self) -> u64 {
        self.metadata_size
    }

    /// Blocks and count of each section, as the superblock stores them.
    #[must_use]
    pub fn stored(&self) -> [(u64, u64); Section::ALL.len()] {
        self.spans.map(|span| (span.blocks, span.count))
    }

    /// Length of the heap in bytes.
    #[must_use]
    pub fn heap_length(&self) -> u64 {
        self.span(Section::Heap).count
    }

    /// Whether a length in memory is that of a full metadata block or less.
    #[must_use]
    pub fn fits(&self, length: usize) -> bool {
        wide(length) <= self.metadata_size
    }
}
