//! Objects as members.

use std::io::Write;

use super::error::unreadable;
use super::{ExportError, ExportOptions, Exported, Progress, SOCKETS_LISTED};
use crate::archive::{ArchiveWriter, EmitError, Entry, EntryKind, SparseMap};
use crate::error::ReadError;
use crate::format::inode::{Inode, InodeKind};
use crate::format::{Place, Rule, index64, wide};
use crate::reader::{Image, Xattr};
use crate::tree::Timestamp;

/// Bytes that are read at a time: one or more whole blocks of any size.
const CHUNK: usize = 1 << 20;
/// Bytes of a block of an archive.
const BLOCK: u64 = 512;

/// Attributes of a member.
#[derive(Debug, Clone, Default)]
pub struct Attributes {
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub mtime: Timestamp,
    pub xattrs: Vec<Xattr>,
}

impl Attributes {
    /// Those of an inode of one layer.
    pub fn of(image: &Image, inode: &Inode) -> Result<Self, ReadError> {
        Ok(Self {
            permissions: inode.permissions,
            uid: inode.uid,
            gid: inode.gid,
            mtime: inode.mtime,
            xattrs: image.xattrs(inode)?,
        })
    }
}

/// Writes objects into an archive.
pub struct Members<'a, W> {
    archive: ArchiveWriter<W>,
    options: ExportOptions,
    progress: &'a dyn Progress,
    buffer: Vec<u8>,
    count: u64,
    sockets: u64,
    first_sockets: Vec<Vec<u8>>,
}

/// Refuses a path whose last component would be read as a whiteout.
pub fn check_name(path: &[u8]) -> Result<(), ExportError> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if name.starts_with(b".wh.") {
        return Err(ExportError::WhiteoutName { path: path.to_vec() });
    }
    Ok(())
}

fn refused(path: &[u8]) -> impl FnOnce(EmitError) -> ExportError {
    let path = path.to_vec();
    move |cause| match cause {
        EmitError::Sink(cause) => ExportError::Sink(cause),
        cause => ExportError::Member { path, cause },
    }
}

impl<'a, W: Write> Members<'a, W> {
    pub fn new(sink: W, options: &ExportOptions, progress: &'a dyn Progress) -> Self {
        Self {
            archive: ArchiveWriter::new(sink),
            options: *options,
            progress,
            buffer: Vec::new(),
            count: 0,
            sockets: 0,
            first_sockets: Vec::new(),
        }
    }

    /// Ends the archive and gives the sink back, flushed.
    pub fn finish(self) -> Result<(W, Exported), ExportError> {
        let (sink, bytes) = self.archive.finish().map_err(refused(b""))?;
        let (sockets, first_sockets) = (self.sockets, self.first_sockets);
        Ok((sink, Exported { members: self.count, bytes, sockets, first_sockets }))
    }

    fn member(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
        kind: EntryKind<'_>,
    ) -> Result<(), ExportError> {
        self.count = self.count.saturating_add(1);
        let Attributes { permissions, uid, gid, mtime, ref xattrs } = *attributes;
        let entry = Entry { path, kind, permissions, uid, gid, mtime, xattrs };
        self.archive.member(&entry).map_err(refused(path))
    }

    pub fn directory(&mut self, path: &[u8], attributes: &Attributes) -> Result<(), ExportError> {
        self.member(path, attributes, EntryKind::Directory)
    }

    /// An empty file that says something of its name or its directory.
    pub fn mark(&mut self, directory: &[u8], name: &[u8]) -> Result<(), ExportError> {
        let path = match directory {
            b"" => name.to_vec(),
            directory => [directory, name].join(&b'/'),
        };
        let attributes = Attributes { permissions: 0o644, ..Attributes::default() };
        self.member(&path, &attributes, EntryKind::Regular(0))
    }

    /// One more name of the object that `inode` is, which is at `target`.
    pub fn hard_link(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
        inode: &Inode,
        target: &[u8],
    ) -> Result<(), ExportError> {
        if inode.kind == InodeKind::Socket {
            return self.socket(path);
        }
        self.member(path, attributes, EntryKind::HardLink(target))
    }

    /// An object that is no directory, with its data.
    pub fn object(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
        image: &Image,
        inode: &Inode,
    ) -> Result<(), ExportError> {
        let kind = match inode.kind {
            InodeKind::Regular(_) => return self.file(path, attributes, image, inode),
            InodeKind::Symlink(_) => {
                let target = image.target(inode).map_err(unreadable(path))?;
                return self.member(path, attributes, EntryKind::Symlink(&target));
            }
            InodeKind::Socket => return self.socket(path),
            InodeKind::CharDevice(device) => EntryKind::CharDevice(device),
            InodeKind::BlockDevice(device) => EntryKind::BlockDevice(device),
            InodeKind::Fifo => EntryKind::Fifo,
            // The name says otherwise.
            InodeKind::Directory { .. } | InodeKind::LinkBelow(_) => {
                let cause = image.corrupt(Rule::DentryKind, Place::Inode(inode.index));
                return Err(unreadable(path)(cause));
            }
        };
        self.member(path, attributes, kind)
    }

    fn socket(&mut self, path: &[u8]) -> Result<(), ExportError> {
        if !self.options.skip_sockets {
            return Err(ExportError::Socket { path: path.to_vec() });
        }
        self.sockets = self.sockets.saturating_add(1);
        if self.first_sockets.len() < SOCKETS_LISTED {
            self.first_sockets.push(path.to_vec());
        }
        Ok(())
    }

    fn file(
        &mut self,
        path: &[u8],
        attributes: &Attributes,
        image: &Image,
        inode: &Inode,
    ) -> Result<(), ExportError> {
        let hole = image.seek_hole(inode, 0).map_err(unreadable(path))?;
        if hole.is_none_or(|hole| hole == inode.size) {
            self.member(path, attributes, EntryKind::Regular(inode.size))?;
            return self.run(path, image, inode, 0, inode.size);
        }
        let mut map = SparseMap::new(inode.size);
        each_run(path, image, inode, |offset, length| {
            map.add(offset, length);
            Ok(())
        })?;
        self.member(path, attributes, EntryKind::Sparse(&map))?;
        let archive = &mut self.archive;
        each_run(path, image, inode, |offset, length| {
            archive.run(offset, length).map_err(refused(path))
        })?;
        self.archive.end_map().map_err(refused(path))?;
        each_run(path, image, inode, |offset, length| self.run(path, image, inode, offset, length))
    }

    /// Bytes of a file.
    fn run(
        &mut self,
        path: &[u8],
        image: &Image,
        inode: &Inode,
        offset: u64,
        length: u64,
    ) -> Result<(), ExportError> {
        let end = offset.saturating_add(length);
        let mut at = offset;
        while at < end {
            let want = index64(end.saturating_sub(at)).min(CHUNK);
            if self.buffer.len() < want {
                self.buffer.resize(want, 0);
            }
            let part = self.buffer.get_mut(..want).unwrap_or_default();
            let read = image.read_at(inode, at, part).map_err(unreadable(path))?;
            // It reads as far as the file's size says, or fails.
            let part = part.get(..read).filter(|part| !part.is_empty());
            let part = part.ok_or(EmitError::Length).map_err(refused(path))?;
            self.archive.data(part).map_err(refused(path))?;
            self.progress.bytes(wide(read));
            at = at.saturating_add(wide(read));
        }
        Ok(())
    }
}

/// Calls `each` with offset and length of each run of data between holes. For
/// the sake of [`SparseMap`] a run goes on into the hole behind it up to a
/// whole block; a hole that is then filled is none.
fn each_run(
    path: &[u8],
    image: &Image,
    inode: &Inode,
    mut each: impl FnMut(u64, u64) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    let mut at = 0;
    let mut open: Option<(u64, u64)> = None;
    while let Some(start) = image.seek_data(inode, at).map_err(unreadable(path))? {
        let hole = image.seek_hole(inode, start).map_err(unreadable(path))?;
        at = hole.unwrap_or(inode.size);
        open = match open {
            None => Some((start, at)),
            Some((first, end)) => {
                let length = end.saturating_sub(first).next_multiple_of(BLOCK);
                if first.saturating_add(length) >= start {
                    Some((first, at))
                } else {
                    each(first, length)?;
                    Some((start, at))
                }
            }
        };
    }
    match open {
        Some((start, end)) => each(start, end.saturating_sub(start)),
        None => Ok(()),
    }
}
