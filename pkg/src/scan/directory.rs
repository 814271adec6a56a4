//! Opening and listing directories, relative to open ones.

use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};
use rustix::io::Errno;

use super::Fault;

/// Bytes that one getdents call may fill.
const LIST_BUFFER: usize = 64 * 1024;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const HANDLE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens without moving the access time where that is allowed: only the owner
/// of a file (or `CAP_FOWNER`) may ask for it, for others the call is repeated.
pub(crate) fn open_no_atime(
    directory: BorrowedFd<'_>,
    name: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    match openat(directory, name, flags.union(OFlags::NOATIME), Mode::empty()) {
        Err(Errno::PERM) => openat(directory, name, flags, Mode::empty()),
        result => result,
    }
}

/// Opens the root of a walk. Here, and only here, links are followed.
pub(crate) fn open_root(path: &Path) -> Result<OwnedFd, Errno> {
    match openat(CWD, path, DIRECTORY.union(OFlags::NOATIME), Mode::empty()) {
        Err(Errno::PERM) => openat(CWD, path, DIRECTORY, Mode::empty()),
        result => result,
    }
}

/// Opens a sub-directory to list it.
pub(crate) fn open_directory(directory: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    open_no_atime(directory, name, DIRECTORY.union(OFlags::NOFOLLOW))
}

/// Opens a sub-directory, or `..`, as a mere handle: enough to reach what is
/// in it, needs no right to list it and never touches its access time.
pub(crate) fn open_handle(directory: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd, Errno> {
    openat(directory, name, HANDLE.union(OFlags::NOFOLLOW), Mode::empty())
}

/// The names in a directory, sorted by bytes; about 16 bytes and the name for each.
#[derive(Debug, Clone, Default)]
pub struct NameList {
    bytes: Vec<u8>,
    spans: Vec<(usize, u16)>,
}

impl NameList {
    /// Reads all names of an open directory, without `.` and `..`.
    pub(crate) fn read(directory: impl AsFd) -> Result<Self, Fault> {
        let mut list = Self::default();
        let mut buffer = Vec::with_capacity(LIST_BUFFER);
        let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            match entry?.file_name().to_bytes() {
                b"." | b".." => {}
                name => list.push(name),
            }
        }
        list.sort();
        Ok(list)
    }

    /// Appends a name; one over 65,535 bytes, which no kernel gives, is cut.
    pub(crate) fn push(&mut self, name: &[u8]) {
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        let name = name.get(..usize::from(length)).unwrap_or(name);
        self.spans.push((self.bytes.len(), length));
        self.bytes.extend_from_slice(name);
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        self.spans.sort_unstable_by(|a, b| slice(bytes, *a).cmp(slice(bytes, *b)));
    }

    /// Number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The name at a position.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<&[u8]> {
        self.spans.get(position).map(|span| slice(&self.bytes, *span))
    }

    /// All names, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.spans.iter().map(|span| slice(&self.bytes, *span))
    }
}

fn slice(bytes: &[u8], (start, length): (usize, u16)) -> &[u8] {
    bytes.get(start..start.saturating_add(usize::from(length))).unwrap_or_default()
}
