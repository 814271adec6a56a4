//! Which plain bytes a blob's content blocks have, and which are used.

use super::super::Image;
use super::Checker;
use crate::error::ReadError;
use crate::format::extent::BlockSlice;
use crate::format::{Place, Rule};

/// The content blocks of one blob.
#[derive(Debug)]
struct Shape<'a> {
    image: &'a Image,
    /// Blocks that are not full, ascending.
    short: Vec<u64>,
}

/// The content blocks of a layer and of the blobs that it refers to.
#[derive(Debug)]
pub(super) struct Shapes<'a> {
    image: &'a Image,
    own: Shape<'a>,
    below: Vec<Shape<'a>>,
    /// Used plain bytes of the layer's own blocks, as if all were full.
    used: Vec<(u64, u64)>,
}

impl<'a> Checker<'a> {
    /// Needs the layer's own short blocks; finds those of the others.
    pub(super) fn shapes(&mut self, short: Vec<u64>) -> Shapes<'a> {
        let image = self.image;
        let mut below = Vec::new();
        for other in &image.below {
            let size = other.superblock.block_size();
            let numbers = 0..other.superblock.content_blocks;
            // A pointer that is broken is that layer's own finding.
            let is_short = |number: &u64| {
                let pointer = other.block_pointer(*number);
                pointer.is_ok_and(|pointer| pointer.plain_length < size)
            };
            below.push(Shape { image: other, short: numbers.filter(is_short).collect() });
        }
        Shapes { image, own: Shape { image, short }, below, used: Vec::new() }
    }
}

impl Shapes<'_> {
    /// Holds a slice of `length` bytes, at least 1, to rules 25 and 30, and
    /// counts it as used.
    pub(super) fn take(
        &mut self,
        slice: &BlockSlice,
        length: u64,
        place: Place,
    ) -> Result<(), ReadError> {
        let bad = self.image.corrupt(Rule::ExtentBlocks, place);
        let Some(record) = slice.blob.checked_sub(1) else {
            let (start, end) = self.own.hold(slice, length, &bad)?;
            self.used.push((start, end));
            return Ok(());
        };
        match self.below.get(crate::format::index(record)) {
            Some(shape) => shape.hold(slice, length, &bad).map(drop),
            // Not attached, so that nothing is known but its record.
            None if record < self.image.superblock.blob_count => Ok(()),
            None => Err(self.image.corrupt(Rule::BlobTable, place)),
        }
    }

    /// Plain bytes that nothing uses, of `plain` in all.
    pub(super) fn unused(mut self, plain: u64) -> u64 {
        self.used.sort_unstable();
        let (mut at, mut used) = (0u64, 0u64);
        for (start, end) in self.used {
            let fresh = end.saturating_sub(start.max(at));
            used = used.saturating_add(fresh);
            at = at.max(end);
        }
        plain.saturating_sub(used)
    }
}

impl Shape<'_> {
    /// The slice's plain bytes, counted as if all blocks were full.
    fn hold(
        &self,
        slice: &BlockSlice,
        length: u64,
        bad: &ReadError,
    ) -> Result<(u64, u64), ReadError> {
        let bad = || bad.clone();
        let superblock = &self.image.superblock;
        let size = u64::from(superblock.block_size());
        let offset = u64::from(slice.offset);
        let inside = offset.checked_add(length).ok_or_else(bad)?;
        let steps = inside.saturating_sub(1).checked_div(size).ok_or_else(bad)?;
        let last = slice.block.checked_add(steps).ok_or_else(bad)?;
        if offset >= size || last >= superblock.content_blocks {
            return Err(bad());
        }
        // All but the last are full.
        let next_short = self.short.partition_point(|number| *number < slice.block);
        if self.short.get(next_short).is_some_and(|number| *number < last) {
            return Err(bad());
        }
        let needed = inside.saturating_sub(steps.saturating_mul(size));
        if u64::from(self.image.block_pointer(last)?.plain_length) < needed {
            return Err(bad());
        }
        let start = slice.block.checked_mul(size).and_then(|start| start.checked_add(offset));
        let start = start.ok_or_else(bad)?;
        Ok((start, start.checked_add(length).ok_or_else(bad)?))
    }
}
