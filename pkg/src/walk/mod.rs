//! Every name of a stack or of one layer, depth first.
//!
//! A directory comes before what is in it; in it first everything that is no
//! directory, then the directories, each sorted by name. So files come in
//! tree order (FORMAT.md, section 8), which is the order of a built layer's
//! content, and all that is in a directory comes together.
//!
//! Memory: 8 bytes for each directory, and a few hundred names for each
//! directory on the way down.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::as_conversions)]

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;

use crate::error::ReadError;

pub use self::layer::{LayerName, LayerNames};

mod layer;
mod stack;

/// Names that are listed at a time.
const BATCH: usize = 256;

/// Takes a name, what it stands for, and where a listing goes on after it.
pub type EachName<'a, N> = &'a mut dyn FnMut(&[u8], N, u64) -> ControlFlow<()>;

/// What has directories.
pub trait Names {
    /// What a name stands for.
    type Name: Copy;

    /// The root.
    fn root(&self) -> Self::Name;

    /// The number of a directory, which no other has; `None` for anything else.
    fn directory(name: &Self::Name) -> Option<u64>;

    /// Lists a directory from `offset` on, 0 being its start.
    ///
    /// # Errors
    /// Everything of the reader.
    fn list(
        &self,
        directory: u64,
        offset: u64,
        each: EachName<'_, Self::Name>,
    ) -> Result<(), ReadError>;

    /// The error of a directory that is met a second time: in itself, perhaps.
    fn loops(&self, directory: u64) -> ReadError;
}

/// A name that was met.
#[derive(Debug, Clone, Copy)]
pub struct Visit<N> {
    /// What it stands for.
    pub name: N,
    /// Directories above it; 0 for the root.
    pub depth: usize,
}

/// A walk under way.
#[derive(Debug)]
pub struct Walk<'a, T: Names> {
    source: &'a T,
    frames: Vec<Frame<T::Name>>,
    path: Vec<u8>,
    seen: HashSet<u64>,
}

#[derive(Debug)]
struct Frame<N> {
    directory: u64,
    path_length: usize,
    /// The second of two passes, for directories.
    is_second: bool,
    has_directories: bool,
    next: u64,
    is_listed: bool,
    names: VecDeque<(Vec<u8>, N)>,
}

impl<N: Copy> Frame<N> {
    fn fill<T: Names<Name = N>>(&mut self, source: &T) -> Result<(), ReadError> {
        let mut is_full = false;
        source.list(self.directory, self.next, &mut |name, target, next| {
            self.next = next;
            let is_directory = T::directory(&target).is_some();
            self.has_directories |= is_directory;
            if is_directory != self.is_second {
                return ControlFlow::Continue(());
            }
            self.names.push_back((name.to_vec(), target));
            is_full = self.names.len() >= BATCH;
            if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        self.is_listed = !is_full;
        Ok(())
    }

    /// Begins the second pass; `false` when there is none to come.
    fn next_pass(&mut self) -> bool {
        let more = self.has_directories && !self.is_second;
        (self.is_second, self.is_listed, self.next) = (true, false, 0);
        more
    }
}

impl<'a, T: Names> Walk<'a, T> {
    /// A walk that begins at the root.
    pub fn new(source: &'a T) -> Self {
        Self { source, frames: Vec::new(), path: Vec::new(), seen: HashSet::new() }
    }

    /// The path of the last name, relative to the root and without leading slash.
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    /// The next name; `None` after the last.
    ///
    /// # Errors
    /// Everything of the reader, about what is at [`Walk::path`].
    pub fn next_name(&mut self) -> Result<Option<Visit<T::Name>>, ReadError> {
        if self.seen.is_empty() {
            let name = self.source.root();
            self.enter(&name)?;
            return Ok(Some(Visit { name, depth: 0 }));
        }
        loop {
            let depth = self.frames.len();
            let Some(frame) = self.frames.last_mut() else { return Ok(None) };
            self.path.truncate(frame.path_length);
            if let Some((bytes, name)) = frame.names.pop_front() {
                if !self.path.is_empty() {
                    self.path.push(b'/');
                }
                self.path.extend_from_slice(&bytes);
                self.enter(&name)?;
                return Ok(Some(Visit { name, depth }));
            }
            if !frame.is_listed {
                frame.fill(self.source)?;
            } else if !frame.next_pass() {
                self.frames.pop();
            }
        }
    }

    fn enter(&mut self, name: &T::Name) -> Result<(), ReadError> {
        let Some(directory) = T::directory(name) else { return Ok(()) };
        if !self.seen.insert(directory) {
            return Err(self.source.loops(directory));
        }
        self.frames.push(Frame {
            directory,
            path_length: self.path.len(),
            is_second: false,
            has_directories: false,
            next: 0,
            is_listed: false,
            names: VecDeque::new(),
        });
        Ok(())
    }
}
