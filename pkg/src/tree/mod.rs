//! The tree that sources produce and the writer consumes.
//!
//! A [`Tree`] is an arena: one [`Node`] for every file object, one [`Dentry`]
//! for every name. Sources (directory scan, tar, delta) add to it in any
//! order; [`Tree::validate`] turns it into a [`ValidTree`], which is sorted,
//! numbered and known to obey the format's rules, and is the only thing that
//! the writer accepts.
//!
//! Memory: about 56 bytes a node and 24 bytes a name, plus the bytes of names
//! and link targets; nothing depends on file content.

use std::collections::{HashMap, HashSet};

use thiserror::Error;

pub use self::valid::ValidTree;
pub use self::xattr::{XattrSetId, XattrTable};

mod valid;
mod xattr;

#[cfg(test)]
mod tests;

/// Longest name in a directory, in bytes.
pub const NAME_MAX: usize = 255;
/// Longest symbolic-link target, in bytes (Linux `PATH_MAX` less its NUL).
pub const TARGET_MAX: usize = 4095;

/// A node's position in its [`Tree`]; the root is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root directory of every tree.
    pub const ROOT: Self = Self(0);
}

/// A point in time: seconds since 1970 (negative before it) and nanoseconds
/// (0 to 999,999,999) to be added to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Timestamp {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds, below 10^9.
    pub nanoseconds: u32,
}

/// A device number, split as Linux does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct DeviceNumber {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

/// Attributes that every node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Metadata {
    /// Permission bits with setuid, setgid and sticky (0 to 0o7777).
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time.
    pub mtime: Timestamp,
    /// Extended attributes, interned in the tree's [`XattrTable`].
    pub xattrs: XattrSetId,
}

/// A run of bytes in the tree's arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BytesRef {
    offset: u64,
    length: u32,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A directory.
    Directory {
        /// Hides everything of this path in the layers below.
        opaque: bool,
        /// Has no entry of its own in the source: metadata comes from below.
        implied: bool,
    },
    /// A regular file of so many bytes.
    Regular {
        /// Length in bytes, at most 2^63 - 1.
        size: u64,
    },
    /// A symbolic link.
    Symlink {
        /// Its target, 0 to [`TARGET_MAX`] bytes.
        target: BytesRef,
    },
    /// A character device.
    CharDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A hard link to a file of a lower layer, named by its path there.
    LinkBelow {
        /// Path relative to the root, without leading slash.
        path: BytesRef,
    },
}

impl NodeKind {
    /// Whether this is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        matches!(self, Self::Directory { .. })
    }
}

/// One file object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Attributes.
    pub metadata: Metadata,
    /// Type and what belongs to it.
    pub kind: NodeKind,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// An object of this tree.
    Node(NodeId),
    /// Nothing, and nothing from below either.
    Whiteout,
}

/// A name in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dentry {
    /// The directory.
    pub parent: NodeId,
    /// The name's bytes.
    pub name: BytesRef,
    /// What it names.
    pub target: Target,
}

/// Why a tree cannot be built or written.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TreeError {
    /// More nodes than a layer can number.
    #[error("more than 2^32 - 2 file objects in one layer")]
    TooManyNodes,
    /// A name is empty, `.`, `..`, longer than 255 bytes or holds `/` or NUL.
    #[error("name {:?} is not allowed in a directory", String::from_utf8_lossy(.name))]
    BadName {
        /// The name.
        name: Vec<u8>,
    },
    /// Two entries of one name in a directory.
    #[error("name {:?} occurs twice in {:?}", String::from_utf8_lossy(.name), String::from_utf8_lossy(.directory))]
    DuplicateName {
        /// Path of the directory.
        directory: Vec<u8>,
        /// The name.
        name: Vec<u8>,
    },
    /// A directory is named twice, or lies below itself.
    #[error("directory {:?} has more than one name", String::from_utf8_lossy(.name))]
    DirectoryLinked {
        /// One of its names.
        name: Vec<u8>,
    },
    /// An entry below something that is not a directory.
    #[error("{:?} lies below something that is not a directory", String::from_utf8_lossy(.name))]
    ParentNotDirectory {
        /// The entry's name.
        name: Vec<u8>,
    },
    /// A node that no name reaches from the root.
    #[error("a file object has no name")]
    Unreachable,
    /// A symbolic-link target over 4095 bytes, or with a NUL in it.
    #[error("link target of {length} bytes is not allowed (at most {TARGET_MAX}, no NUL)")]
    BadTarget {
        /// Its length in bytes.
        length: usize,
    },
    /// An xattr name that is empty, over 255 bytes or holds NUL, or a value over 65,536 bytes.
    #[error("extended attribute {:?} is not allowed", String::from_utf8_lossy(.name))]
    BadXattr {
        /// The attribute's name.
        name: Vec<u8>,
    },
    /// Nanoseconds of 10^9 or more.
    #[error("nanoseconds {0} out of range")]
    BadTimestamp(u32),
    /// A file size over 2^63 - 1.
    #[error("file size {0} is over 2^63 - 1")]
    FileTooLarge(u64),
}

/// The arena. See the module's documentation.
#[derive(Debug, Clone)]
pub struct Tree {
    nodes: Vec<Node>,
    dentries: Vec<Dentry>,
    bytes: Vec<u8>,
    xattrs: XattrTable,
    removed: HashSet<NodeId>,
}

impl Tree {
    /// A tree that holds only a root directory.
    #[must_use]
    pub fn new(root: Metadata) -> Self {
        let kind = NodeKind::Directory { opaque: false, implied: false };
        Self {
            nodes: vec![Node { metadata: root, kind }],
            dentries: Vec::new(),
            bytes: Vec::new(),
            xattrs: XattrTable::default(),
            removed: HashSet::new(),
        }
    }

    /// Adds an object. It has no name until [`Tree::link`] gives it one.
    ///
    /// # Errors
    /// [`TreeError::TooManyNodes`], and the errors of the object's own fields.
    pub fn add(&mut self, node: Node) -> Result<NodeId, TreeError> {
        check_node(&node)?;
        let id = u32::try_from(self.nodes.len()).ok().filter(|id| *id < u32::MAX - 1);
        let id = id.ok_or(TreeError::TooManyNodes)?;
        self.nodes.push(node);
        Ok(NodeId(id))
    }

    /// Gives `target` a name in directory `parent`.
    ///
    /// # Errors
    /// [`TreeError::BadName`]. Duplicates are found by [`Tree::validate`].
    pub fn link(&mut self, parent: NodeId, name: &[u8], target: Target) -> Result<(), TreeError> {
        check_name(name)?;
        let name = self.store(name);
        self.dentries.push(Dentry { parent, name, target });
        Ok(())
    }

    /// Stores a symbolic-link target or link-below path for use in a [`NodeKind`].
    ///
    /// # Errors
    /// [`TreeError::BadTarget`].
    pub fn intern_target(&mut self, target: &[u8]) -> Result<BytesRef, TreeError> {
        if target.len() > TARGET_MAX || target.contains(&0) {
            return Err(TreeError::BadTarget { length: target.len() });
        }
        Ok(self.store(target))
    }

    fn store(&mut self, bytes: &[u8]) -> BytesRef {
        let offset = u64::try_from(self.bytes.len()).unwrap_or(u64::MAX);
        self.bytes.extend_from_slice(bytes);
        BytesRef { offset, length: u32::try_from(bytes.len()).unwrap_or(u32::MAX) }
    }

    /// The bytes behind a reference that this tree gave out.
    #[must_use]
    pub fn bytes(&self, reference: BytesRef) -> &[u8] {
        let start = usize::try_from(reference.offset).unwrap_or(usize::MAX);
        let length = usize::try_from(reference.length).unwrap_or(usize::MAX);
        self.bytes.get(start..start.saturating_add(length)).unwrap_or_default()
    }

    /// A node by its id; the root for an id of another tree.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        let index = usize::try_from(id.0).unwrap_or(0);
        self.nodes.get(index).unwrap_or_else(|| &self.nodes[0])
    }

    /// The same, to be changed.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        let index = usize::try_from(id.0).unwrap_or(0);
        let index = if index < self.nodes.len() { index } else { 0 };
        &mut self.nodes[index]
    }

    /// Number of nodes, the root included.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes, in order of their ids.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// All names, in the order in which they were added.
    #[must_use]
    pub fn dentries(&self) -> &[Dentry] {
        &self.dentries
    }

    /// The interned xattr sets.
    #[must_use]
    pub fn xattrs(&self) -> &XattrTable {
        &self.xattrs
    }

    /// The interned xattr sets, to add to them.
    pub fn xattrs_mut(&mut self) -> &mut XattrTable {
        &mut self.xattrs
    }

    /// Takes objects other than directories out of the tree, with all their
    /// names. Their ids stay reserved.
    pub fn remove(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        let nodes = nodes.into_iter().filter(|id| !self.node(*id).kind.is_directory());
        let nodes: Vec<_> = nodes.collect();
        self.removed.extend(nodes);
        let removed = &self.removed;
        self.dentries.retain(|dentry| match dentry.target {
            Target::Node(id) => !removed.contains(&id),
            Target::Whiteout => true,
        });
    }

    /// Puts whiteouts in the place of all names of objects other than
    /// directories. Their ids stay reserved.
    pub fn white_out(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        let nodes = nodes.into_iter().filter(|id| !self.node(*id).kind.is_directory());
        let nodes: Vec<_> = nodes.collect();
        self.removed.extend(nodes);
        for dentry in &mut self.dentries {
            if matches!(dentry.target, Target::Node(id) if self.removed.contains(&id)) {
                dentry.target = Target::Whiteout;
            }
        }
    }

    /// Keeps only the objects that `keep` accepts, with all their names. What
    /// is in a directory must go with it. The ids of the others stay reserved.
    pub fn retain(&mut self, keep: impl Fn(NodeId) -> bool) {
        let is_kept = |id: NodeId| id == NodeId::ROOT || keep(id);
        let ids = (0u32..).take(self.nodes.len()).map(NodeId);
        self.removed.extend(ids.filter(|id| !is_kept(*id)));
        self.dentries.retain(|dentry| match dentry.target {
            Target::Node(id) => is_kept(id),
            Target::Whiteout => is_kept(dentry.parent),
        });
    }

    /// Takes everything out that no name leads to from the root: what was
    /// replaced, and what lay below it.
    pub fn discard_unreachable(&mut self) {
        let position = |id: NodeId| usize::try_from(id.0).unwrap_or(usize::MAX);
        let mut children: HashMap<NodeId, Vec<NodeId>> = HashMap::new();
        for dentry in &self.dentries {
            if let Target::Node(id) = dentry.target {
                children.entry(dentry.parent).or_default().push(id);
            }
        }
        let mut reached = vec![false; self.nodes.len()];
        let mut pending = vec![NodeId::ROOT];
        while let Some(id) = pending.pop() {
            match reached.get_mut(position(id)) {
                Some(seen) if !*seen => *seen = true,
                _ => continue,
            }
            pending.extend(children.remove(&id).into_iter().flatten());
        }
        let is_reached = |id: NodeId| reached.get(position(id)).copied().unwrap_or(false);
        self.dentries.retain(|dentry| is_reached(dentry.parent));
        let ids = (0u32..).take(self.nodes.len()).map(NodeId);
        self.removed.extend(ids.filter(|id| !is_reached(*id)));
    }

    /// Checks every rule, sorts and numbers.
    ///
    /// # Errors
    /// Any [`TreeError`] about names and shape.
    pub fn validate(self) -> Result<ValidTree, TreeError> {
        ValidTree::new(self)
    }
}

/// The rules for a name in a directory (FORMAT.md, "Dentries").
///
/// # Errors
/// [`TreeError::BadName`].
pub fn check_name(name: &[u8]) -> Result<(), TreeError> {
    let bad = name.is_empty()
        || name.len() > NAME_MAX
        || name == b"."
        || name == b".."
        || name.iter().any(|byte| *byte == b'/' || *byte == 0);
    if bad { Err(TreeError::BadName { name: name.to_vec() }) } else { Ok(()) }
}

fn check_node(node: &Node) -> Result<(), TreeError> {
    if node.metadata.mtime.nanoseconds >= 1_000_000_000 {
        return Err(TreeError::BadTimestamp(node.metadata.mtime.nanoseconds));
    }
    match node.kind {
        NodeKind::Regular { size } if i64::try_from(size).is_err() => {
            Err(TreeError::FileTooLarge(size))
        }
        NodeKind::LinkBelow { path } if path.length == 0 => Err(TreeError::BadTarget { length: 0 }),
        _ => Ok(()),
    }
}
