//! From a node of the tree to the bytes of its file.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, OwnedFd};

use super::ScanError;
use super::cache::{DirectoryCache, first_name};
use super::content::OpenFile;
use super::error::{Fault, full_path};
use super::stat::{ObjectId, Stat, Version};
use crate::tree::{NodeId, ValidTree};

/// Where the content of each regular file is, and what the file looked like
/// when it was scanned; 24 bytes a file.
///
/// Files are opened by their first name in the tree, relative to open
/// directories, of which at most 128 are kept. All methods may be called from
/// several threads at once.
#[derive(Debug)]
pub struct SourceTable {
    root: PathBuf,
    directories: DirectoryCache,
    /// In order of their nodes.
    files: Vec<FileRecord>,
    devices: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct FileRecord {
    inode: u64,
    stamp: u64,
    node: NodeId,
    /// Index into the devices; [`SPARSE`] is set for files that may have holes.
    device: u32,
}

const SPARSE: u32 = 1 << 31;

/// Collects a [`SourceTable`] while nodes are added to a tree.
#[derive(Debug, Default)]
pub(super) struct TableBuilder {
    files: Vec<FileRecord>,
    devices: Vec<u64>,
}

impl TableBuilder {
    /// Adds a regular file; nodes must come in ascending order.
    pub(super) fn push(&mut self, node: NodeId, stat: &Stat) {
        let Version { id, stamp } = stat.version();
        let known = self.devices.iter().rposition(|device| *device == id.device);
        let index = known.unwrap_or_else(|| {
            self.devices.push(id.device);
            self.devices.len().saturating_sub(1)
        });
        let sparse = stat.blocks.saturating_mul(512) < stat.size;
        let device = u32::try_from(index).unwrap_or(SPARSE) | if sparse { SPARSE } else { 0 };
        self.files.push(FileRecord { inode: id.inode, stamp, node, device });
    }

    pub(super) fn finish(self, root: &Path, fd: OwnedFd) -> SourceTable {
        let Self { mut files, devices } = self;
        files.shrink_to_fit();
        let directories = DirectoryCache::new(fd);
        SourceTable { root: root.to_path_buf(), directories, files, devices }
    }
}

impl SourceTable {
    /// Number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether a file occupied less than its size, so that it has holes or is
    /// compressed or in-line. The opposite proves nothing: filesystems count
    /// blocks of their own too. Only the map of [`SourceFile::next_data`] is exact.
    #[must_use]
    pub fn sparse_suspected(&self, node: NodeId) -> bool {
        self.find(node).is_some_and(|file| file.device & SPARSE != 0)
    }

    /// Opens a regular file of the tree that this table came with.
    ///
    /// # Errors
    /// [`ScanError::Changed`] if it is not the file that was scanned, in the
    /// state in which it was; [`ScanError::NotScanned`] for other nodes; and
    /// what opening can give.
    pub fn open<'a>(
        &'a self,
        tree: &'a ValidTree,
        node: NodeId,
    ) -> Result<SourceFile<'a>, ScanError> {
        let record = self.find(node).ok_or(ScanError::NotScanned { node })?;
        let file = self.open_file(tree, record).map_err(|fault| self.error(tree, node, fault))?;
        Ok(SourceFile { table: self, tree, node, file })
    }

    fn open_file(&self, tree: &ValidTree, record: &FileRecord) -> Result<OpenFile, Fault> {
        let (parent, name) = first_name(tree, record.node).ok_or(Fault::Changed)?;
        let directory = self.directories.open(tree, parent)?;
        let file = OpenFile::open(directory.as_fd(), name)?;
        let index = usize::try_from(record.device & !SPARSE).unwrap_or(usize::MAX);
        let device = self.devices.get(index).copied().ok_or(Fault::Changed)?;
        let id = ObjectId { device, inode: record.inode };
        let scanned = Version { id, stamp: record.stamp };
        if file.version() == scanned { Ok(file) } else { Err(Fault::Changed) }
    }

    fn find(&self, node: NodeId) -> Option<&FileRecord> {
        let position = self.files.binary_search_by_key(&node, |file| file.node).ok()?;
        self.files.get(position)
    }

    fn error(&self, tree: &ValidTree, node: NodeId, fault: Fault) -> ScanError {
        fault.at(&self.root, &tree.path(node))
    }

    /// The path of a node as error messages show it.
    #[must_use]
    pub fn path(&self, tree: &ValidTree, node: NodeId) -> PathBuf {
        full_path(&self.root, &tree.path(node))
    }
}

/// An open file. May be read from several threads at once.
#[derive(Debug)]
pub struct SourceFile<'a> {
    table: &'a SourceTable,
    tree: &'a ValidTree,
    node: NodeId,
    file: OpenFile,
}

impl SourceFile<'_> {
    /// Length in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.file.size()
    }

    /// Fills the buffer with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`ScanError::Changed`] if the file ends before the buffer is full.
    pub fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ScanError> {
        self.file.read_exact_at(offset, buffer).map_err(|fault| self.error(fault))
    }

    /// The first run of data that ends after `offset`, cut to begin there at
    /// the earliest; `None` when there is only a hole up to the end. Runs are
    /// what `SEEK_DATA` and `SEEK_HOLE` say; where the filesystem does not
    /// know them, all is data. A file without holes costs one system call.
    ///
    /// # Errors
    /// What seeking can give.
    pub fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ScanError> {
        self.file.next_data(offset).map_err(|fault| self.error(fault))
    }

    /// All runs of data as (offset, length), in order and apart from each
    /// other; 16 bytes of memory for each.
    ///
    /// # Errors
    /// As [`SourceFile::next_data`].
    pub fn data_segments(&self) -> Result<Vec<(u64, u64)>, ScanError> {
        let mut segments: Vec<(u64, u64)> = Vec::new();
        let mut offset = 0;
        while let Some(Range { start, end }) = self.next_data(offset)? {
            let length = end.saturating_sub(start);
            match segments.last_mut() {
                Some((last, total)) if last.checked_add(*total) == Some(start) => {
                    *total = total.saturating_add(length);
                }
                _ => segments.push((start, length)),
            }
            offset = end;
        }
        Ok(segments)
    }

    /// Confirms that what was read is the file as it was scanned.
    ///
    /// # Errors
    /// [`ScanError::Changed`] if size, mtime or ctime moved since.
    pub fn finish(self) -> Result<(), ScanError> {
        self.file.check_unchanged().map_err(|fault| self.error(fault))
    }

    fn error(&self, fault: Fault) -> ScanError {
        self.table.error(self.tree, self.node, fault)
    }
}
