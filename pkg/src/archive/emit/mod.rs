//! Writing an archive, member by member.
//!
//! The form is canonical, a function of the members alone: ustar headers,
//! and before a header a pax one for what ustar cannot say: paths that do
//! not fit, ids over 2,097,151, sizes of 8 GiB and more, times with a
//! fraction, before 1970 or after 2242, device numbers over 2,097,151, holes
//! (GNU sparse format 1.0) and extended attributes. Names are raw bytes, no
//! user or group is named, and two blocks of zeros end the archive.

use std::io::{self, Write};

use thiserror::Error;

use super::header::BLOCK;
use crate::format::wide;
use crate::tree::{DeviceNumber, Timestamp};

use self::block::Block;
use self::records::Extended;

mod block;
mod records;

#[cfg(test)]
mod tests;

/// A member to be written.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Path relative to the root, without slash at either end; empty for the root.
    pub path: &'a [u8],
    /// What it is.
    pub kind: EntryKind<'a>,
    /// Permission bits, 0 to 0o7777.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time.
    pub mtime: Timestamp,
    /// Extended attributes: name and value.
    pub xattrs: &'a [(Vec<u8>, Vec<u8>)],
}

/// What a member is.
#[derive(Debug, Clone, Copy)]
pub enum EntryKind<'a> {
    /// A file of so many bytes, which follow.
    Regular(u64),
    /// A file with holes; its map and then its data follow.
    Sparse(&'a SparseMap),
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink(&'a [u8]),
    /// One more name of what an earlier member or a lower layer has at this path.
    HardLink(&'a [u8]),
    /// A character device.
    CharDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A named pipe.
    Fifo,
}

/// What must be known of a map of holes before it is written: its runs of data
/// are told twice, here and to [`ArchiveWriter::run`]. All but the last should
/// be multiples of 512 bytes long: after one that is not, GNU tar goes on
/// reading at the next block, other programs at the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SparseMap {
    size: u64,
    runs: u64,
    /// Bytes of the lines of all runs.
    lines: u64,
    data: u64,
    end: u64,
}

impl SparseMap {
    /// The map of a file of `size` bytes that is all hole so far.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self { size, runs: 0, lines: 0, data: 0, end: 0 }
    }

    /// Adds a run of data behind those there are.
    pub fn add(&mut self, offset: u64, length: u64) {
        self.runs = self.runs.saturating_add(1);
        self.lines = self.lines.saturating_add(wide(run_line(offset, length).len()));
        self.data = self.data.saturating_add(length);
        self.end = offset.saturating_add(length);
    }

    /// A last run without data says where a hole at the end of the file ends.
    fn last(&self) -> Option<(u64, u64)> {
        (self.end < self.size).then_some((self.size, 0))
    }

    fn head(&self) -> String {
        format!("{}\n", self.runs.saturating_add(u64::from(self.last().is_some())))
    }

    /// Bytes of the map, padded to whole blocks.
    fn length(&self) -> u64 {
        let last = self.last().map_or(0, |(offset, length)| wide(run_line(offset, length).len()));
        let text = wide(self.head().len()).saturating_add(self.lines).saturating_add(last);
        text.saturating_add(padding(text))
    }
}

fn run_line(offset: u64, length: u64) -> String {
    format!("{offset}\n{length}\n")
}

/// Zeros up to a whole block.
fn padding(length: u64) -> u64 {
    let over = length.checked_rem(wide(BLOCK)).unwrap_or(0);
    if over == 0 { 0 } else { wide(BLOCK).saturating_sub(over) }
}

/// Why a member cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmitError {
    /// The archive cannot be written.
    #[error("cannot write the archive")]
    Sink(#[from] io::Error),
    /// Its path, link target and attributes are more than readers accept.
    #[error(
        "its path and extended attributes take more than {limit} bytes, which readers of tar refuse"
    )]
    TooLong {
        /// Bytes of an extended header that are accepted.
        limit: u64,
    },
    /// A path, link target or attribute name that is empty or holds NUL.
    #[error("{0} is empty or holds a NUL byte")]
    Text(&'static str),
    /// Other than the announced number of bytes was given.
    #[error("a member's data are not as long as announced")]
    Length,
}

const ZEROS: [u8; BLOCK] = [0; BLOCK];

/// Writes an archive into a sink, in pieces of 512 bytes and more: give it a
/// buffered one. After [`ArchiveWriter::member`] a file's data follow by
/// [`ArchiveWriter::data`]; those of a file with holes behind all its runs.
#[derive(Debug)]
pub struct ArchiveWriter<W> {
    sink: W,
    written: u64,
    /// Bytes of the current member that are still to come.
    left: u64,
    padding: u64,
    /// Of the current map: bytes that are still to come.
    map_left: u64,
    map_last: Option<(u64, u64)>,
}

impl<W: Write> ArchiveWriter<W> {
    /// An archive without members so far.
    pub fn new(sink: W) -> Self {
        Self { sink, written: 0, left: 0, padding: 0, map_left: 0, map_last: None }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), EmitError> {
        self.sink.write_all(bytes)?;
        self.written = self.written.saturating_add(wide(bytes.len()));
        Ok(())
    }

    fn zeros(&mut self, count: u64) -> Result<(), EmitError> {
        let count = usize::try_from(count).unwrap_or(BLOCK);
        self.put(ZEROS.get(..count).unwrap_or_default())
    }

    /// Writes a member's headers.
    ///
    /// # Errors
    /// Any [`EmitError`]; the archive is then of no use.
    pub fn member(&mut self, entry: &Entry<'_>) -> Result<(), EmitError> {
        self.end_member()?;
        let mut block = Block::new(entry)?;
        let mut extended = Extended::default();
        let stored = match entry.kind {
            EntryKind::Regular(size) => size,
            EntryKind::Sparse(map) => map.length().saturating_add(map.data),
            _ => 0,
        };
        if let EntryKind::Sparse(map) = entry.kind {
            block.set_sparse_name(entry.path);
            extended.sparse(entry.path, map.size)?;
        } else {
            let directory = matches!(entry.kind, EntryKind::Directory);
            block.set_path(entry.path, directory, &mut extended)?;
        }
        if let EntryKind::Symlink(target) | EntryKind::HardLink(target) = entry.kind {
            block.set_link(target, &mut extended)?;
        }
        block.set_numbers(entry, stored, &mut extended)?;
        extended.xattrs(entry.xattrs)?;
        let records = extended.into_bytes();
        if !records.is_empty() {
            self.put(Block::extended(entry.path, wide(records.len())).finish())?;
            self.put(&records)?;
            self.zeros(padding(wide(records.len())))?;
        }
        self.put(block.finish())?;
        self.left = stored;
        self.padding = padding(stored);
        if let EntryKind::Sparse(map) = entry.kind {
            self.map_left = map.length();
            self.map_last = map.last();
            self.map_text(map.head().as_bytes())?;
        }
        Ok(())
    }

    fn map_text(&mut self, text: &[u8]) -> Result<(), EmitError> {
        self.map_left = self.map_left.checked_sub(wide(text.len())).ok_or(EmitError::Length)?;
        self.data(text)
    }

    /// Writes a run of the current member's map; all of them come before its data.
    ///
    /// # Errors
    /// [`EmitError::Length`] for other runs than [`SparseMap::add`] was told,
    /// [`EmitError::Sink`].
    pub fn run(&mut self, offset: u64, length: u64) -> Result<(), EmitError> {
        self.map_text(run_line(offset, length).as_bytes())
    }

    /// Ends the current member's map.
    ///
    /// # Errors
    /// As [`ArchiveWriter::run`].
    pub fn end_map(&mut self) -> Result<(), EmitError> {
        if let Some((offset, length)) = self.map_last.take() {
            self.run(offset, length)?;
        }
        let rest = std::mem::take(&mut self.map_left);
        if rest >= wide(BLOCK) {
            return Err(EmitError::Length);
        }
        let rest = usize::try_from(rest).unwrap_or(BLOCK);
        self.data(ZEROS.get(..rest).unwrap_or_default())
    }

    /// Writes the next bytes of the current member's data.
    ///
    /// # Errors
    /// [`EmitError::Length`] for more bytes than announced, [`EmitError::Sink`].
    pub fn data(&mut self, bytes: &[u8]) -> Result<(), EmitError> {
        self.left = self.left.checked_sub(wide(bytes.len())).ok_or(EmitError::Length)?;
        self.put(bytes)
    }

    fn end_member(&mut self) -> Result<(), EmitError> {
        if self.left > 0 || self.map_left > 0 || self.map_last.is_some() {
            return Err(EmitError::Length);
        }
        let padding = std::mem::take(&mut self.padding);
        self.zeros(padding)
    }

    /// Ends the archive and gives the sink back, flushed, and the bytes of
    /// the whole archive.
    ///
    /// # Errors
    /// As [`ArchiveWriter::data`].
    pub fn finish(mut self) -> Result<(W, u64), EmitError> {
        self.end_member()?;
        self.put(&ZEROS)?;
        self.put(&ZEROS)?;
        self.sink.flush()?;
        Ok((self.sink, self.written))
    }
}
