//! Which directories of which layers make up one directory, and what its
//! names stand for.

use std::sync::Arc;

use super::{LayerInode, NodeNum, Stack};
use crate::error::ReadError;
use crate::format::FileType;
use crate::format::dentry::DentryKind;
use crate::format::inode::{Inode, InodeKind};
use crate::format::section::Section;

/// Directories of layers that make up one, the top-most first.
pub(super) type Parts = Arc<[LayerInode]>;

/// What a name is in one layer's directory.
pub(super) enum Found {
    /// Not there.
    Nothing,
    /// Hidden.
    Whiteout,
    /// This inode.
    Inode(LayerInode, DentryKind),
}

const DIRECTORY: DentryKind = DentryKind::File(FileType::Directory);

impl Stack {
    fn find_in(&self, directory: LayerInode, name: &[u8]) -> Result<Found, ReadError> {
        let image = self.image(directory.layer)?;
        let inode = image.inode(directory.inode)?;
        Ok(match image.find(&inode, name)? {
            None => Found::Nothing,
            Some(found) if found.dentry.kind == DentryKind::Whiteout => Found::Whiteout,
            Some(found) => {
                let at = LayerInode { layer: directory.layer, inode: found.dentry.inode };
                if self.redirects.is_moved(at) {
                    Found::Nothing
                } else {
                    Found::Inode(at, found.dentry.kind)
                }
            }
        })
    }

    fn is_opaque(inode: &Inode) -> bool {
        matches!(inode.kind, InodeKind::Directory { opaque: true, .. })
    }

    /// Whether a directory only shows where one is below it. Layers without
    /// implied directories are not looked at.
    pub(super) fn is_hollow(&self, at: LayerInode) -> Result<bool, ReadError> {
        let image = self.image(at.layer)?;
        if image.superblock().sections.span(Section::Implied).count == 0 {
            return Ok(false);
        }
        let kind = image.inode(at.inode)?.kind;
        Ok(matches!(kind, InodeKind::Directory { hollow: true, .. }))
    }

    /// The layers' root directories that show, from layer `top` down.
    pub(super) fn roots(&self, top: Option<u32>) -> Result<Vec<LayerInode>, ReadError> {
        let mut parts = Vec::new();
        let Some(top) = top else { return Ok(parts) };
        for layer in (0..=top).rev() {
            let at = LayerInode { layer, inode: 0 };
            parts.push(at);
            if Self::is_opaque(&self.inode(at)?) {
                break;
            }
        }
        Ok(self.redirects.with_moved(parts, top))
    }

    /// The directories that make up a directory, the top-most first.
    ///
    /// # Errors
    /// [`ReadError::NotADirectory`] and everything of the reader.
    pub(super) fn parts(&self, node: NodeNum) -> Result<Parts, ReadError> {
        let at = self.resolve(node)?;
        let inode = self.inode(at)?;
        if inode.file_type() != Some(FileType::Directory) {
            return Err(ReadError::NotADirectory);
        }
        if self.layers.len() == 1 {
            return Ok(Arc::new([at]));
        }
        if let Some(parts) = self.merge.parts(node) {
            return Ok(parts);
        }
        let mut parts = self.roots(Some(self.top()))?;
        if at.inode != 0 {
            for name in self.path_in_stack(at)?.split(|byte| *byte == b'/') {
                parts = self.child_parts(&parts, name, self.top())?;
            }
        }
        if !parts.contains(&at) && at.inode != 0 {
            // Not what shows at its path: the number is stale. Show it alone.
            parts = vec![at];
        }
        let parts: Parts = parts.into();
        self.merge.remember_parts(node, &parts);
        Ok(parts)
    }

    /// The parts of sub-directory `name` in the stack up to layer `top`; empty
    /// when the name does not stand for a directory.
    pub(super) fn child_parts(
        &self,
        parts: &[LayerInode],
        name: &[u8],
        top: u32,
    ) -> Result<Vec<LayerInode>, ReadError> {
        let mut child = Vec::new();
        let mut exists = false;
        // Marks of a layer hide the layers below it, not its other parts.
        let mut opaque = None;
        let mut end = None;
        for part in parts {
            let is_below = |layer: Option<u32>| layer.is_some_and(|layer| part.layer < layer);
            if is_below(end) || (is_below(opaque) && exists) {
                break;
            }
            match self.find_in(*part, name)? {
                Found::Nothing => {}
                Found::Inode(at, DIRECTORY) => {
                    exists |= !self.is_hollow(at)?;
                    if !is_below(opaque) {
                        child.push(at);
                        if Self::is_opaque(&self.inode(at)?) {
                            opaque = Some(at.layer);
                        }
                    }
                }
                Found::Inode(..) if !exists => break,
                Found::Whiteout | Found::Inode(..) => end = Some(part.layer),
            }
        }
        if !exists {
            child.clear();
        }
        Ok(self.redirects.with_moved(child, top))
    }

    /// The object that a name stands for in a merged directory; a link-below
    /// stands for its target.
    pub(super) fn object_in(
        &self,
        parts: &[LayerInode],
        name: &[u8],
    ) -> Result<Option<LayerInode>, ReadError> {
        let mut hollow = None;
        // A whiteout hides the layers below its own, not its other parts.
        let mut end = None;
        for part in parts {
            if end.is_some_and(|layer| part.layer < layer) {
                break;
            }
            match self.find_in(*part, name)? {
                Found::Nothing => {}
                Found::Whiteout => end = Some(part.layer),
                Found::Inode(at, DentryKind::LinkBelow) => return self.link_target(at).map(Some),
                Found::Inode(at, DIRECTORY) => {
                    if !self.is_hollow(at)? {
                        return Ok(Some(hollow.unwrap_or(at)));
                    }
                    hollow = hollow.or(Some(at));
                }
                Found::Inode(at, _) => return Ok(Some(at)),
            }
        }
        Ok(None)
    }

    /// What a link-below stands for: what its path names in the layers below
    /// its own, or else in its own (a link written before its target).
    ///
    /// # Errors
    /// [`ReadError::LinkUnresolved`] when that is nothing or a directory, and
    /// everything of the reader.
    pub(crate) fn link_target(&self, at: LayerInode) -> Result<LayerInode, ReadError> {
        let image = self.image(at.layer)?;
        let target = image.target(&image.inode(at.inode)?)?;
        let mut found = self.walk(at.layer.checked_sub(1), &target, false)?;
        if found.is_none() {
            found = self.own_target(at.layer, &target)?;
        }
        let found = found.map(|walked| walked.at);
        let is_file = match found {
            Some(found) => self.inode(found)?.file_type() != Some(FileType::Directory),
            None => false,
        };
        match found {
            Some(found) if is_file => Ok(found),
            _ => Err(ReadError::LinkUnresolved { target }),
        }
    }

    /// A path in one layer alone, no link followed.
    fn own_target(
        &self,
        layer: u32,
        path: &[u8],
    ) -> Result<Option<super::walk::Walked>, ReadError> {
        let image = self.image(layer)?;
        let mut at = LayerInode { layer, inode: 0 };
        for name in path.split(|byte| *byte == b'/') {
            let inode = self.inode(at)?;
            if inode.file_type() != Some(FileType::Directory) {
                return Ok(None);
            }
            match image.find(&inode, name)?.map(|found| found.dentry) {
                Some(dentry) if matches!(dentry.kind, DentryKind::File(_)) => {
                    at.inode = dentry.inode;
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(super::walk::Walked { at, path: path.to_vec() }))
    }

    /// Looks a name up in a directory.
    ///
    /// # Errors
    /// [`ReadError::NotADirectory`], [`ReadError::LinkUnresolved`] and
    /// everything of the reader.
    pub fn lookup(&self, directory: NodeNum, name: &[u8]) -> Result<Option<NodeNum>, ReadError> {
        let parts = self.parts(directory)?;
        Ok(self.object_in(&parts, name)?.map(|at| self.number(at)))
    }
}
