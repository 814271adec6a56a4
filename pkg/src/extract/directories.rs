//! The directories that were made, and a few of them open.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::{Action, Failure, failed};
use super::target::Resolver;
use crate::stack::NodeNum;

/// Directories that are held open at a time.
const OPEN_MAX: usize = 64;

/// Number of a directory, in the order in which they were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirectoryId(usize);

impl DirectoryId {
    /// The target.
    pub const ROOT: Self = Self(0);
}

#[derive(Debug)]
struct Record {
    parent: DirectoryId,
    name: Box<[u8]>,
    node: NodeNum,
}

/// All directories of the target.
#[derive(Debug)]
pub struct Directories {
    records: Vec<Record>,
    root: Arc<OwnedFd>,
    open: HashMap<DirectoryId, Arc<OwnedFd>>,
    order: VecDeque<DirectoryId>,
}

impl Directories {
    /// Nothing but the target.
    pub fn new(target: OwnedFd) -> Self {
        let root = Record { parent: DirectoryId::ROOT, name: [].into(), node: NodeNum::ROOT };
        Self {
            records: vec![root],
            root: Arc::new(target),
            open: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// Remembers a directory that was made in `parent`.
    pub fn add(&mut self, parent: DirectoryId, name: &[u8], node: NodeNum) -> DirectoryId {
        let id = DirectoryId(self.records.len());
        self.records.push(Record { parent, name: name.into(), node });
        id
    }

    /// All directories, each after everything below it; the target is last.
    pub fn bottom_up(&self) -> impl Iterator<Item = DirectoryId> + use<> {
        (0..self.records.len()).rev().map(DirectoryId)
    }

    /// The image's object.
    pub fn node(&self, id: DirectoryId) -> NodeNum {
        self.records.get(id.0).map_or(NodeNum::ROOT, |record| record.node)
    }

    /// Path of a name in a directory, relative to the target; with an empty
    /// name that of the directory.
    pub fn path(&self, id: DirectoryId, name: &[u8]) -> PathBuf {
        let mut names = Vec::new();
        if !name.is_empty() {
            names.push(name);
        }
        let mut at = id;
        while let Some(record) = self.records.get(at.0).filter(|_| at != DirectoryId::ROOT) {
            names.push(&record.name);
            at = record.parent;
        }
        names.reverse();
        PathBuf::from(OsString::from_vec(names.join(&b'/')))
    }

    /// The directory, open. One that was closed in the meantime is reached
    /// from the nearest directory above it that is open, name by name.
    pub fn open(&mut self, id: DirectoryId, resolver: &Resolver) -> Result<Arc<OwnedFd>, Failure> {
        let mut closed = Vec::new();
        let mut at = id;
        let mut directory = loop {
            if at == DirectoryId::ROOT {
                break Arc::clone(&self.root);
            }
            if let Some(open) = self.open.get(&at) {
                break Arc::clone(open);
            }
            closed.push(at);
            at = self.records.get(at.0).map_or(DirectoryId::ROOT, |record| record.parent);
        };
        while let Some(next) = closed.pop() {
            let name = self.records.get(next.0).map_or(&[][..], |record| &record.name);
            let opened =
                resolver.open_directory(&*directory, name).map_err(failed(Action::Open))?;
            directory = Arc::new(opened);
            self.remember(next, Arc::clone(&directory));
        }
        Ok(directory)
    }

    fn remember(&mut self, id: DirectoryId, directory: Arc<OwnedFd>) {
        if self.order.len() >= OPEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.open.remove(&oldest);
        }
        self.order.push_back(id);
        self.open.insert(id, directory);
    }
}
