//! Records of the metadata sections.

use zerocopy::FromBytes;

use super::{Block, Image};
use crate::error::ReadError;
use crate::format::dentry::RawHardLink;
use crate::format::extent::{Extent, RawExtent};
use crate::format::inode::{INODE_SIZE, Inode, InodeKind, RawInode};
use crate::format::section::Section;
use crate::format::{Place, Rule, index, index64, planes, wide};

/// Longest string that is read from the heap.
const HEAP_STRING_MAX: u64 = 65_536;

impl Image {
    /// A metadata block, counted from the first one of part 2.
    pub(crate) fn metadata_block(&self, block: u64) -> Result<Block, ReadError> {
        let sb = &self.superblock;
        let number = sb.content_blocks.saturating_add(block);
        // A cached block's pointer and length have been checked.
        if let Some(cached) = self.cached(number) {
            return Ok(cached);
        }
        let pointer = self.block_pointer(number)?;
        let expected = sb.sections.plain_length(block);
        if expected.is_some_and(|length| length != u64::from(pointer.plain_length)) {
            return Err(self.corrupt(Rule::MetadataBlock, Place::Block(number)));
        }
        self.block(number, &pointer)
    }

    pub(crate) fn record<const W: usize>(
        &self,
        section: Section,
        number: u64,
        rule: Rule,
        place: Place,
    ) -> Result<[u8; W], ReadError> {
        let at = self.superblock.sections.locate(section, number);
        let at = at.ok_or_else(|| self.corrupt(rule, place))?;
        let block = self.metadata_block(at.block)?;
        planes::gather::<W>(&block, at.records, at.slot)
            .ok_or_else(|| self.corrupt(Rule::MetadataBlock, place))
    }

    /// The inode of an index.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] (rules 16 to 18 and those of blocks), [`ReadError::Io`].
    pub fn inode(&self, number: u32) -> Result<Inode, ReadError> {
        let place = Place::Inode(number);
        let record =
            self.record::<INODE_SIZE>(Section::Inodes, u64::from(number), Rule::InodeIndex, place)?;
        let raw =
            RawInode::ref_from_bytes(&record).map_err(|_| self.corrupt(Rule::Inode, place))?;
        Inode::parse(raw, number).map_err(|cause| self.broken(cause))
    }

    /// An extent record.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] (rule 24 and those of blocks), [`ReadError::Io`].
    pub fn extent(&self, number: u64) -> Result<Extent, ReadError> {
        let place = Place::Extent(number);
        let record = self.record::<24>(Section::Extents, number, Rule::ExtentOrder, place)?;
        let raw = RawExtent::ref_from_bytes(&record)
            .map_err(|_| self.corrupt(Rule::ExtentOrder, place))?;
        Ok(Extent::parse(raw))
    }

    /// A record of the hard-link table: inode, parent, dentry position.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] (rule 28 and those of blocks), [`ReadError::Io`].
    pub fn hard_link(&self, number: u64) -> Result<(u32, u32, u64), ReadError> {
        let place = Place::HardLink(number);
        let record = self.record::<16>(Section::HardLinks, number, Rule::HardLinks, place)?;
        let raw = RawHardLink::ref_from_bytes(&record)
            .map_err(|_| self.corrupt(Rule::HardLinks, place))?;
        Ok((raw.inode.get(), raw.parent.get(), raw.dentry.get()))
    }

    /// All names of an inode as (parent, dentry position), from the hard-link
    /// table, at most as many as it has links; empty when it has but one.
    ///
    /// # Errors
    /// As [`Image::hard_link`].
    pub fn hard_links(&self, inode: &Inode) -> Result<Vec<(u32, u64)>, ReadError> {
        let count = self.superblock.sections.span(Section::HardLinks).count;
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low.midpoint(high);
            if self.hard_link(middle)?.0 < inode.index {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        let mut names = Vec::new();
        while low < count {
            let (owner, parent, dentry) = self.hard_link(low)?;
            if owner != inode.index || names.len() >= index(inode.links) {
                break;
            }
            names.push((parent, dentry));
            low = low.saturating_add(1);
        }
        Ok(names)
    }

    /// Inode index `number` of the implied-directory table.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] (rule 29 and those of blocks), [`ReadError::Io`].
    pub fn implied(&self, number: u64) -> Result<u32, ReadError> {
        let place = Place::Implied(number);
        let record = self.record::<4>(Section::Implied, number, Rule::Implied, place)?;
        Ok(u32::from_le_bytes(record))
    }

    /// `length` bytes of the heap from `position` on.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] (rule 27 and those of blocks), [`ReadError::Io`].
    pub fn heap(&self, position: u64, length: u64) -> Result<Vec<u8>, ReadError> {
        let bad = || self.corrupt(Rule::Heap, Place::Heap(position));
        let sections = &self.superblock.sections;
        let size = sections.metadata_size();
        let end = position.checked_add(length).ok_or_else(bad)?;
        if length > HEAP_STRING_MAX || end > sections.heap_length() {
            return Err(bad());
        }
        let mut bytes = Vec::with_capacity(index64(length));
        let mut at = position;
        while at < end {
            let block_number = at.checked_div(size).ok_or_else(bad)?;
            let inside = at.checked_rem(size).ok_or_else(bad)?;
            // Only a string longer than a block may go on into the next one,
            // and then it starts with a block.
            if at == position && end > at.saturating_sub(inside).saturating_add(size) {
                let allowed = length > size && inside == 0;
                if !allowed {
                    return Err(bad());
                }
            }
            let first = sections.span(Section::Heap).first_block;
            let block = self.metadata_block(first.saturating_add(block_number))?;
            let part = block.get(index64(inside)..).ok_or_else(bad)?;
            let take = wide(part.len()).min(end.saturating_sub(at));
            if take == 0 {
                return Err(bad());
            }
            bytes.extend_from_slice(part.get(..index64(take)).ok_or_else(bad)?);
            at = at.saturating_add(take);
        }
        Ok(bytes)
    }

    /// The target of a symbolic link or the path of a link-below.
    ///
    /// # Errors
    /// [`ReadError::NotASymlink`] for other inodes; otherwise as [`Image::heap`].
    pub fn target(&self, inode: &Inode) -> Result<Vec<u8>, ReadError> {
        match inode.kind {
            InodeKind::Symlink(position) | InodeKind::LinkBelow(position) => {
                self.heap(position, inode.size)
            }
            _ => Err(ReadError::NotASymlink),
        }
    }
}
