//! The gate: sorting, numbering and checking a tree.

use super::{Dentry, Node, NodeId, NodeKind, Target, Tree, TreeError, check_node};

/// A tree that obeys every rule of the format, with its names sorted and its
/// objects numbered.
///
/// Names are in **tree order**: a directory's names are contiguous and sorted
/// by bytes; after the root's names come those of its first sub-directory and
/// everything below that, then the next. Objects are numbered in the order of
/// their first name, the root being 0.
#[derive(Debug, Clone)]
pub struct ValidTree {
    tree: Tree,
    /// Per node: where its names begin in `tree.dentries`, for directories.
    first: Vec<u64>,
    count: Vec<u32>,
    /// Inode index to node.
    order: Vec<NodeId>,
    /// Node to inode index.
    index: Vec<u32>,
    /// Per inode index: number of names; for directories 2 + sub-directories.
    links: Vec<u32>,
    /// Per inode index: position of the first name, `u64::MAX` for the root.
    name_of: Vec<u64>,
}

impl ValidTree {
    pub(super) fn new(mut tree: Tree) -> Result<Self, TreeError> {
        tree.nodes.iter().try_for_each(check_node)?;
        sort(&mut tree);
        check_parents(&tree)?;
        let nodes = tree.nodes.len();
        let (start, count) = ranges(&tree);
        let mut numbering = Numbering {
            dentries: Vec::with_capacity(tree.dentries.len()),
            first: vec![0; nodes],
            order: Vec::with_capacity(nodes),
            index: vec![u32::MAX; nodes],
            links: Vec::with_capacity(nodes),
            name_of: Vec::with_capacity(nodes),
        };
        numbering.walk(&tree, &start, &count)?;
        if numbering.order.len().saturating_add(tree.removed.len()) != nodes {
            return Err(TreeError::Unreachable);
        }
        let Numbering { dentries, first, order, index, links, name_of } = numbering;
        tree.dentries = dentries;
        Ok(Self { tree, first, count, order, index, links, name_of })
    }

    /// Gives the tree back, to be changed and validated anew.
    #[must_use]
    pub fn into_tree(self) -> Tree {
        self.tree
    }

    /// The tree; its dentries are in tree order.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The names of a directory, sorted; nothing for other objects.
    #[must_use]
    pub fn children(&self, directory: NodeId) -> &[Dentry] {
        let node = position(directory.0);
        let count = self.count.get(node).map_or(0, |count| position(*count));
        let first = self.first_dentry(directory).and_then(|first| usize::try_from(first).ok());
        let range = first.map(|first| first..first.saturating_add(count));
        range.and_then(|range| self.tree.dentries.get(range)).unwrap_or_default()
    }

    /// Position of a directory's first name among all names.
    #[must_use]
    pub fn first_dentry(&self, directory: NodeId) -> Option<u64> {
        self.first.get(position(directory.0)).copied()
    }

    /// Objects in the order of their inode index.
    #[must_use]
    pub fn order(&self) -> &[NodeId] {
        &self.order
    }

    /// The inode index of an object.
    #[must_use]
    pub fn inode_index(&self, node: NodeId) -> u32 {
        self.index.get(position(node.0)).copied().unwrap_or(0)
    }

    /// Link count by inode index: names, or 2 + sub-directories.
    #[must_use]
    pub fn links(&self, inode: u32) -> u32 {
        self.links.get(position(inode)).copied().unwrap_or(0)
    }

    /// Position of an inode's first name; `None` for the root.
    #[must_use]
    pub fn first_name(&self, inode: u32) -> Option<u64> {
        self.name_of.get(position(inode)).copied().filter(|at| *at != u64::MAX)
    }

    /// By inode index: whether a directory is implied and holds nothing but
    /// whiteouts and directories of the same kind.
    #[must_use]
    pub fn hollow(&self) -> Vec<bool> {
        let mut hollow = vec![false; self.order.len()];
        // Below a directory all numbers are higher than its own.
        for (inode, node) in self.order.iter().enumerate().rev() {
            let implied =
                matches!(self.node(*node).kind, NodeKind::Directory { implied: true, .. });
            let nothing = |dentry: &Dentry| match dentry.target {
                Target::Whiteout => true,
                Target::Node(id) => {
                    hollow.get(position(self.inode_index(id))).copied().unwrap_or(false)
                }
            };
            let empty = implied && self.children(*node).iter().all(nothing);
            if let Some(slot) = hollow.get_mut(inode) {
                *slot = empty && inode != 0;
            }
        }
        hollow
    }

    /// The node behind an id.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        self.tree.node(id)
    }

    /// The first path of an object, relative to the root and without leading slash.
    #[must_use]
    pub fn path(&self, node: NodeId) -> Vec<u8> {
        let mut parts = Vec::new();
        let mut at = node;
        while let Some(name) = self.first_name(self.inode_index(at)) {
            let Some(dentry) = usize::try_from(name).ok().and_then(|i| self.tree.dentries.get(i))
            else {
                break;
            };
            parts.push(self.tree.bytes(dentry.name));
            at = dentry.parent;
        }
        parts.reverse();
        parts.join(&b'/')
    }
}

fn position(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn sort(tree: &mut Tree) {
    let mut dentries = std::mem::take(&mut tree.dentries);
    dentries.sort_unstable_by(|a, b| {
        a.parent.cmp(&b.parent).then_with(|| tree.bytes(a.name).cmp(tree.bytes(b.name)))
    });
    tree.dentries = dentries;
}

fn check_parents(tree: &Tree) -> Result<(), TreeError> {
    for dentry in &tree.dentries {
        let name = || tree.bytes(dentry.name).to_vec();
        let parent = tree.nodes.get(position(dentry.parent.0));
        if !parent.is_some_and(|node| node.kind.is_directory()) {
            return Err(TreeError::ParentNotDirectory { name: name() });
        }
        if let Target::Node(id) = dentry.target {
            if tree.nodes.get(position(id.0)).is_none() {
                return Err(TreeError::Unreachable);
            }
            if id == NodeId::ROOT {
                return Err(TreeError::DirectoryLinked { name: name() });
            }
        }
    }
    for pair in tree.dentries.windows(2) {
        if let [a, b] = pair
            && a.parent == b.parent
            && tree.bytes(a.name) == tree.bytes(b.name)
        {
            let directory = parent_path(tree, a.parent);
            return Err(TreeError::DuplicateName { directory, name: tree.bytes(a.name).to_vec() });
        }
    }
    Ok(())
}

/// For an error message only: one path of a directory, bounded against loops.
fn parent_path(tree: &Tree, directory: NodeId) -> Vec<u8> {
    let mut parts = Vec::new();
    let mut at = directory;
    while at != NodeId::ROOT && parts.len() < 4096 {
        let Some(dentry) = tree.dentries.iter().find(|d| d.target == Target::Node(at)) else {
            break;
        };
        parts.push(tree.bytes(dentry.name));
        at = dentry.parent;
    }
    parts.reverse();
    parts.join(&b'/')
}

/// Per node: where its names begin in the sorted list, and how many there are.
fn ranges(tree: &Tree) -> (Vec<u64>, Vec<u32>) {
    let mut start = vec![0u64; tree.nodes.len()];
    let mut count = vec![0u32; tree.nodes.len()];
    for (at, dentry) in (0u64..).zip(&tree.dentries) {
        let parent = position(dentry.parent.0);
        if let (Some(start), Some(count)) = (start.get_mut(parent), count.get_mut(parent)) {
            if *count == 0 {
                *start = at;
            }
            *count = count.saturating_add(1);
        }
    }
    (start, count)
}

struct Numbering {
    dentries: Vec<Dentry>,
    first: Vec<u64>,
    order: Vec<NodeId>,
    index: Vec<u32>,
    links: Vec<u32>,
    name_of: Vec<u64>,
}

impl Numbering {
    fn walk(&mut self, tree: &Tree, start: &[u64], count: &[u32]) -> Result<(), TreeError> {
        self.number(NodeId::ROOT, u64::MAX, 2);
        let mut pending = vec![NodeId::ROOT];
        while let Some(directory) = pending.pop() {
            let node = position(directory.0);
            let begin = start.get(node).and_then(|at| usize::try_from(*at).ok()).unwrap_or(0);
            let length = count.get(node).map_or(0, |count| position(*count));
            let names = tree.dentries.get(begin..begin.saturating_add(length)).unwrap_or_default();
            if let Some(first) = self.first.get_mut(node) {
                *first = u64::try_from(self.dentries.len()).unwrap_or(u64::MAX);
            }
            let mark = pending.len();
            for dentry in names {
                let at = u64::try_from(self.dentries.len()).unwrap_or(u64::MAX);
                self.dentries.push(*dentry);
                let Target::Node(id) = dentry.target else { continue };
                let is_directory = tree.node(id).kind.is_directory();
                let seen = self.index.get(position(id.0)).copied().unwrap_or(u32::MAX);
                if is_directory {
                    if seen != u32::MAX {
                        let name = tree.bytes(dentry.name).to_vec();
                        return Err(TreeError::DirectoryLinked { name });
                    }
                    self.add_link(directory);
                    self.number(id, at, 2);
                    pending.push(id);
                } else if seen == u32::MAX {
                    self.number(id, at, 1);
                } else {
                    self.add_link(id);
                }
            }
            pending[mark..].reverse();
        }
        Ok(())
    }

    fn number(&mut self, id: NodeId, name: u64, links: u32) {
        if let Some(index) = self.index.get_mut(position(id.0)) {
            *index = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        }
        self.order.push(id);
        self.links.push(links);
        self.name_of.push(name);
    }

    fn add_link(&mut self, id: NodeId) {
        let inode = self.index.get(position(id.0)).map_or(usize::MAX, |index| position(*index));
        if let Some(links) = self.links.get_mut(inode) {
            *links = links.saturating_add(1);
        }
    }
}
