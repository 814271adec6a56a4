//! The tree of a layer, built member by member.
//!
//! The rules are those of an extraction in archive order: a later member of a
//! path replaces an earlier one, a directory over a directory only changes its
//! attributes, names below a symbolic link of this layer belong into its
//! target (resolved inside the root), names below anything else make it a
//! directory. Whiteouts concern the layers below only, wherever they stand.

use std::collections::HashMap;

use super::error::Fault;
use super::names::components;
use crate::tree::{Metadata, Node, NodeId, NodeKind, Target, Timestamp, Tree, ValidTree};

/// Symbolic links that are followed for one path, as Linux does.
const LINKS_MAX: u32 = 40;

/// What a name stands for so far.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    target: Option<NodeId>,
    whiteout: bool,
}

/// A layer under construction.
#[derive(Debug)]
pub struct LayerTree {
    tree: Tree,
    slots: HashMap<(NodeId, Vec<u8>), Slot>,
    /// Hard links whose target has not been met in this layer.
    below: HashMap<Vec<u8>, NodeId>,
}

/// Where a hard link leads.
enum Linked {
    Node(NodeId),
    Below(Vec<u8>),
}

/// Attributes of a directory without an entry: root's, 0755, at 1970.
fn implied_directory(opaque: bool) -> Node {
    let metadata =
        Metadata { permissions: 0o755, mtime: Timestamp::default(), ..Metadata::default() };
    Node { metadata, kind: NodeKind::Directory { opaque, implied: true } }
}

impl LayerTree {
    /// An empty layer, whose root is implied.
    pub fn new() -> Self {
        let root = implied_directory(false);
        let mut tree = Tree::new(root.metadata);
        tree.node_mut(NodeId::ROOT).kind = root.kind;
        Self { tree, slots: HashMap::new(), below: HashMap::new() }
    }

    /// The tree, to intern targets and xattrs and to add nodes.
    pub fn tree_mut(&mut self) -> &mut Tree {
        &mut self.tree
    }

    fn target(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        self.slots.get(&(directory, name.to_vec())).and_then(|slot| slot.target)
    }

    fn symlink(&self, node: NodeId) -> Option<Vec<u8>> {
        match self.tree.node(node).kind {
            NodeKind::Symlink { target } => Some(self.tree.bytes(target).to_vec()),
            _ => None,
        }
    }

    /// The directory of a path, made where it is missing.
    pub fn directory(&mut self, path: &[Vec<u8>]) -> Result<NodeId, Fault> {
        let mut trail = vec![NodeId::ROOT];
        let mut pending: Vec<Vec<u8>> = path.iter().rev().cloned().collect();
        let mut links = 0u32;
        while let Some(name) = pending.pop() {
            if name == b".." {
                if trail.len() > 1 {
                    trail.pop();
                }
                continue;
            }
            let at = trail.last().copied().unwrap_or(NodeId::ROOT);
            let found = self.target(at, &name);
            if let Some(target) = found.and_then(|node| self.symlink(node)) {
                links = links.saturating_add(1);
                if links > LINKS_MAX {
                    return Err(Fault::Loop);
                }
                if target.starts_with(b"/") {
                    trail.truncate(1);
                }
                pending.extend(link_parts(&target).into_iter().rev());
                continue;
            }
            match found {
                Some(node) if self.tree.node(node).kind.is_directory() => trail.push(node),
                other => {
                    // Whatever was there, here or below, is replaced.
                    let node = self.tree.add(implied_directory(other.is_some()))?;
                    self.slots.entry((at, name)).or_default().target = Some(node);
                    trail.push(node);
                }
            }
        }
        Ok(trail.last().copied().unwrap_or(NodeId::ROOT))
    }

    /// Gives a node a name. A directory that is there already takes over the
    /// attributes and stays.
    pub fn place(&mut self, parent: NodeId, name: &[u8], node: NodeId) -> Result<(), Fault> {
        let existing = self.target(parent, name);
        let record = *self.tree.node(node);
        let is_directory = record.kind.is_directory();
        match existing {
            Some(old) if is_directory && self.tree.node(old).kind.is_directory() => {
                self.restate(old, record.metadata);
            }
            _ => {
                // It takes the place of a file of this layer, and an extraction
                // would have removed what the layers below have there.
                if existing.is_some() && is_directory {
                    let kind = NodeKind::Directory { opaque: true, implied: false };
                    self.tree.node_mut(node).kind = kind;
                }
                self.slots.entry((parent, name.to_vec())).or_default().target = Some(node);
            }
        }
        Ok(())
    }

    /// Attributes of the root from its own entry.
    pub fn place_root(&mut self, metadata: Metadata) {
        self.restate(NodeId::ROOT, metadata);
    }

    fn restate(&mut self, directory: NodeId, metadata: Metadata) {
        let node = self.tree.node_mut(directory);
        node.metadata = metadata;
        if let NodeKind::Directory { implied, .. } = &mut node.kind {
            *implied = false;
        }
    }

    /// Hides everything that the layers below have in a directory.
    pub fn make_opaque(&mut self, directory: NodeId) {
        if let NodeKind::Directory { opaque, .. } = &mut self.tree.node_mut(directory).kind {
            *opaque = true;
        }
    }

    /// Hides a name of the layers below.
    pub fn white_out(&mut self, parent: NodeId, name: &[u8]) {
        self.slots.entry((parent, name.to_vec())).or_default().whiteout = true;
    }

    /// The node that a hard link is another name of: one of this layer, or a
    /// stand-in for one of the layers below.
    pub fn link_node(&mut self, target: &[u8]) -> Result<NodeId, Fault> {
        match self.linked(&components(target)?)? {
            Linked::Node(node) if self.tree.node(node).kind.is_directory() => {
                Err(Fault::LinkToDirectory)
            }
            Linked::Node(node) => Ok(node),
            Linked::Below(path) => {
                if let Some(node) = self.below.get(&path) {
                    return Ok(*node);
                }
                let target = self.tree.intern_target(&path)?;
                let kind = NodeKind::LinkBelow { path: target };
                let node = self.tree.add(Node { metadata: Metadata::default(), kind })?;
                self.below.insert(path, node);
                Ok(node)
            }
        }
    }

    /// Follows a path through this layer as far as it goes.
    fn linked(&self, path: &[Vec<u8>]) -> Result<Linked, Fault> {
        let mut trail: Vec<(NodeId, Vec<u8>)> = Vec::new();
        let mut pending: Vec<Vec<u8>> = path.iter().rev().cloned().collect();
        let mut links = 0u32;
        let mut found = Some(NodeId::ROOT);
        while let Some(name) = pending.pop() {
            if name == b".." {
                trail.pop();
                continue;
            }
            let at = trail.last().map_or(NodeId::ROOT, |(node, _)| *node);
            found = self.target(at, &name);
            let Some(node) = found else {
                trail.push((NodeId::ROOT, name));
                break;
            };
            match self.symlink(node) {
                Some(target) if !pending.is_empty() => {
                    links = links.saturating_add(1);
                    if links > LINKS_MAX {
                        return Err(Fault::Loop);
                    }
                    if target.starts_with(b"/") {
                        trail.clear();
                    }
                    pending.extend(link_parts(&target).into_iter().rev());
                }
                _ => trail.push((node, name)),
            }
        }
        if let (Some(node), true) = (found, pending.is_empty()) {
            let node = trail.last().map_or(node, |(node, _)| *node);
            return Ok(Linked::Node(node));
        }
        let names = trail.into_iter().map(|(_, name)| name);
        let path: Vec<_> = names.chain(pending.into_iter().rev()).collect();
        Ok(Linked::Below(path.join(&b'/')))
    }

    /// The finished tree.
    pub fn finish(mut self) -> Result<ValidTree, Fault> {
        for ((parent, name), slot) in std::mem::take(&mut self.slots) {
            match (slot.target, slot.whiteout) {
                (Some(node), true) => {
                    self.replaces(node);
                    self.tree.link(parent, &name, Target::Node(node))?;
                }
                (Some(node), false) => self.tree.link(parent, &name, Target::Node(node))?,
                (None, true) => self.tree.link(parent, &name, Target::Whiteout)?,
                (None, false) => {}
            }
        }
        self.tree.discard_unreachable();
        Ok(self.tree.validate()?)
    }

    /// A directory that is also whited out is a new one: it hides what is
    /// below, and takes no attributes from there.
    fn replaces(&mut self, node: NodeId) {
        if let NodeKind::Directory { opaque, implied } = &mut self.tree.node_mut(node).kind {
            *opaque = true;
            *implied = false;
        }
    }
}

/// Components of a link's target; `..` stays.
fn link_parts(target: &[u8]) -> Vec<Vec<u8>> {
    let parts = target.split(|byte| *byte == b'/');
    parts.filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec).collect()
}
