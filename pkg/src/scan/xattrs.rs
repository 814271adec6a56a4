//! Extended attributes of any object, without following links.
//!
//! There is no `getxattrat` in the kernels this must run on, and a path from
//! the root could be too long or lead through a link that someone put there.
//! So an object is named as `/proc/self/fd/N/name`, N being its open
//! directory: short, and only its last component is looked up by name.

use std::ffi::CStr;
use std::io::Write;

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{lgetxattr, llistxattr};
use rustix::io::Errno;

use super::stat::{ObjectId, Stat};
use super::{Fault, XattrFilter};

/// Enough for nearly all lists and values. The kernel allocates as much as it
/// is offered, so the largest buffer is not offered first.
const SMALL: usize = 1024;
/// `XATTR_LIST_MAX` and `XATTR_SIZE_MAX`.
const LARGE: usize = 65_536;
/// How often a list is read anew because an attribute of it was gone.
const ATTEMPTS: usize = 4;

/// Name and value of each attribute, in the kernel's order.
pub(crate) type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads attributes; keeps its buffers.
#[derive(Debug)]
pub(crate) struct XattrReader {
    path: Vec<u8>,
    list: Vec<u8>,
    value: Vec<u8>,
}

impl XattrReader {
    pub(crate) fn new() -> Self {
        Self { path: Vec::new(), list: vec![0; SMALL], value: vec![0; SMALL] }
    }

    /// Whether `/proc` leads back to an open directory, as it must for the rest to work.
    pub(crate) fn check(&mut self, directory: BorrowedFd<'_>, id: ObjectId) -> Result<(), Fault> {
        self.set_path(directory, b".");
        let path = self.path.strip_suffix(&[0]).unwrap_or_default();
        match Stat::at(rustix::fs::CWD, path) {
            Ok(stat) if stat.id == id => Ok(()),
            _ => Err(Fault::NoProc),
        }
    }

    /// The attributes of `name` in a directory (`.` is the directory itself)
    /// that the filter accepts. Filesystems without attributes have none.
    pub(crate) fn read(
        &mut self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        filter: &XattrFilter,
    ) -> Result<Attributes, Fault> {
        if !filter.include {
            return Ok(Vec::new());
        }
        self.set_path(directory, name);
        for _ in 0..ATTEMPTS {
            if let Some(found) = self.attempt(filter, false)? {
                return Ok(found);
            }
        }
        // Filesystems exist that list names for which they have no value.
        Ok(self.attempt(filter, true)?.unwrap_or_default())
    }

    fn set_path(&mut self, directory: BorrowedFd<'_>, name: &[u8]) {
        self.path.clear();
        // Writing to a vector cannot fail.
        let _ = write!(self.path, "/proc/self/fd/{}/", directory.as_raw_fd());
        self.path.extend_from_slice(name);
        self.path.push(0);
    }

    /// One reading; `None` when a listed attribute is gone, unless `lenient`.
    fn attempt(
        &mut self,
        filter: &XattrFilter,
        lenient: bool,
    ) -> Result<Option<Attributes>, Fault> {
        let path = CStr::from_bytes_with_nul(&self.path).map_err(|_| Errno::INVAL)?;
        let listed = match grow(&mut self.list, |buffer| llistxattr(path, buffer)) {
            Ok(listed) => listed,
            Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Some(Vec::new())),
            Err(Errno::TOOBIG) => return Err(Fault::TooManyXattrs),
            Err(errno) => return Err(errno.into()),
        };
        let mut found = Vec::new();
        let names = self.list.get(..listed).unwrap_or_default();
        for name in names.split(|byte| *byte == 0).filter(|name| filter.accepts(name)) {
            if name.is_empty() {
                continue;
            }
            match grow(&mut self.value, |buffer| lgetxattr(path, name, buffer)) {
                Ok(length) => {
                    let value = self.value.get(..length).unwrap_or_default();
                    found.push((name.to_vec(), value.to_vec()));
                }
                Err(Errno::NODATA) if !lenient => return Ok(None),
                // Listed, but not to be had here: as good as not there.
                Err(Errno::NODATA | Errno::NOTSUP) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Some(found))
    }
}

/// Calls with the small buffer, and once more with the largest when that is too small.
fn grow(
    buffer: &mut Vec<u8>,
    mut call: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    match call(buffer.get_mut(..SMALL).unwrap_or_default()) {
        Err(Errno::RANGE) => {
            buffer.resize(LARGE, 0);
            call(buffer)
        }
        result => result,
    }
}
