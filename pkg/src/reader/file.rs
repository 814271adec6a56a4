//! The bytes of a regular file.

use super::Image;
use crate::error::ReadError;
use crate::format::extent::BlockSlice;
use crate::format::inode::{FileData, Inode, InodeKind};
use crate::format::{Place, Rule, index, index64, wide};

/// A stretch of a file that one extent covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First byte in the file.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
    /// What is there.
    pub kind: RunKind,
}

/// What a [`Run`] is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunKind {
    /// Nothing: reads as zeros.
    Hole,
    /// Plain bytes of blocks.
    Data(BlockSlice),
}

impl Image {
    fn file_data(inode: &Inode) -> Result<FileData, ReadError> {
        match inode.kind {
            InodeKind::Regular(data) => Ok(data),
            InodeKind::Directory { .. } => Err(ReadError::IsADirectory),
            _ => Err(ReadError::NotARegularFile),
        }
    }

    /// The run that covers byte `offset` of a file; `None` at or past its end.
    ///
    /// # Errors
    /// [`ReadError::IsADirectory`], [`ReadError::NotARegularFile`],
    /// [`ReadError::Corrupt`] (rule 24), [`ReadError::Io`].
    pub fn run_at(&self, inode: &Inode, offset: u64) -> Result<Option<Run>, ReadError> {
        let data = Self::file_data(inode)?;
        if offset >= inode.size {
            return Ok(None);
        }
        let (first, count) = match data {
            FileData::Empty => return Ok(None),
            FileData::Inline(slice) => {
                let kind = RunKind::Data(slice);
                return Ok(Some(Run { start: 0, end: inode.size, kind }));
            }
            FileData::Extents { first, count } => (first, count),
        };
        let after = first.saturating_add(u64::from(count));
        let (mut low, mut high) = (first, after);
        while high.saturating_sub(low) > 1 {
            let middle = low.midpoint(high);
            if self.extent(middle)?.file_offset <= offset {
                low = middle;
            } else {
                high = middle;
            }
        }
        let extent = self.extent(low)?;
        let end = if high < after { self.extent(high)?.file_offset } else { inode.size };
        if extent.file_offset > offset || end <= offset || end > inode.size {
            return Err(self.corrupt(Rule::ExtentOrder, Place::Extent(low)));
        }
        let kind = extent.data.map_or(RunKind::Hole, RunKind::Data);
        Ok(Some(Run { start: extent.file_offset, end, kind }))
    }

    /// Fills `buffer` with the bytes of a file from `offset` on; returns how
    /// many there were, fewer than asked only at its end.
    ///
    /// # Errors
    /// As [`Image::run_at`], and the rules of blocks.
    pub fn read_at(
        &self,
        inode: &Inode,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, ReadError> {
        let left = inode.size.saturating_sub(offset);
        let length = buffer.len().min(index64(left));
        let mut rest = buffer.get_mut(..length).unwrap_or_default();
        let mut at = offset;
        while !rest.is_empty() {
            let run = self.run_at(inode, at)?;
            let run =
                run.ok_or_else(|| self.corrupt(Rule::ExtentOrder, Place::Inode(inode.index)))?;
            let take = rest.len().min(index64(run.end.saturating_sub(at)));
            let (part, after) = rest.split_at_mut_checked(take).unwrap_or_default();
            match run.kind {
                RunKind::Hole => part.fill(0),
                RunKind::Data(slice) => {
                    self.read_slice(&slice, at.saturating_sub(run.start), part)?;
                }
            }
            at = at.saturating_add(wide(take));
            rest = after;
        }
        // A directory or device has no bytes and no loop to notice it.
        Self::file_data(inode).map(|_| length)
    }

    fn read_slice(
        &self,
        slice: &BlockSlice,
        skip: u64,
        buffer: &mut [u8],
    ) -> Result<(), ReadError> {
        let image = match slice.blob.checked_sub(1) {
            None => self,
            Some(record) => self
                .below
                .get(index(record))
                .map(|image| &**image)
                .ok_or_else(|| self.corrupt(Rule::BlobTable, Place::Block(slice.block)))?,
        };
        image.read_blocks(slice.block, u64::from(slice.offset), skip, buffer)
    }

    fn read_blocks(
        &self,
        first: u64,
        offset: u64,
        skip: u64,
        buffer: &mut [u8],
    ) -> Result<(), ReadError> {
        let bad = |block| self.corrupt(Rule::ExtentBlocks, Place::Block(block));
        let log = u32::from(self.superblock.block_log);
        let start = offset.checked_add(skip).ok_or_else(|| bad(first))?;
        if offset >= u64::from(self.superblock.block_size()) {
            return Err(bad(first));
        }
        let mut number = first.saturating_add(start.checked_shr(log).unwrap_or(0));
        let mask = u64::from(self.superblock.block_size()).saturating_sub(1);
        let mut inside = index64(start & mask);
        let mut rest = buffer;
        while !rest.is_empty() {
            if number >= self.superblock.content_blocks {
                return Err(bad(number));
            }
            let taken = self.read_block(number, inside, rest)?;
            if taken == 0 {
                return Err(bad(number));
            }
            rest = rest.get_mut(taken..).unwrap_or_default();
            // All blocks of an extent but the last are full.
            let full = inside.saturating_add(taken) == index(self.superblock.block_size());
            if !rest.is_empty() && !full {
                return Err(bad(number));
            }
            number = number.saturating_add(1);
            inside = 0;
        }
        Ok(())
    }

    /// Copies from one block; a request for all of a block that is not cached
    /// is decoded straight into `buffer`.
    fn read_block(
        &self,
        number: u64,
        inside: usize,
        buffer: &mut [u8],
    ) -> Result<usize, ReadError> {
        let block = match self.cached(number) {
            Some(block) => block,
            None => {
                let pointer = self.block_pointer(number)?;
                let plain = index(pointer.plain_length);
                if inside == 0
                    && let Some(whole) = buffer.get_mut(..plain)
                {
                    self.load_into(number, &pointer, whole)?;
                    return Ok(plain);
                }
                self.block(number, &pointer)?
            }
        };
        let part = block.get(inside..).unwrap_or_default();
        let take = part.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..take), part.get(..take)) {
            to.copy_from_slice(from);
        }
        Ok(take)
    }

    /// The first byte at or after `offset` that is data; `None` when there is
    /// none before the end of the file.
    ///
    /// # Errors
    /// As [`Image::run_at`].
    pub fn seek_data(&self, inode: &Inode, offset: u64) -> Result<Option<u64>, ReadError> {
        let mut at = offset;
        while let Some(run) = self.run_at(inode, at)? {
            if matches!(run.kind, RunKind::Data(_)) {
                return Ok(Some(at));
            }
            at = run.end;
        }
        Ok(None)
    }

    /// The first byte at or after `offset` that is in a hole, the end of the
    /// file being one; `None` for an offset at or past the end.
    ///
    /// # Errors
    /// As [`Image::run_at`].
    pub fn seek_hole(&self, inode: &Inode, offset: u64) -> Result<Option<u64>, ReadError> {
        let mut at = offset;
        while let Some(run) = self.run_at(inode, at)? {
            if run.kind == RunKind::Hole {
                return Ok(Some(at));
            }
            at = run.end;
        }
        Ok((offset < inode.size).then_some(inode.size))
    }
}
