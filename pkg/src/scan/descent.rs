//! Where a walk stands: the chain of directories from the root to here.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

use super::Fault;
use super::directory::open_handle;
use super::stat::{ObjectId, Stat};

/// Directories below the root that are kept open at most.
const OPEN_MAX: usize = 64;

/// The directories from the root to the current one.
///
/// Only the root and the deepest 64 are open, however deep the walk is. On
/// the way up, one that was closed is reached through `..`, or else by name
/// from the root, and must be the object that it was on the way down.
#[derive(Debug)]
pub(crate) struct Descent {
    root: OwnedFd,
    levels: Vec<Level>,
    path: Vec<u8>,
}

#[derive(Debug)]
struct Level {
    /// Open for the deepest levels only.
    fd: Option<OwnedFd>,
    id: ObjectId,
    /// Length of the path to this level's parent.
    parent_length: usize,
}

impl Descent {
    pub(crate) fn new(root: OwnedFd) -> Self {
        Self { root, levels: Vec::new(), path: Vec::new() }
    }

    /// The current directory.
    pub(crate) fn current(&self) -> BorrowedFd<'_> {
        let deepest = self.levels.last().and_then(|level| level.fd.as_ref());
        deepest.unwrap_or(&self.root).as_fd()
    }

    /// Its path below the root.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// The path of an entry of it.
    pub(crate) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut path =
            Vec::with_capacity(self.path.len().saturating_add(name.len()).saturating_add(1));
        path.extend_from_slice(&self.path);
        append(&mut path, name);
        path
    }

    /// Goes down into `name`, which has been opened and is `id`.
    pub(crate) fn push(&mut self, name: &[u8], fd: OwnedFd, id: ObjectId) {
        let parent_length = self.path.len();
        append(&mut self.path, name);
        self.levels.push(Level { fd: Some(fd), id, parent_length });
        let closing = self.levels.len().checked_sub(OPEN_MAX + 1);
        if let Some(level) = closing.and_then(|closing| self.levels.get_mut(closing)) {
            level.fd = None;
        }
    }

    /// Goes up to the parent; nothing happens at the root.
    pub(crate) fn pop(&mut self) -> Result<(), Fault> {
        let Some(left) = self.levels.pop() else { return Ok(()) };
        self.path.truncate(left.parent_length);
        let Some(parent) = self.levels.last_mut() else { return Ok(()) };
        if parent.fd.is_none() {
            let up = left.fd.and_then(|left| verified(left.as_fd(), b"..", parent.id).ok());
            match up {
                Some(up) => parent.fd = Some(up),
                None => self.reopen()?,
            }
        }
        Ok(())
    }

    /// Opens the current directory anew, by name from the root.
    fn reopen(&mut self) -> Result<(), Fault> {
        let mut at: Option<OwnedFd> = None;
        let names = self.path.split(|byte| *byte == b'/');
        for (name, level) in names.zip(&self.levels) {
            let directory = at.as_ref().unwrap_or(&self.root);
            at = Some(verified(directory.as_fd(), name, level.id)?);
        }
        if let Some(level) = self.levels.last_mut() {
            level.fd = at;
        }
        Ok(())
    }
}

fn verified(directory: BorrowedFd<'_>, name: &[u8], id: ObjectId) -> Result<OwnedFd, Fault> {
    let fd = open_handle(directory, name)?;
    if Stat::of(&fd)?.id == id { Ok(fd) } else { Err(Fault::Changed) }
}

fn append(path: &mut Vec<u8>, name: &[u8]) {
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}
