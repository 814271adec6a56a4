//! Which directories of which layers make up one directory.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::list::Listing;
use super::{LayerInode, NodeNum, Stack};
use crate::error::ReadError;
use crate::format::dentry::DentryKind;
use crate::format::inode::{Inode, InodeKind};
use crate::format::{FileType, wide};

/// Directories of layers that make up one, the top-most first.
pub(super) type Parts = Arc<[LayerInode]>;

/// Remembers merged directories, bounded in bytes, oldest out first.
#[derive(Debug)]
pub(super) struct MergeCache {
    budget: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    parts: HashMap<NodeNum, Parts>,
    listings: HashMap<NodeNum, Arc<Listing>>,
    order: VecDeque<(NodeNum, bool, u64)>,
    bytes: u64,
}

impl State {
    fn make_room(&mut self, budget: u64) {
        while self.bytes > budget {
            let Some((node, is_listing, size)) = self.order.pop_front() else { return };
            if is_listing {
                self.listings.remove(&node);
            } else {
                self.parts.remove(&node);
            }
            self.bytes = self.bytes.saturating_sub(size);
        }
    }
}

impl MergeCache {
    pub(super) fn new(budget: u64) -> Self {
        Self { budget, state: Mutex::default() }
    }

    fn parts(&self, node: NodeNum) -> Option<Parts> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.parts.get(&node).map(Arc::clone)
    }

    fn remember_parts(&self, node: NodeNum, parts: &Parts) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.parts.insert(node, Arc::clone(parts)).is_none() {
            let size = wide(parts.len()).saturating_mul(8).saturating_add(120);
            state.order.push_back((node, false, size));
            state.bytes = state.bytes.saturating_add(size);
            state.make_room(self.budget);
        }
    }

    pub(super) fn listing(&self, node: NodeNum) -> Option<Arc<Listing>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.listings.get(&node).map(Arc::clone)
    }

    pub(super) fn remember_listing(&self, node: NodeNum, listing: &Arc<Listing>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.listings.insert(node, Arc::clone(listing)).is_none() {
            let size = listing.bytes().saturating_add(120);
            state.order.push_back((node, true, size));
            state.bytes = state.bytes.saturating_add(size);
            state.make_room(self.budget);
        }
    }
}

/// What a name is in one layer's directory.
pub(super) enum Found {
    /// Not there.
    Nothing,
    /// Hidden.
    Whiteout,
    /// This inode.
    Inode(LayerInode, DentryKind),
}

impl Stack {
    pub(super) fn find_in(&self, directory: LayerInode, name: &[u8]) -> Result<Found, ReadError> {
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

    /// The layers' root directories that show, from layer `from` down.
    fn roots(&self, from: Option<u32>) -> Result<Vec<LayerInode>, ReadError> {
        let mut parts = Vec::new();
        let Some(from) = from else { return Ok(parts) };
        for layer in (0..=from).rev() {
            let at = LayerInode { layer, inode: 0 };
            parts.push(at);
            if Self::is_opaque(&self.inode(at)?) {
                break;
            }
        }
        Ok(parts)
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
        let parts = self.parts_of(at)?;
        self.merge.remember_parts(node, &parts);
        Ok(parts)
    }

    /// Walks from the root down to a directory, keeping at every step the
    /// directories of all layers that have a part in it.
    fn parts_of(&self, at: LayerInode) -> Result<Parts, ReadError> {
        if at.inode == 0 {
            return self.with_redirected(&self.roots(Some(self.top()))?).map(Into::into);
        }
        if let Some(path) = self.redirects.path_of(at) {
            // Shows under another path; its own layer's path leads nowhere.
            return self.walk(path).map(Into::into);
        }
        let path = self.image(at.layer)?.path(at.inode)?;
        let parts = self.walk(&path)?;
        if parts.first() == Some(&at) {
            return Ok(parts.into());
        }
        // Not visible any more: the number is stale or forged. Show it alone.
        Ok(Arc::new([at]))
    }

    fn walk(&self, path: &[u8]) -> Result<Vec<LayerInode>, ReadError> {
        let mut parts = self.with_redirected(&self.roots(Some(self.top()))?)?;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            parts = self.child_parts(&parts, name)?;
        }
        Ok(parts)
    }

    /// The parts of sub-directory `name`; empty when it is not a directory.
    pub(super) fn child_parts(
        &self,
        parts: &[LayerInode],
        name: &[u8],
    ) -> Result<Vec<LayerInode>, ReadError> {
        let mut child = Vec::new();
        for part in parts {
            match self.find_in(*part, name)? {
                Found::Nothing => {}
                Found::Inode(at, DentryKind::File(FileType::Directory)) => {
                    child.push(at);
                    if Self::is_opaque(&self.inode(at)?) {
                        break;
                    }
                }
                Found::Whiteout | Found::Inode(..) => break,
            }
        }
        self.with_redirected(&child)
    }

    /// Adds the implied directories that a symbolic link below moved here.
    fn with_redirected(&self, parts: &[LayerInode]) -> Result<Vec<LayerInode>, ReadError> {
        let mut all = parts.to_vec();
        if let Some(first) = parts.first() {
            all.extend(self.redirects.moved_to(*first));
            all.sort_by(|a, b| b.layer.cmp(&a.layer));
        }
        Ok(all)
    }

    /// The object that a path names in the layers below `layer`, before that
    /// layer's own changes. No symbolic link is followed.
    pub(super) fn lookup_below(
        &self,
        layer: u32,
        path: &[u8],
    ) -> Result<Option<LayerInode>, ReadError> {
        let mut parts = self.roots(layer.checked_sub(1))?;
        let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return self.object_in(&parts, name);
            }
            parts = self.child_parts(&parts, name)?;
        }
        Ok(None)
    }

    /// The object that a name stands for in a merged directory.
    pub(super) fn object_in(
        &self,
        parts: &[LayerInode],
        name: &[u8],
    ) -> Result<Option<LayerInode>, ReadError> {
        for part in parts {
            match self.find_in(*part, name)? {
                Found::Nothing => {}
                Found::Whiteout => return Ok(None),
                Found::Inode(at, DentryKind::LinkBelow) => return self.link_target(at).map(Some),
                Found::Inode(at, _) => return Ok(Some(at)),
            }
        }
        Ok(None)
    }

    /// What a link-below stands for.
    ///
    /// # Errors
    /// [`ReadError::LinkUnresolved`] and everything of the reader.
    pub(super) fn link_target(&self, at: LayerInode) -> Result<LayerInode, ReadError> {
        let image = self.image(at.layer)?;
        let target = image.target(&image.inode(at.inode)?)?;
        let found = self.lookup_below(at.layer, &target)?;
        found.ok_or(ReadError::LinkUnresolved { target })
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
