//! An open regular file: its bytes, its holes, and whether it held still.

use std::ops::Range;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{FileType, OFlags, SeekFrom, seek};
use rustix::io::{Errno, pread};

use super::Fault;
use super::directory::open_no_atime;
use super::stat::{Stat, Version};

/// A file under a name may have become a pipe (never block on it) or a link
/// (never follow it) since it was listed.
const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// The largest size of a file in bytes.
const OFFSET_MAX: u64 = i64::MAX.cast_unsigned();

/// A regular file, open for reading, and what it was when it was opened.
#[derive(Debug)]
pub(crate) struct OpenFile {
    fd: OwnedFd,
    version: Version,
    size: u64,
}

impl OpenFile {
    /// Opens `name` in a directory; anything but a regular file is [`Fault::Changed`].
    pub(crate) fn open(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Self, Fault> {
        let fd = open_no_atime(directory, name, FLAGS)?;
        let stat = Stat::of(&fd)?;
        if stat.file_type != FileType::RegularFile {
            return Err(Fault::Changed);
        }
        Ok(Self { fd, version: stat.version(), size: stat.size })
    }

    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Bytes, when it was opened.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Fails when the file is not what it was when it was opened, or goes on
    /// behind its end, as those of proc do.
    pub(crate) fn check_unchanged(&self) -> Result<(), Fault> {
        let more = self.has_byte_at(self.size)?;
        match Stat::of(&self.fd)?.version() == self.version {
            true if more => Err(Fault::Endless),
            true => Ok(()),
            false => Err(Fault::Changed),
        }
    }

    fn has_byte_at(&self, offset: u64) -> Result<bool, Fault> {
        loop {
            match pread(&self.fd, &mut [0], offset) {
                Ok(length) => return Ok(length > 0),
                Err(Errno::INTR) => {}
                // No file reaches there.
                Err(Errno::INVAL | Errno::OVERFLOW) if offset >= OFFSET_MAX => return Ok(false),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Fills the buffer; a file that ends before that is [`Fault::Changed`].
    pub(crate) fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Fault> {
        let mut offset = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            match pread(&self.fd, &mut *rest, offset) {
                Ok(0) => return Err(Fault::Changed),
                Ok(length) => {
                    offset = offset.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
                    rest = rest.get_mut(length..).unwrap_or_default();
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// The first run of data that ends after `offset`, from `offset` on;
    /// `None` when there is none up to the end of the file. Costs one system
    /// call at offset 0 of a file without holes.
    pub(crate) fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, Fault> {
        if offset >= self.size {
            return Ok(None);
        }
        if offset == 0 {
            let end = self.seek_hole(0)?;
            if end > 0 {
                return Ok(Some(0..end));
            }
        }
        let start = match seek(&self.fd, SeekFrom::Data(offset)) {
            Ok(start) if start >= self.size => return Ok(None),
            Ok(start) => start.max(offset),
            Err(Errno::NXIO) => return Ok(None),
            Err(errno) if no_map(errno) => return Ok(Some(offset..self.size)),
            Err(errno) => return Err(errno.into()),
        };
        let end = self.seek_hole(start)?;
        // A filesystem whose answers contradict each other has no map.
        Ok(Some(start..if end > start { end } else { self.size }))
    }

    fn seek_hole(&self, offset: u64) -> Result<u64, Fault> {
        match seek(&self.fd, SeekFrom::Hole(offset)) {
            Ok(end) => Ok(end.clamp(offset, self.size)),
            // The file has become shorter.
            Err(Errno::NXIO) => Err(Fault::Changed),
            Err(errno) if no_map(errno) => Ok(self.size),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// The filesystem does not know `SEEK_DATA` and `SEEK_HOLE`.
fn no_map(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::NOTSUP | Errno::NOSYS)
}
