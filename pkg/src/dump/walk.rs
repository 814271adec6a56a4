//! Walking a stack for its dump.

use std::collections::HashMap;
use std::io::Write;
use std::ops::ControlFlow;

use super::entry::Entry;
use super::escape::hex_text;
use super::verity::Verity;
use super::{DumpError, DumpOptions, INLINE_MAX};
use crate::error::ReadError;
use crate::format::{FileType, index64};
use crate::stack::{NodeNum, Stack};

/// Names that are listed at a time.
const BATCH: usize = 64;
/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// An object of which more names are to come.
struct First {
    path: Vec<u8>,
    digest: Option<[u8; 32]>,
    left: u32,
}

/// A directory that is being listed.
struct Frame {
    node: NodeNum,
    next: u64,
    path_length: usize,
}

/// A dump under way.
pub struct Dump<'a> {
    stack: &'a Stack,
    inline_max: u64,
    digests: bool,
    firsts: HashMap<NodeNum, First>,
    path: Vec<u8>,
    line: Vec<u8>,
}

struct Name {
    name: Vec<u8>,
    node: NodeNum,
    is_directory: bool,
}

impl<'a> Dump<'a> {
    /// A dump of `stack`.
    pub fn new(stack: &'a Stack, options: &DumpOptions) -> Self {
        Self {
            stack,
            inline_max: options.inline_max.min(INLINE_MAX),
            digests: options.digests,
            firsts: HashMap::new(),
            path: Vec::new(),
            line: Vec::new(),
        }
    }

    /// Writes all lines.
    pub fn run(mut self, sink: &mut impl Write) -> Result<(), DumpError> {
        self.object(NodeNum::ROOT, sink)?;
        let mut frames = vec![Frame { node: NodeNum::ROOT, next: 0, path_length: 0 }];
        while let Some(frame) = frames.last_mut() {
            self.path.truncate(frame.path_length);
            let names = self.batch(frame).map_err(|cause| self.failed(cause))?;
            let at = frame.path_length;
            let mut below = None;
            let done = names.is_empty();
            for name in names {
                self.path.truncate(at);
                self.path.push(b'/');
                self.path.extend_from_slice(&name.name);
                self.object(name.node, sink)?;
                if name.is_directory {
                    let path_length = self.path.len();
                    below = Some(Frame { node: name.node, next: 0, path_length });
                }
            }
            if done {
                frames.pop();
            }
            frames.extend(below);
        }
        sink.flush()?;
        Ok(())
    }

    fn failed(&self, cause: ReadError) -> DumpError {
        let path = if self.path.is_empty() { b"/".to_vec() } else { self.path.clone() };
        DumpError::Read { path, cause }
    }

    /// The next names of a directory, up to and including the first directory.
    fn batch(&self, frame: &mut Frame) -> Result<Vec<Name>, ReadError> {
        let mut names = Vec::new();
        self.stack.read_dir(frame.node, frame.next, &mut |entry| {
            let is_directory = entry.file_type == FileType::Directory;
            names.push(Name { name: entry.name.to_vec(), node: entry.node, is_directory });
            frame.next = entry.next;
            if is_directory || names.len() == BATCH {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(names)
    }

    fn object(&mut self, node: NodeNum, sink: &mut impl Write) -> Result<(), DumpError> {
        let entry = self.entry(node).map_err(|cause| self.failed(cause))?;
        self.line.clear();
        entry.write(&mut self.line);
        sink.write_all(&self.line)?;
        Ok(())
    }

    fn entry(&mut self, node: NodeNum) -> Result<Entry, ReadError> {
        let attr = self.stack.attr(node)?;
        let path = if self.path.is_empty() { b"/".to_vec() } else { self.path.clone() };
        let mut entry = Entry {
            path,
            size: if attr.file_type == FileType::Directory { 0 } else { attr.size },
            file_type: attr.file_type,
            permissions: attr.permissions,
            hard_link: false,
            links: attr.links,
            uid: attr.uid,
            gid: attr.gid,
            device: attr.device,
            mtime: attr.mtime,
            payload: None,
            content: None,
            digest: None,
            xattrs: self.stack.xattrs(node)?,
        };
        let first = self.take_first(node);
        match attr.file_type {
            FileType::Regular if attr.size > 0 && attr.size <= self.inline_max => {
                let mut content = vec![0; index64(attr.size)];
                let length = self.stack.read_at(node, 0, &mut content)?;
                content.truncate(length);
                entry.content = Some(content);
            }
            FileType::Regular if attr.size > 0 && self.digests => {
                let digest = match first.as_ref().and_then(|first| first.digest) {
                    Some(digest) => digest,
                    None => self.digest(node, attr.size)?,
                };
                entry.digest = Some(digest);
                entry.payload = Some(object_path(&digest));
            }
            FileType::Symlink => entry.payload = Some(self.stack.read_link(node)?),
            _ => {}
        }
        match first {
            Some(first) => {
                entry.hard_link = true;
                entry.payload = Some(first.path.clone());
                if first.left > 1 {
                    let left = first.left.saturating_sub(1);
                    self.firsts.insert(node, First { left, ..first });
                }
            }
            None if attr.links > 1 && attr.file_type != FileType::Directory => {
                let left = attr.links.saturating_sub(1);
                let first = First { path: entry.path.clone(), digest: entry.digest, left };
                self.firsts.insert(node, first);
            }
            None => {}
        }
        Ok(entry)
    }

    fn take_first(&mut self, node: NodeNum) -> Option<First> {
        self.firsts.remove(&node)
    }

    fn digest(&self, node: NodeNum, size: u64) -> Result<[u8; 32], ReadError> {
        let mut verity = Verity::new();
        let mut buffer = vec![0; CHUNK.min(index64(size))];
        let mut at = 0;
        while at < size {
            let data = self.stack.seek_data(node, at)?.unwrap_or(size).min(size);
            verity.zeros(data.saturating_sub(at));
            let end = self.stack.seek_hole(node, data)?.unwrap_or(size).min(size);
            at = data;
            while at < end {
                let want = index64(end.saturating_sub(at)).min(buffer.len());
                let part = buffer.get_mut(..want).unwrap_or_default();
                let length = self.stack.read_at(node, at, part)?;
                if length == 0 {
                    break;
                }
                verity.data(part.get(..length).unwrap_or_default());
                at = at.saturating_add(crate::format::wide(length));
            }
            at = end.max(at);
            if data >= size {
                break;
            }
        }
        Ok(verity.finish())
    }
}

/// Where an object store keeps the file of this digest: `ab/cdef…`.
fn object_path(digest: &[u8; 32]) -> Vec<u8> {
    let mut path = Vec::with_capacity(65);
    let (first, rest) = digest.split_at_checked(1).unwrap_or_default();
    hex_text(first, &mut path);
    path.push(b'/');
    hex_text(rest, &mut path);
    path
}
