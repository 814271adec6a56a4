//! The bytes of a regular file.

use super::{Block, Image};
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

/// The part of a file that lies in a decoded block of which a read did not
/// want all.
#[derive(Debug, Clone)]
pub struct Share {
    /// The layer that the block is in.
    pub layer: u32,
    /// Number of the block there.
    pub number: u64,
    /// Its plain bytes.
    pub block: Block,
    /// Whether the block was decoded for this read.
    pub is_fresh: bool,
    /// Where the part begins in the file.
    pub file_offset: u64,
    /// Where it begins in the block.
    pub block_offset: u32,
    /// Its length in bytes.
    pub length: u32,
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
        self.read_sharing(inode, offset, buffer, &mut |_| {})
    }

    /// As [`Image::read_at`]; `shares` hears of every block that was decoded,
    /// now or before, and not wanted whole.
    ///
    /// # Errors
    /// As [`Image::read_at`].
    pub fn read_sharing(
        &self,
        inode: &Inode,
        offset: u64,
        buffer: &mut [u8],
        shares: &mut dyn FnMut(Share),
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
                RunKind::Data(slice) => self.read_run(&run, &slice, at, part, shares)?,
            }
            at = at.saturating_add(wide(take));
            rest = after;
        }
        // A directory or device has no bytes and no loop to notice it.
        Self::file_data(inode).map(|_| length)
    }

    /// Reads a part of a run of data that begins at byte `at` of the file.
    fn read_run(
        &self,
        run: &Run,
        slice: &BlockSlice,
        at: u64,
        buffer: &mut [u8],
        shares: &mut dyn FnMut(Share),
    ) -> Result<(), ReadError> {
        let image = match slice.blob.checked_sub(1) {
            None => self,
            Some(record) => self
                .below
                .get(index(record))
                .map(|image| &**image)
                .ok_or_else(|| self.corrupt(Rule::BlobTable, Place::Block(slice.block)))?,
        };
        let bad = |block| image.corrupt(Rule::ExtentBlocks, Place::Block(block));
        let size = u64::from(image.superblock.block_size());
        let log = u32::from(image.superblock.block_log);
        let offset = u64::from(slice.offset);
        let skip = at.saturating_sub(run.start);
        let start = offset.checked_add(skip).ok_or_else(|| bad(slice.block))?;
        if offset >= size {
            return Err(bad(slice.block));
        }
        let mut number = slice.block.saturating_add(start.checked_shr(log).unwrap_or(0));
        let mut inside = start & size.saturating_sub(1);
        let mut at = at;
        let mut rest = buffer;
        while !rest.is_empty() {
            if number >= image.superblock.content_blocks {
                return Err(bad(number));
            }
            let (taken, shared) = image.read_block(number, index64(inside), rest)?;
            if taken == 0 {
                return Err(bad(number));
            }
            if let Some((block, is_fresh)) = shared {
                // The first block of a run holds other bytes before it.
                let before = if number == slice.block { offset } else { 0 };
                let file_offset = at.saturating_sub(inside.saturating_sub(before));
                let end = wide(block.len()).saturating_sub(before);
                let length = end.min(run.end.saturating_sub(file_offset));
                shares(Share {
                    layer: image.layer,
                    number,
                    block,
                    is_fresh,
                    file_offset,
                    block_offset: u32::try_from(before).unwrap_or(u32::MAX),
                    length: u32::try_from(length).unwrap_or(0),
                });
            }
            rest = rest.get_mut(taken..).unwrap_or_default();
            // All blocks of an extent but the last are full.
            if !rest.is_empty() && inside.saturating_add(wide(taken)) != size {
                return Err(bad(number));
            }
            number = number.saturating_add(1);
            at = at.saturating_add(wide(taken));
            inside = 0;
        }
        Ok(())
    }

    /// Copies from one block, and gives it if it is in the cache now; a request
    /// for all of a block that is not cached is decoded straight into `buffer`.
    fn read_block(
        &self,
        number: u64,
        inside: usize,
        buffer: &mut [u8],
    ) -> Result<(usize, Option<(Block, bool)>), ReadError> {
        let (block, is_fresh) = match self.cached(number) {
            Some(block) => (block, false),
            None => {
                let pointer = self.block_pointer(number)?;
                let plain = index(pointer.plain_length);
                if inside == 0
                    && let Some(whole) = buffer.get_mut(..plain)
                {
                    self.load_into(number, &pointer, whole)?;
                    return Ok((plain, None));
                }
                (self.block(number, &pointer)?, true)
            }
        };
        let part = block.get(inside..).unwrap_or_default();
        let take = part.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..take), part.get(..take)) {
            to.copy_from_slice(from);
        }
        Ok((take, (take < block.len()).then_some((block, is_fresh))))
    }

    /// The plain bytes of a content block, through the cache.
    ///
    /// # Errors
    /// The rules of blocks.
    pub fn content_block(&self, number: u64) -> Result<Block, ReadError> {
        if number >= self.superblock.content_blocks {
            return Err(self.corrupt(Rule::ExtentBlocks, Place::Block(number)));
        }
        match self.cached(number) {
            Some(block) => Ok(block),
            None => self.block(number, &self.block_pointer(number)?),
        }
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
