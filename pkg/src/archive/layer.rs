//! The tree of a layer, built member by member.
//!
//! The rules are those of an extraction in archive order: a later member of a
//! path replaces an earlier one, a directory over a directory only changes its
//! attributes, names below a symbolic link of this layer belong into its
//! target (resolved inside the root), names below anything else make it a
//! directory. Whiteouts and opaque marks concern the layers below only,
//! wherever they stand: they change nothing that this layer has, and a
//! directory that only they imply is none beside a whiteout of its name.

use std::collections::{HashMap, HashSet};

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
fn implied_directory() -> Node {
    let metadata =
        Metadata { permissions: 0o755, mtime: Timestamp::default(), ..Metadata::default() };
    Node { metadata, kind: NodeKind::Directory { opaque: false, implied: true } }
}

impl LayerTree {
    /// An empty layer, whose root is implied.
    pub fn new() -> Self {
        let root = implied_directory();
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
        Ok(self.reach(path, true)?.unwrap_or(NodeId::ROOT))
    }

    /// The directory of a path for a whiteout or opaque mark, made where it is
    /// missing; `None` when this layer has a file there, which hides
    /// everything below by itself.
    pub fn directory_to_mark(&mut self, path: &[Vec<u8>]) -> Result<Option<NodeId>, Fault> {
        self.reach(path, false)
    }

    fn reach(&mut self, path: &[Vec<u8>], over_files: bool) -> Result<Option<NodeId>, Fault> {
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
                Some(_) if !over_files => return Ok(None),
                other => {
                    let node = self.tree.add(implied_directory())?;
                    if other.is_some() {
                        self.replaces(node);
                    }
                    self.slots.entry((at, name)).or_default().target = Some(node);
                    trail.push(node);
                }
            }
        }
        Ok(trail.last().copied())
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
                if existing.is_some() {
                    self.replaces(node);
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
        let hollow = self.settle_implied();
        for ((parent, name), slot) in std::mem::take(&mut self.slots) {
            let target = slot.target.filter(|node| !hollow.contains(node));
            match (target, slot.whiteout) {
                (Some(node), _) => self.tree.link(parent, &name, Target::Node(node))?,
                (None, true) => self.tree.link(parent, &name, Target::Whiteout)?,
                (None, false) => {}
            }
        }
        self.tree.discard_unreachable();
        Ok(self.tree.validate()?)
    }

    /// Directories beside a whiteout of their name, and those without an entry
    /// inside an opaque one, are new: whatever is below has nothing to do with
    /// them. Returns those that nothing but marks implies: they are none.
    fn settle_implied(&mut self) -> HashSet<NodeId> {
        let mut hollow = HashSet::new();
        let is_beside = |slot: &Slot| slot.whiteout && slot.target.is_some();
        let is_opaque = |node: &Node| matches!(node.kind, NodeKind::Directory { opaque: true, .. });
        if !self.slots.values().any(is_beside) && !self.tree.nodes().iter().any(is_opaque) {
            return hollow;
        }
        let filled = self.filled();
        let mut inner: HashMap<NodeId, Vec<(NodeId, bool)>> = HashMap::new();
        for ((parent, _), slot) in &self.slots {
            if let Some(node) = slot.target.filter(|n| self.tree.node(*n).kind.is_directory()) {
                inner.entry(*parent).or_default().push((node, slot.whiteout));
            }
        }
        let mut pending = vec![(NodeId::ROOT, is_opaque(self.tree.node(NodeId::ROOT)))];
        while let Some((parent, is_inside)) = pending.pop() {
            for (node, whiteout) in inner.remove(&parent).unwrap_or_default() {
                let is_hollow = self.is_implied(node) && !filled.contains(&node);
                if is_hollow && (whiteout || is_inside) {
                    hollow.insert(node);
                    continue;
                }
                if whiteout {
                    self.replaces(node);
                } else if is_inside {
                    let metadata = self.tree.node(node).metadata;
                    self.restate(node, metadata);
                }
                pending.push((node, is_inside || is_opaque(self.tree.node(node))));
            }
        }
        hollow
    }

    fn is_implied(&self, node: NodeId) -> bool {
        matches!(self.tree.node(node).kind, NodeKind::Directory { implied: true, .. })
    }

    /// Directories that anything but marks and such directories is in.
    fn filled(&self) -> HashSet<NodeId> {
        let parent = |((parent, _), slot): (&(NodeId, Vec<u8>), &Slot)| {
            slot.target.filter(|node| self.is_implied(*node)).map(|node| (node, *parent))
        };
        let parents: HashMap<NodeId, NodeId> = self.slots.iter().filter_map(parent).collect();
        let mut filled = HashSet::new();
        for ((parent, _), slot) in &self.slots {
            if slot.target.is_some_and(|node| !self.is_implied(node)) {
                let mut above = Some(*parent);
                while let Some(node) = above.filter(|node| filled.insert(*node)) {
                    above = parents.get(&node).copied();
                }
            }
        }
        filled
    }

    /// Makes a directory a new one, which hides what is below and takes no
    /// attributes from there.
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
