//! Dentry blocks, the dentry index and the hard-link table.

use zerocopy::IntoBytes;

use crate::format::dentry::{DENTRY_HEADER, DENTRY_SIZE, DentryKind, RawDentry, RawHardLink};
use crate::format::{FileType, planes, wide};
use crate::tree::{NodeKind, Target, ValidTree};

/// Fills dentry blocks one after another.
#[derive(Debug)]
pub struct DentryPacker {
    size: usize,
    records: Vec<[u8; DENTRY_SIZE]>,
    names: Vec<u8>,
    total: u64,
    /// Position of the first dentry of each block.
    pub index: Vec<u64>,
}

impl DentryPacker {
    /// For blocks of `size` bytes.
    pub fn new(size: usize) -> Self {
        Self { size, records: Vec::new(), names: Vec::new(), total: 0, index: Vec::new() }
    }

    /// Adds a dentry; returns the block that it did not fit into any more.
    pub fn add(&mut self, name: &[u8], inode: u32, kind: DentryKind) -> Option<Vec<u8>> {
        let records = self.records.len().saturating_add(1).saturating_mul(DENTRY_SIZE);
        let names = self.names.len().saturating_add(name.len());
        let fits = DENTRY_HEADER.saturating_add(records).saturating_add(names) <= self.size;
        let full = if fits { None } else { self.take() };
        self.names.extend_from_slice(name);
        let raw = RawDentry {
            inode: inode.into(),
            name_end: u16::try_from(self.names.len()).unwrap_or(u16::MAX).into(),
            kind: kind.code(),
        };
        let mut record = [0; DENTRY_SIZE];
        record.copy_from_slice(raw.as_bytes());
        self.records.push(record);
        self.total = self.total.saturating_add(1);
        full
    }

    /// The block begun, if there is one.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let count = u32::try_from(self.records.len()).ok().filter(|count| *count > 0)?;
        self.index.push(self.total.saturating_sub(wide(self.records.len())));
        let mut block = count.to_le_bytes().to_vec();
        planes::scatter(&self.records, &mut block);
        block.extend_from_slice(&self.names);
        self.records.clear();
        self.names.clear();
        Some(block)
    }
}

/// The dentry kind of a name's target.
pub fn kind_of(tree: &ValidTree, target: Target) -> DentryKind {
    let Target::Node(id) = target else { return DentryKind::Whiteout };
    match tree.node(id).kind {
        NodeKind::Directory { .. } => DentryKind::File(FileType::Directory),
        NodeKind::Regular { .. } => DentryKind::File(FileType::Regular),
        NodeKind::Symlink { .. } => DentryKind::File(FileType::Symlink),
        NodeKind::CharDevice(_) => DentryKind::File(FileType::CharDevice),
        NodeKind::BlockDevice(_) => DentryKind::File(FileType::BlockDevice),
        NodeKind::Fifo => DentryKind::File(FileType::Fifo),
        NodeKind::Socket => DentryKind::File(FileType::Socket),
        NodeKind::LinkBelow { .. } => DentryKind::LinkBelow,
    }
}

/// Records of every name of every inode that has several, sorted.
pub fn hard_links(tree: &ValidTree) -> Vec<RawHardLink> {
    let mut links = Vec::new();
    for (at, dentry) in (0u64..).zip(tree.tree().dentries()) {
        let Target::Node(id) = dentry.target else { continue };
        let inode = tree.inode_index(id);
        if tree.links(inode) > 1 && !tree.node(id).kind.is_directory() {
            links.push((inode, at, tree.inode_index(dentry.parent)));
        }
    }
    links.sort_unstable();
    let record = |(inode, dentry, parent): (u32, u64, u32)| RawHardLink {
        inode: inode.into(),
        parent: parent.into(),
        dentry: dentry.into(),
    };
    links.into_iter().map(record).collect()
}
