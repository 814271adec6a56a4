//! Open handles of directories, shared by threads that open files.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fd::{AsFd, OwnedFd};

use super::Fault;
use super::directory::open_handle;
use crate::tree::{NodeId, ValidTree};

/// Handles kept at most, beside the root.
const CAPACITY: usize = 128;
/// Of a chain of directories that had to be opened, these last ones are kept ...
const KEPT_RUN: usize = 16;

/// A bounded set of directory handles, the least recently used one being dropped.
///
/// A directory that is not in it is opened from its nearest ancestor that is,
/// name by name, following no link. Of the chain the last 16 are kept, and
/// beyond them those at distances that are powers of two, so that files of a
/// very deep tree, taken in any local order, need few steps each.
#[derive(Debug)]
pub(super) struct DirectoryCache {
    root: Arc<OwnedFd>,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    handles: HashMap<NodeId, (Arc<OwnedFd>, u64)>,
    clock: u64,
}

impl DirectoryCache {
    pub(super) fn new(root: OwnedFd) -> Self {
        Self { root: Arc::new(root), slots: Mutex::new(Slots::default()) }
    }

    /// A handle of a directory of the tree that was scanned.
    pub(super) fn open(&self, tree: &ValidTree, directory: NodeId) -> Result<Arc<OwnedFd>, Fault> {
        let (mut handle, missing) = self.nearest(tree, directory);
        for (distance, (node, name)) in (0..missing.len()).rev().zip(missing.iter().rev()) {
            handle = Arc::new(open_handle(handle.as_fd(), name)?);
            if distance < KEPT_RUN || distance.is_power_of_two() {
                self.lock().insert(*node, Arc::clone(&handle));
            }
        }
        Ok(handle)
    }

    /// The nearest ancestor that is open, and the directories below it, last first.
    fn nearest<'t>(
        &self,
        tree: &'t ValidTree,
        directory: NodeId,
    ) -> (Arc<OwnedFd>, Vec<(NodeId, &'t [u8])>) {
        let mut slots = self.lock();
        let mut missing = Vec::new();
        let mut at = directory;
        loop {
            if let Some(handle) = slots.touch(at) {
                return (handle, missing);
            }
            let Some((parent, name)) = first_name(tree, at) else {
                return (Arc::clone(&self.root), missing);
            };
            missing.push((at, name));
            at = parent;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn touch(&mut self, node: NodeId) -> Option<Arc<OwnedFd>> {
        self.clock = self.clock.wrapping_add(1);
        let (handle, used) = self.handles.get_mut(&node)?;
        *used = self.clock;
        Some(Arc::clone(handle))
    }

    fn insert(&mut self, node: NodeId, handle: Arc<OwnedFd>) {
        self.clock = self.clock.wrapping_add(1);
        if self.handles.len() >= CAPACITY {
            let oldest = self.handles.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(node, _)| *node) {
                self.handles.remove(&oldest);
            }
        }
        self.handles.insert(node, (handle, self.clock));
    }
}

/// The first name of an object and the directory it is in; `None` for the root.
pub(super) fn first_name(tree: &ValidTree, node: NodeId) -> Option<(NodeId, &[u8])> {
    let position = usize::try_from(tree.first_name(tree.inode_index(node))?).ok()?;
    let dentry = tree.tree().dentries().get(position)?;
    Some((dentry.parent, tree.tree().bytes(dentry.name)))
}
