//! Both trees side by side: names, types, attributes.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::DeltaError;
use crate::error::ReadError;
use crate::format::FileType;
use crate::stack::{Attr, NodeNum, Stack};
use crate::tree::{DeviceNumber, Node, NodeId, NodeKind, Target, ValidTree};

/// How an object of the directory stands to the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// Not met yet.
    #[default]
    Unseen,
    /// So far the same as this object of the stack.
    Same(NodeNum),
    /// New or changed.
    Different,
}

/// What the walk found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By node id.
    states: Vec<State>,
    whiteouts: Vec<(NodeId, Vec<u8>)>,
}

/// A set of nodes.
#[derive(Debug)]
pub(super) struct NodeSet(Vec<bool>);

impl NodeSet {
    pub(super) fn has(&self, node: NodeId) -> bool {
        self.0.get(position(node)).copied().unwrap_or(false)
    }
}

fn position(node: NodeId) -> usize {
    usize::try_from(node.0).unwrap_or(usize::MAX)
}

impl Found {
    fn state(&self, node: NodeId) -> State {
        self.states.get(position(node)).copied().unwrap_or_default()
    }

    fn set(&mut self, node: NodeId, state: State) {
        if let Some(slot) = self.states.get_mut(position(node)) {
            *slot = state;
        }
    }

    /// Files that are the same but perhaps for their content.
    pub(super) fn to_read(&self, tree: &ValidTree) -> Vec<(NodeId, NodeNum)> {
        let candidate = |node: &NodeId| match (self.state(*node), tree.node(*node).kind) {
            (State::Same(below), NodeKind::Regular { size }) if size > 0 => Some((*node, below)),
            _ => None,
        };
        tree.order().iter().filter_map(candidate).collect()
    }

    /// Records that an object is not the same after all.
    pub(super) fn differs(&mut self, node: NodeId) {
        self.set(node, State::Different);
    }

    /// Names of the stack that the directory has not, in order of the walk.
    pub(super) fn whiteouts(&self) -> &[(NodeId, Vec<u8>)] {
        &self.whiteouts
    }

    /// What a layer must state: what differs, and the directories that lead
    /// there or to a whiteout.
    pub(super) fn kept(&self, tree: &ValidTree) -> NodeSet {
        let mut kept = vec![false; tree.tree().node_count()];
        let mut keep = |node: NodeId| {
            if let Some(slot) = kept.get_mut(position(node)) {
                *slot = true;
            }
        };
        keep(NodeId::ROOT);
        for (directory, _) in &self.whiteouts {
            keep(*directory);
        }
        for node in tree.order() {
            if !matches!(self.state(*node), State::Same(_)) {
                keep(*node);
            }
        }
        // What is in a directory has a higher number than the directory.
        for node in tree.order().iter().rev() {
            let has = |id: NodeId| kept.get(position(id)).copied().unwrap_or(false);
            let leads = |target: Target| matches!(target, Target::Node(id) if has(id));
            let leads = tree.children(*node).iter().any(|dentry| leads(dentry.target));
            if leads && let Some(slot) = kept.get_mut(position(*node)) {
                *slot = true;
            }
        }
        NodeSet(kept)
    }

    /// Whether a directory that is stated keeps the attributes from below.
    pub(super) fn is_implied(&self, tree: &ValidTree, node: NodeId) -> bool {
        tree.node(node).kind.is_directory() && matches!(self.state(node), State::Same(_))
    }
}

/// Compares everything but the content of files.
pub(super) fn walk(tree: &ValidTree, base: &Stack) -> Result<Found, DeltaError> {
    let states = vec![State::Unseen; tree.tree().node_count()];
    let found = Found { states, whiteouts: Vec::new() };
    let mut walk = Walk { tree, base, found, claimed: HashSet::new() };
    walk.meet(NodeId::ROOT, Some(NodeNum::ROOT))?;
    let mut pending = vec![(NodeId::ROOT, Some(NodeNum::ROOT))];
    while let Some((directory, below)) = pending.pop() {
        let mark = pending.len();
        walk.directory(directory, below, &mut pending)?;
        if let Some(added) = pending.get_mut(mark..) {
            added.reverse();
        }
    }
    Ok(walk.found)
}

struct Walk<'a> {
    tree: &'a ValidTree,
    base: &'a Stack,
    found: Found,
    /// Objects of the stack that stand for one of the directory already.
    claimed: HashSet<NodeNum>,
}

impl Walk<'_> {
    fn error(&self, node: NodeId, source: ReadError) -> DeltaError {
        DeltaError::Base { path: self.tree.path(node), source }
    }

    fn directory(
        &mut self,
        directory: NodeId,
        below: Option<NodeNum>,
        pending: &mut Vec<(NodeId, Option<NodeNum>)>,
    ) -> Result<(), DeltaError> {
        let tree = self.tree;
        let mut names: Vec<(Vec<u8>, NodeNum, FileType)> = Vec::new();
        if let Some(below) = below {
            let listed = self.base.read_dir(below, 0, &mut |entry| {
                names.push((entry.name.to_vec(), entry.node, entry.file_type));
                ControlFlow::Continue(())
            });
            listed.map_err(|source| self.error(directory, source))?;
        }
        let mut names = names.into_iter().peekable();
        for dentry in tree.children(directory) {
            let Target::Node(node) = dentry.target else { continue };
            let name = tree.tree().bytes(dentry.name);
            while let Some(gone) = names.next_if(|(below, ..)| below.as_slice() < name) {
                self.found.whiteouts.push((directory, gone.0));
            }
            let below = names.next_if(|(below, ..)| below.as_slice() == name);
            self.meet(node, below.as_ref().map(|(_, below, _)| *below))?;
            if tree.node(node).kind.is_directory() {
                let below = below.filter(|(.., kind)| *kind == FileType::Directory);
                pending.push((node, below.map(|(_, below, _)| below)));
            }
        }
        for gone in names {
            self.found.whiteouts.push((directory, gone.0));
        }
        Ok(())
    }

    /// An object by one of its names, and what the stack has there.
    fn meet(&mut self, node: NodeId, below: Option<NodeNum>) -> Result<(), DeltaError> {
        let state = match (self.found.state(node), below) {
            (State::Unseen, Some(below)) => {
                let same = self.same(node, below).map_err(|source| self.error(node, source))?;
                if same && self.claimed.insert(below) {
                    State::Same(below)
                } else {
                    State::Different
                }
            }
            (State::Same(before), Some(below)) if before == below => return Ok(()),
            _ => State::Different,
        };
        self.found.set(node, state);
        Ok(())
    }

    /// Whether all attributes are the same, and the target of a link.
    fn same(&self, node: NodeId, below: NodeNum) -> Result<bool, ReadError> {
        let Node { metadata, kind } = *self.tree.node(node);
        let attr = self.base.attr(below)?;
        let plain = attr.file_type == type_of(&kind)
            && attr.permissions == metadata.permissions
            && (attr.uid, attr.gid) == (metadata.uid, metadata.gid)
            && attr.mtime == metadata.mtime
            && same_kind(&kind, &attr);
        if !plain || self.base.xattrs(below)? != self.tree.tree().xattrs().set(metadata.xattrs) {
            return Ok(false);
        }
        match kind {
            NodeKind::Symlink { target } => {
                Ok(self.base.read_link(below)? == self.tree.tree().bytes(target))
            }
            _ => Ok(true),
        }
    }
}

/// The type of a scanned object; a link-below is none that a scan yields.
fn type_of(kind: &NodeKind) -> FileType {
    match kind {
        NodeKind::Directory { .. } => FileType::Directory,
        NodeKind::Regular { .. } | NodeKind::LinkBelow { .. } => FileType::Regular,
        NodeKind::Symlink { .. } => FileType::Symlink,
        NodeKind::CharDevice(_) => FileType::CharDevice,
        NodeKind::BlockDevice(_) => FileType::BlockDevice,
        NodeKind::Fifo => FileType::Fifo,
        NodeKind::Socket => FileType::Socket,
    }
}

/// Whether what only one type has is the same.
fn same_kind(kind: &NodeKind, attr: &Attr) -> bool {
    match kind {
        NodeKind::Regular { size } => attr.size == *size,
        NodeKind::CharDevice(device) | NodeKind::BlockDevice(device) => attr.device == *device,
        _ => attr.device == DeviceNumber::default(),
    }
}
