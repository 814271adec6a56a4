//! Names: finding one in a directory, and listing them.

use std::ops::ControlFlow;

use super::Image;
use crate::error::ReadError;
use crate::format::dentry::{Dentry, DentryBlock, DentryKind};
use crate::format::inode::{Inode, InodeKind};
use crate::format::section::Section;
use crate::format::{Place, Rule, index64, wide};

/// A dentry and its position among all of the layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundDentry {
    /// Position.
    pub position: u64,
    /// The dentry.
    pub dentry: Dentry,
}

/// Takes the names of a directory one by one.
pub type EachDentry<'a> =
    &'a mut dyn FnMut(&[u8], FoundDentry) -> Result<ControlFlow<()>, ReadError>;

/// A directory's dentries: first position and position after the last.
type Range = (u64, u64);

impl Image {
    /// Position of the first dentry in dentry block `block`.
    pub(crate) fn dentry_block_first(&self, block: u64) -> Result<u64, ReadError> {
        let place = Place::Dentry(block);
        let section = Section::DentryIndex;
        Ok(u64::from_le_bytes(self.record::<8>(section, block, Rule::DentryIndex, place)?))
    }

    /// The dentry block that holds a position, and its first position.
    fn dentry_block_of(&self, position: u64) -> Result<(u64, u64), ReadError> {
        let span = self.superblock.sections.span(Section::Dentries);
        if position >= span.count {
            return Err(self.corrupt(Rule::DentryIndex, Place::Dentry(position)));
        }
        let (mut low, mut high) = (0u64, span.blocks);
        let mut first = 0;
        while high.saturating_sub(low) > 1 {
            let middle = low.midpoint(high);
            let start = self.dentry_block_first(middle)?;
            if start <= position {
                low = middle;
                first = start;
            } else {
                high = middle;
            }
        }
        if low == 0 {
            first = self.dentry_block_first(0)?;
            if first != 0 {
                return Err(self.corrupt(Rule::DentryIndex, Place::Dentry(0)));
            }
        }
        Ok((low, first))
    }

    /// Calls `look` with a dentry block and checks that it is as long as the index says.
    pub(crate) fn with_dentry_block<T>(
        &self,
        block: u64,
        first: u64,
        look: impl FnOnce(&DentryBlock<'_>) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        let span = self.superblock.sections.span(Section::Dentries);
        let bytes = self.metadata_block(span.first_block.saturating_add(block))?;
        let view = DentryBlock::parse(&bytes, first).map_err(|cause| self.broken(cause))?;
        let end = first.saturating_add(wide(view.count()));
        let next = block.saturating_add(1);
        let expected = if next < span.blocks { self.dentry_block_first(next)? } else { span.count };
        if end != expected {
            return Err(self.corrupt(Rule::DentryIndex, Place::Dentry(first)));
        }
        look(&view)
    }

    /// The dentries of a directory inode.
    ///
    /// # Errors
    /// [`ReadError::NotADirectory`]; [`ReadError::Corrupt`] (rule 32) when they lie outside.
    pub fn dentry_range(&self, directory: &Inode) -> Result<Range, ReadError> {
        let InodeKind::Directory { first, count, .. } = directory.kind else {
            return Err(ReadError::NotADirectory);
        };
        let end = first.checked_add(u64::from(count));
        let total = self.superblock.sections.span(Section::Dentries).count;
        let end = end.filter(|end| *end <= total);
        let end = end.ok_or_else(|| self.corrupt(Rule::Tree, Place::Inode(directory.index)))?;
        Ok((first, end))
    }

    /// The dentry at a position, with its name.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] and [`ReadError::Io`].
    pub fn dentry(&self, position: u64) -> Result<(Dentry, Vec<u8>), ReadError> {
        let (block, first) = self.dentry_block_of(position)?;
        self.with_dentry_block(block, first, |view| {
            let slot = index64(position.saturating_sub(first));
            let name = view.name(slot).map_err(|cause| self.broken(cause))?;
            let dentry = view.dentry(slot).map_err(|cause| self.broken(cause))?;
            Ok((dentry, name.to_vec()))
        })
    }

    /// Looks a name up in a directory of this layer.
    ///
    /// # Errors
    /// [`ReadError::NotADirectory`], [`ReadError::Corrupt`], [`ReadError::Io`].
    pub fn find(&self, directory: &Inode, name: &[u8]) -> Result<Option<FoundDentry>, ReadError> {
        let (start, end) = self.dentry_range(directory)?;
        if start == end {
            return Ok(None);
        }
        let (mut low, mut first) = self.dentry_block_of(start)?;
        let (last, _) = self.dentry_block_of(end.saturating_sub(1))?;
        // The last block whose first name is not after `name`; the first block
        // may begin with names of another directory.
        let mut high = last.saturating_add(1);
        while high.saturating_sub(low) > 1 {
            let middle = low.midpoint(high);
            let middle_first = self.dentry_block_first(middle)?;
            let after = self.with_dentry_block(middle, middle_first, |view| {
                Ok(view.name(0).map_err(|cause| self.broken(cause))? > name)
            })?;
            if after {
                high = middle;
            } else {
                low = middle;
                first = middle_first;
            }
        }
        self.with_dentry_block(low, first, |view| {
            let (from, to) = window((start, end), first, view.count());
            search(view, from, to, name)
                .map_err(|cause| self.broken(cause))?
                .map(|slot| {
                    let dentry = view.dentry(slot).map_err(|cause| self.broken(cause))?;
                    Ok(FoundDentry { position: first.saturating_add(wide(slot)), dentry })
                })
                .transpose()
        })
    }

    /// Calls `each` with the dentries of a directory from its `skip`th on,
    /// until it breaks. Names come sorted, whiteouts included.
    ///
    /// # Errors
    /// [`ReadError::NotADirectory`], [`ReadError::Corrupt`], [`ReadError::Io`].
    pub fn list(
        &self,
        directory: &Inode,
        skip: u64,
        each: EachDentry<'_>,
    ) -> Result<(), ReadError> {
        let (start, end) = self.dentry_range(directory)?;
        let mut at = start.saturating_add(skip);
        if at >= end {
            return Ok(());
        }
        let (mut block, mut first) = self.dentry_block_of(at)?;
        while at < end {
            let flow = self.with_dentry_block(block, first, |view| {
                let (from, to) = window((at, end), first, view.count());
                for slot in from..to {
                    let name = view.name(slot).map_err(|cause| self.broken(cause))?;
                    let dentry = view.dentry(slot).map_err(|cause| self.broken(cause))?;
                    let position = first.saturating_add(wide(slot));
                    if each(name, FoundDentry { position, dentry })?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                at = first.saturating_add(wide(to));
                first = first.saturating_add(wide(view.count()));
                Ok(ControlFlow::Continue(()))
            })?;
            if flow.is_break() {
                return Ok(());
            }
            block = block.saturating_add(1);
        }
        Ok(())
    }

    /// The path of a directory or of the first name of another inode, relative
    /// to the layer's root.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] (rule 31) when parents do not lead to the root.
    pub fn path(&self, inode: u32) -> Result<Vec<u8>, ReadError> {
        let mut parts = Vec::new();
        let mut at = inode;
        while at != 0 {
            let node = self.inode(at)?;
            let bad = || self.corrupt(Rule::BackReference, Place::Inode(at));
            // In tree order a directory comes before what is in it.
            if node.parent >= at {
                return Err(bad());
            }
            let (dentry, name) = self.dentry(node.dentry.ok_or_else(bad)?)?;
            if dentry.inode != at || dentry.kind == DentryKind::Whiteout {
                return Err(bad());
            }
            parts.push(name);
            at = node.parent;
        }
        parts.reverse();
        Ok(parts.join(&b'/'))
    }
}

/// The slots of a block of `count` dentries starting at `first` that lie in `range`.
fn window(range: Range, first: u64, count: usize) -> (usize, usize) {
    let from = index64(range.0.saturating_sub(first)).min(count);
    let to = index64(range.1.saturating_sub(first)).min(count);
    (from, to)
}

/// Binary search for a name in slots `from..to`.
fn search(
    view: &DentryBlock<'_>,
    from: usize,
    to: usize,
    name: &[u8],
) -> Result<Option<usize>, crate::format::FormatError> {
    let (mut low, mut high) = (from, to);
    while low < high {
        let middle = low.midpoint(high);
        match view.name(middle)?.cmp(name) {
            std::cmp::Ordering::Less => low = middle.saturating_add(1),
            std::cmp::Ordering::Equal => return Ok(Some(middle)),
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Ok(None)
}
