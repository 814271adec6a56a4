//! A directory on disk as a view.

use std::ops::Range;
use std::path::Path;

use rustix::fd::AsFd;
use rustix::fs::{FileType as DiskType, readlinkat};

use super::{Attributes, Content, TreeView, ViewError, XattrList};
use crate::format::FileType;
use crate::scan::{
    Descent, Fault, NameList, OpenFile, Stat, XattrFilter, XattrReader, open_directory, open_root,
};

/// A directory or mount point, read without following links and without
/// moving access times where that is allowed, to any depth.
#[derive(Debug)]
pub struct DirectoryView {
    descent: Descent,
    reader: XattrReader,
    closed: bool,
}

impl DirectoryView {
    /// Opens a directory; here links are followed.
    ///
    /// # Errors
    /// [`ViewError::Root`].
    pub fn open(path: &Path) -> Result<Self, ViewError> {
        let fd = open_root(path)
            .map_err(|errno| ViewError::Root { path: path.to_path_buf(), source: errno.into() })?;
        Ok(Self { descent: Descent::new(fd), reader: XattrReader::new(), closed: false })
    }

    /// Says that no object has names outside this directory, as is true of
    /// the root of a mounted image: then every link count is checked.
    #[must_use]
    pub fn closed(self) -> Self {
        Self { closed: true, ..self }
    }
}

impl TreeView for DirectoryView {
    fn names(&mut self) -> Result<NameList, ViewError> {
        let fd = open_directory(self.descent.current(), super::SELF).map_err(Fault::from)?;
        Ok(NameList::read(fd)?)
    }

    fn attributes(&mut self, name: &[u8]) -> Result<Attributes, ViewError> {
        let stat = Stat::at(self.descent.current(), name)?;
        Ok(Attributes {
            file_type: match stat.file_type {
                DiskType::RegularFile => FileType::Regular,
                DiskType::Directory => FileType::Directory,
                DiskType::Symlink => FileType::Symlink,
                DiskType::CharacterDevice => FileType::CharDevice,
                DiskType::BlockDevice => FileType::BlockDevice,
                DiskType::Fifo => FileType::Fifo,
                DiskType::Socket => FileType::Socket,
                DiskType::Unknown => return Err(Fault::UnknownType.into()),
            },
            permissions: stat.permissions,
            uid: stat.uid,
            gid: stat.gid,
            links: stat.links,
            size: stat.size,
            mtime: stat.mtime,
            device: stat.device,
            identity: (stat.id.device, stat.id.inode),
        })
    }

    fn link_target(&mut self, name: &[u8]) -> Result<Vec<u8>, ViewError> {
        let target = readlinkat(self.descent.current(), name, Vec::new()).map_err(Fault::from)?;
        Ok(target.into_bytes())
    }

    fn xattrs(&mut self, name: &[u8], filter: &XattrFilter) -> Result<XattrList, ViewError> {
        let mut found = self.reader.read(self.descent.current(), name, filter)?;
        found.sort();
        Ok(found)
    }

    fn open(&mut self, name: &[u8]) -> Result<Box<dyn Content + '_>, ViewError> {
        Ok(Box::new(OpenFile::open(self.descent.current(), name)?))
    }

    fn enter(&mut self, name: &[u8]) -> Result<(), ViewError> {
        let fd = open_directory(self.descent.current(), name).map_err(Fault::from)?;
        let id = Stat::of(fd.as_fd())?.id;
        self.descent.push(name, fd, id);
        Ok(())
    }

    fn leave(&mut self) -> Result<(), ViewError> {
        Ok(self.descent.pop()?)
    }

    fn is_closed(&self) -> bool {
        self.closed
    }
}

impl Content for OpenFile {
    fn size(&self) -> u64 {
        self.size()
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ViewError> {
        Ok(self.next_data(offset)?)
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ViewError> {
        Ok(self.read_exact_at(offset, buffer)?)
    }
}
