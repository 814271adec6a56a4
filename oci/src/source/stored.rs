//! A range of a file, read at offsets so that any number of threads can.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Document, OciError};

/// Bytes of an open file.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    file: Arc<File>,
    offset: u64,
    size: u64,
}

impl Stored {
    /// All that a file holds now.
    pub(super) fn whole(file: File, path: &Path) -> Result<Self, OciError> {
        let size = file.metadata().map_err(OciError::io("examine", path))?.len();
        Ok(Self { file: Arc::new(file), offset: 0, size })
    }

    /// A part; `None` unless all of it is inside.
    pub(super) fn part(&self, offset: u64, size: u64) -> Option<Self> {
        let end = offset.checked_add(size)?;
        let offset = self.offset.checked_add(offset)?;
        (end <= self.size).then(|| Self { file: Arc::clone(&self.file), offset, size })
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn reader(&self) -> StoredReader {
        StoredReader { stored: self.clone(), position: 0 }
    }

    /// The first bytes, at most `count`.
    pub(super) fn start(&self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.reader().take(count).read_to_end(&mut bytes).map(|_| bytes)
    }

    /// All bytes, at most `limit`.
    pub(super) fn read(
        &self,
        path: &Path,
        document: Document,
        limit: u64,
    ) -> Result<Vec<u8>, OciError> {
        let size = self.size;
        if size > limit {
            return Err(OciError::TooLarge { path: path.into(), document, size, limit });
        }
        self.start(size).map_err(OciError::io("read", path))
    }
}

/// Reads a [`Stored`] with a position of its own. Ends early when the file was
/// cut meanwhile.
#[derive(Debug)]
pub(super) struct StoredReader {
    stored: Stored,
    position: u64,
}

impl Read for StoredReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.stored.size.saturating_sub(self.position);
        let want = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let target = buffer.get_mut(..want).unwrap_or_default();
        if target.is_empty() {
            return Ok(0);
        }
        let count =
            self.stored.file.read_at(target, self.stored.offset.saturating_add(self.position))?;
        self.position = self.position.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}

impl Seek for StoredReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(distance) => self.stored.size.checked_add_signed(distance),
            SeekFrom::Current(distance) => self.position.checked_add_signed(distance),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
