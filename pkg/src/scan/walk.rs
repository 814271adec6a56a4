//! The walk itself.

use std::collections::HashMap;
use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, readlinkat};
use rustix::io::Errno;

use super::directory::{NameList, open_directory, open_root};
use super::error::Fault;
use super::source::TableBuilder;
use super::stat::{ObjectId, Stat, Version};
use super::xattrs::{Attributes, XattrReader};
use super::{Descent, OnError, ScanError, ScanOptions, Scanned, SkipReason, Skipped, Statistics};
use crate::tree::{Metadata, Node, NodeId, NodeKind, Target, Tree, TreeError, check_name};

/// Entries between two reports of progress.
const REPORT_EVERY: usize = 1024;
/// How often something that changes meanwhile is read.
const ATTEMPTS: usize = 4;

/// A directory that is being walked, its own entries being done.
struct Frame {
    node: NodeId,
    /// Sub-directories still to enter, last first.
    pending: Vec<Pending>,
    names: NameList,
}

/// A sub-directory as it was seen from above.
struct Pending {
    /// Position in the frame's names.
    name: usize,
    version: Version,
}

/// A directory that was listed without changing meanwhile.
struct Listed {
    fd: OwnedFd,
    names: NameList,
    stat: Stat,
    xattrs: Attributes,
}

/// What belongs to an entry beside its attributes.
struct Details {
    stat: Stat,
    target: Option<Vec<u8>>,
    xattrs: Attributes,
}

struct Walk<'a> {
    root: &'a Path,
    options: &'a ScanOptions,
    root_device: u64,
    reader: XattrReader,
    descent: Descent,
    tree: Tree,
    table: TableBuilder,
    /// First node of each object that has other names, and what it is.
    links: HashMap<ObjectId, (NodeId, FileType)>,
    skipped: Vec<Skipped>,
    statistics: Statistics,
}

pub(super) fn run(root: &Path, options: &ScanOptions) -> Result<Scanned, ScanError> {
    let at_root = |fault: Fault| match fault {
        Fault::System(Errno::NOTDIR) => ScanError::NotADirectory { path: root.to_path_buf() },
        fault => fault.at(root, b""),
    };
    let fd = open_root(root).map_err(|errno| at_root(errno.into()))?;
    let stat = Stat::of(&fd).map_err(at_root)?;
    if options.exclude_ids.contains(&stat.id) {
        return Err(ScanError::OutputIsSource { path: root.to_path_buf() });
    }
    let mut reader = XattrReader::new();
    if options.xattrs.include {
        reader.check(fd.as_fd(), stat.id).map_err(at_root)?;
    }
    let base = fd
        .try_clone()
        .map_err(|source| ScanError::Exhausted { path: root.to_path_buf(), source })?;
    let listed = list(&mut reader, fd.as_fd(), b".", stat.version(), options).map_err(at_root)?;
    let mut walk = Walk {
        root,
        options,
        root_device: stat.id.device,
        reader,
        descent: Descent::new(fd),
        tree: Tree::new(Metadata::default()),
        table: TableBuilder::default(),
        links: HashMap::new(),
        skipped: Vec::new(),
        statistics: Statistics { directories: 1, ..Statistics::default() },
    };
    let metadata =
        walk.metadata(&listed.stat, listed.xattrs).map_err(|error| at_root(error.into()))?;
    walk.tree.node_mut(NodeId::ROOT).metadata = metadata;
    walk.everything(listed.names)?;
    Ok(Scanned {
        tree: walk.tree,
        sources: walk.table.finish(root, base),
        skipped: walk.skipped,
        statistics: walk.statistics,
    })
}

impl Walk<'_> {
    fn everything(&mut self, names: NameList) -> Result<(), ScanError> {
        let mut frames = vec![self.directory(NodeId::ROOT, names)?];
        while let Some(frame) = frames.last_mut() {
            let Some(pending) = frame.pending.pop() else {
                frames.pop();
                self.descent.pop().map_err(|fault| fault.at(self.root, self.descent.path()))?;
                continue;
            };
            let name = frame.names.get(pending.name).unwrap_or_default();
            match self.enter(frame.node, name, pending.version) {
                Ok((node, names)) => {
                    let frame = self.directory(node, names)?;
                    frames.push(frame);
                }
                Err(fault) => self.failed(name, fault)?,
            }
        }
        Ok(())
    }

    /// Deals with the entries of the current directory; its sub-directories
    /// are left for later.
    fn directory(&mut self, node: NodeId, names: NameList) -> Result<Frame, ScanError> {
        let mut pending = Vec::new();
        self.report()?;
        for (position, name) in names.iter().enumerate() {
            if position.checked_rem(REPORT_EVERY) == Some(REPORT_EVERY - 1) {
                self.report()?;
            }
            match self.entry(node, name) {
                Ok(Some(version)) => pending.push(Pending { name: position, version }),
                Ok(None) => {}
                Err(fault) => self.failed(name, fault)?,
            }
        }
        pending.reverse();
        let names = if pending.is_empty() { NameList::default() } else { names };
        Ok(Frame { node, pending, names })
    }

    /// Deals with one entry; gives back a directory's version, to be entered later.
    fn entry(&mut self, parent: NodeId, name: &[u8]) -> Result<Option<Version>, Fault> {
        check_name(name)?;
        let stat = Stat::at(self.descent.current(), name)?;
        if !self.options.exclude.is_empty()
            && self.options.exclude.excludes(&self.descent.path_of(name), stat.is_directory())
        {
            self.statistics.excluded = self.statistics.excluded.saturating_add(1);
            return Ok(None);
        }
        if self.options.exclude_ids.contains(&stat.id) {
            self.skip(name, SkipReason::Output);
            return Ok(None);
        }
        let foreign = self.options.one_file_system && stat.id.device != self.root_device;
        if stat.is_directory() {
            if !foreign {
                return Ok(Some(stat.version()));
            }
        } else if foreign && stat.mount_root {
            // On a stacked filesystem ordinary files may show another device
            // than directories do, so that alone proves nothing.
            self.skip(name, SkipReason::OtherFilesystem);
            return Ok(None);
        }
        let shared = stat.links > 1 && stat.id.inode != 0 && !stat.is_directory();
        if shared
            && let Some((node, file_type)) = self.links.get(&stat.id)
            && *file_type == stat.file_type
        {
            self.tree.link(parent, name, Target::Node(*node))?;
            self.count_name();
            self.statistics.hard_links = self.statistics.hard_links.saturating_add(1);
            return Ok(None);
        }
        let found = details(&mut self.reader, self.descent.current(), name, stat, self.options)?;
        let stat = found.stat;
        let node = self.add(parent, name, found)?;
        if shared {
            self.links.insert(stat.id, (node, stat.file_type));
        }
        Ok(None)
    }

    /// Opens and lists a sub-directory, adds it to the tree and goes there.
    fn enter(
        &mut self,
        parent: NodeId,
        name: &[u8],
        version: Version,
    ) -> Result<(NodeId, NameList), Fault> {
        let directory = self.descent.current();
        let listed = list(&mut self.reader, directory, name, version, self.options)?;
        let Listed { fd, names, stat, xattrs } = listed;
        let node = self.add(parent, name, Details { stat, target: None, xattrs })?;
        self.descent.push(name, fd, stat.id);
        Ok((node, names))
    }

    /// Adds an object and its name. Nothing is added when that fails.
    fn add(&mut self, parent: NodeId, name: &[u8], found: Details) -> Result<NodeId, Fault> {
        let Details { stat, target, xattrs } = found;
        let metadata = self.metadata(&stat, xattrs)?;
        let kind = match stat.file_type {
            FileType::Directory => NodeKind::Directory { opaque: false, implied: false },
            FileType::RegularFile => NodeKind::Regular { size: stat.size },
            FileType::Symlink => {
                let target = self.tree.intern_target(&target.unwrap_or_default())?;
                NodeKind::Symlink { target }
            }
            FileType::CharacterDevice => NodeKind::CharDevice(stat.device),
            FileType::BlockDevice => NodeKind::BlockDevice(stat.device),
            FileType::Fifo => NodeKind::Fifo,
            FileType::Socket => NodeKind::Socket,
            FileType::Unknown => return Err(Fault::UnknownType),
        };
        check_name(name)?;
        let node = self.tree.add(Node { metadata, kind })?;
        self.tree.link(parent, name, Target::Node(node))?;
        self.count_name();
        self.count_object(&stat);
        if stat.file_type == FileType::RegularFile {
            self.table.push(node, &stat);
        }
        Ok(node)
    }

    fn metadata(&mut self, stat: &Stat, xattrs: Attributes) -> Result<Metadata, TreeError> {
        Ok(Metadata {
            permissions: stat.permissions,
            uid: self.options.owner.uid.unwrap_or(stat.uid),
            gid: self.options.owner.gid.unwrap_or(stat.gid),
            mtime: self.options.mtime.apply(stat.mtime),
            xattrs: self.tree.xattrs_mut().intern(xattrs)?,
        })
    }

    fn report(&self) -> Result<(), ScanError> {
        let Some(progress) = &self.options.progress else { return Ok(()) };
        if progress.entries(self.statistics.entries).is_break() {
            return Err(ScanError::Cancelled);
        }
        Ok(())
    }

    /// Ends the scan, or records an entry of the current directory as skipped.
    fn failed(&mut self, name: &[u8], fault: Fault) -> Result<(), ScanError> {
        let error = fault.at(self.root, &self.descent.path_of(name));
        if self.options.on_error == OnError::Fail || !error.is_about_one_object() {
            return Err(error);
        }
        self.skip(name, SkipReason::Failed(error));
        Ok(())
    }

    fn skip(&mut self, name: &[u8], reason: SkipReason) {
        self.skipped.push(Skipped { path: self.descent.path_of(name), reason });
    }

    fn count_name(&mut self) {
        self.statistics.entries = self.statistics.entries.saturating_add(1);
    }

    fn count_object(&mut self, stat: &Stat) {
        let statistics = &mut self.statistics;
        let counter = match stat.file_type {
            FileType::Directory => &mut statistics.directories,
            FileType::RegularFile => &mut statistics.regular_files,
            FileType::Symlink => &mut statistics.symlinks,
            _ => &mut statistics.special_files,
        };
        *counter = counter.saturating_add(1);
        if stat.file_type == FileType::RegularFile {
            let allocated = stat.size.min(stat.blocks.saturating_mul(512));
            statistics.content_bytes = statistics.content_bytes.saturating_add(stat.size);
            statistics.allocated_bytes = statistics.allocated_bytes.saturating_add(allocated);
        }
    }
}

/// Opens `name` in a directory (`.` is that directory) and lists it, again if
/// it is not what was seen from above, or changes meanwhile.
fn list(
    reader: &mut XattrReader,
    directory: BorrowedFd<'_>,
    name: &[u8],
    version: Version,
    options: &ScanOptions,
) -> Result<Listed, Fault> {
    let mut expected = version;
    for _ in 0..ATTEMPTS {
        let fd = open_directory(directory, name)?;
        let names = NameList::read(&fd)?;
        let xattrs = reader.read(fd.as_fd(), b".", &options.xattrs)?;
        let stat = Stat::of(&fd)?;
        if stat.version() == expected {
            return Ok(Listed { fd, names, stat, xattrs });
        }
        let seen = Stat::at(directory, name)?;
        let crossed = options.one_file_system && seen.id.device != version.id.device;
        if !seen.is_directory() || crossed {
            return Err(Fault::Changed);
        }
        expected = seen.version();
    }
    Err(Fault::Changed)
}

/// Reads what belongs to an entry beside its attributes, until both belong together.
fn details(
    reader: &mut XattrReader,
    directory: BorrowedFd<'_>,
    name: &[u8],
    stat: Stat,
    options: &ScanOptions,
) -> Result<Details, Fault> {
    let mut stat = stat;
    for _ in 0..ATTEMPTS {
        let target = if stat.file_type == FileType::Symlink {
            match readlinkat(directory, name, Vec::new()) {
                Ok(target) => Some(target.into_bytes()),
                // No longer a link.
                Err(Errno::INVAL) => {
                    stat = Stat::at(directory, name)?;
                    continue;
                }
                Err(errno) => return Err(errno.into()),
            }
        } else {
            None
        };
        let xattrs = reader.read(directory, name, &options.xattrs)?;
        // An ordinary file without attributes is verified when it is opened.
        if target.is_none() && xattrs.is_empty() {
            return Ok(Details { stat, target, xattrs });
        }
        let again = Stat::at(directory, name)?;
        if again.version() == stat.version() {
            return Ok(Details { stat, target, xattrs });
        }
        if again.is_directory() {
            return Err(Fault::Changed);
        }
        stat = again;
    }
    Err(Fault::Changed)
}
