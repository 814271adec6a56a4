//! Where a blob's bytes come from.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Random access to a blob: a local file, bytes in memory, a remote object.
///
/// Implementations return what is there now; the reader verifies every byte
/// it uses, so a source need not be trusted or stable.
pub trait ReadAt: Send + Sync {
    /// Fills `buffer` from byte `offset` on.
    ///
    /// # Errors
    /// Any error of the source; [`io::ErrorKind::UnexpectedEof`] past its end.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Length in bytes.
    ///
    /// # Errors
    /// Any error of the source.
    fn length(&self) -> io::Result<u64>;
}

impl ReadAt for File {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl ReadAt for Vec<u8> {
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = self.get(start..start.saturating_add(buffer.len()));
        buffer.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(crate::format::wide(self.len()))
    }
}
