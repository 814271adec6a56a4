//! Implied directories over symbolic links.
//!
//! A tar may hold `lib/x` without an entry for `lib`. Where `lib` is a
//! symbolic link to a directory in the layers below, `x` belongs into its
//! target (that is where any extraction puts it). Each layer lists its implied
//! directories, so this is settled once, when the stack is opened, from the
//! lowest layer up.

use std::collections::HashMap;

use super::{LayerInode, Stack};
use crate::error::ReadError;
use crate::format::FileType;
use crate::format::inode::InodeKind;
use crate::format::section::Section;

/// Where implied directories show, for those that do not show in their place.
#[derive(Debug, Default)]
pub(super) struct Redirects {
    /// Moved directory to the path where its names show.
    moved: HashMap<LayerInode, Vec<u8>>,
    /// A directory of the target, to what was moved into it.
    targets: HashMap<LayerInode, Vec<LayerInode>>,
}

impl Redirects {
    pub(super) fn is_empty(&self) -> bool {
        self.moved.is_empty()
    }

    pub(super) fn is_moved(&self, at: LayerInode) -> bool {
        !self.moved.is_empty() && self.moved.contains_key(&at)
    }

    pub(super) fn path_of(&self, at: LayerInode) -> Option<&[u8]> {
        self.moved.get(&at).map(Vec::as_slice)
    }

    /// The parts of a directory with what was moved into it from layers up to
    /// `top`, the top-most first; of one layer, what lies there by itself comes
    /// before what was moved there, and that in order of inodes.
    pub(super) fn with_moved(&self, mut parts: Vec<LayerInode>, top: u32) -> Vec<LayerInode> {
        if self.targets.is_empty() {
            return parts;
        }
        let into = parts.iter().filter_map(|part| self.targets.get(part)).flatten();
        let moved = into.filter(|at| at.layer <= top && !parts.contains(at));
        let mut moved: Vec<_> = moved.copied().collect();
        if !moved.is_empty() {
            moved.sort_unstable();
            moved.dedup();
            parts.extend(moved);
            parts.sort_by_key(|part| std::cmp::Reverse(part.layer));
        }
        parts
    }
}

impl Stack {
    /// Settles the implied directories of every layer but the lowest.
    pub(super) fn redirect(&mut self) -> Result<(), ReadError> {
        for layer in 1..=self.top() {
            let image = self.image(layer)?;
            let count = image.superblock().sections.span(Section::Implied).count;
            for number in 0..count {
                let inode = self.image(layer)?.implied(number)?;
                self.redirect_one(LayerInode { layer, inode })?;
            }
        }
        Ok(())
    }

    fn redirect_one(&mut self, at: LayerInode) -> Result<(), ReadError> {
        let inode = self.inode(at)?;
        let is_open = matches!(inode.kind, InodeKind::Directory { opaque: false, .. });
        if at.inode == 0 || !is_open {
            return Ok(());
        }
        let below = at.layer.checked_sub(1);
        let path = self.path_in_stack(at)?;
        let Some(here) = self.at_path(below, &path)? else { return Ok(()) };
        if self.inode(here)?.file_type() != Some(FileType::Symlink) {
            return Ok(());
        }
        let target = match self.trace(below, &path, true) {
            Ok(Some(target)) => target.path,
            Ok(None) | Err(ReadError::LinkUnresolved { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        // What its own layer makes of the target counts: it may make it, make
        // it opaque, or take it away, and never what the layer puts there.
        let into = match self.at_path(Some(at.layer), &target)? {
            Some(into) if self.inode(into)?.file_type() == Some(FileType::Directory) => into,
            _ => return Ok(()),
        };
        self.redirects.moved.insert(at, target);
        self.redirects.targets.entry(into).or_default().push(at);
        Ok(())
    }
}
