//! Regular files.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use super::Progress;
use super::error::{Action, Failure, failed};
use super::report::What;
use super::restore::{Handle, Properties};
use super::target::{PRIVATE_FILE, Resolver, make};
use crate::format::{index64, wide};
use crate::stack::{Attr, Stack};

/// Bytes that are read and written at a time.
const CHUNK: usize = 1 << 20;
/// A larger file always gets its length first, so that one that the
/// filesystem cannot hold fails before it is written.
const LENGTH_FIRST: u64 = 1 << 20;

/// A file that is being written, perhaps by several threads.
#[derive(Debug)]
pub struct OpenFile {
    file: OwnedFd,
    directory: Arc<OwnedFd>,
    name: Vec<u8>,
    attr: Attr,
    /// Parts that are not written yet.
    parts: AtomicU64,
    failed: AtomicBool,
}

/// Makes a file, and when it ends in a hole or may do so gives it its length.
pub fn create(
    resolver: &Resolver,
    stack: &Stack,
    attr: &Attr,
    directory: &Arc<OwnedFd>,
    name: &[u8],
    force: bool,
) -> Result<OpenFile, Failure> {
    // A file without holes gets its length by being written.
    let is_whole = stack.seek_hole(attr.node, 0)?.unwrap_or(0) == attr.size;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file =
        make(directory, name, force, || resolver.open(&**directory, name, flags, PRIVATE_FILE))?;
    let open = OpenFile {
        file,
        directory: Arc::clone(directory),
        name: name.to_vec(),
        attr: *attr,
        parts: AtomicU64::new(1),
        failed: AtomicBool::new(false),
    };
    if (!is_whole || attr.size > LENGTH_FIRST)
        && let Err(errno) = rustix::fs::ftruncate(&open.file, attr.size)
    {
        open.abandon();
        return Err(failed(Action::SetLength(attr.size))(errno));
    }
    Ok(open)
}

impl OpenFile {
    /// Counts one more part, to be finished like the first.
    pub fn add_part(&self) {
        self.parts.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes what is data in `start..end`.
    pub fn write(
        &self,
        stack: &Stack,
        start: u64,
        end: u64,
        progress: &dyn Progress,
    ) -> Result<u64, Failure> {
        let result = self.copy(stack, start, end.min(self.attr.size), progress);
        if result.is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        result
    }

    fn copy(
        &self,
        stack: &Stack,
        start: u64,
        end: u64,
        progress: &dyn Progress,
    ) -> Result<u64, Failure> {
        let node = self.attr.node;
        let mut buffer = vec![0; CHUNK.min(index64(end.saturating_sub(start)))];
        let (mut at, mut written) = (start, 0u64);
        while at < end {
            let Some(data) = stack.seek_data(node, at)?.filter(|data| *data < end) else { break };
            let hole = stack.seek_hole(node, data)?.unwrap_or(end).min(end);
            at = data;
            while at < hole {
                let want = index64(hole.saturating_sub(at)).min(buffer.len());
                let part = buffer.get_mut(..want).unwrap_or_default();
                let length = stack.read_at(node, at, part)?;
                let part = part.get(..length).filter(|part| !part.is_empty());
                // `end` is not after the end of the file.
                let short = std::io::ErrorKind::UnexpectedEof;
                let part = part.ok_or_else(|| Failure::System(Action::Write, short.into()))?;
                self.write_all(part, at).map_err(failed(Action::Write))?;
                progress.bytes(wide(length));
                written = written.saturating_add(wide(length));
                at = at.saturating_add(wide(length));
            }
        }
        Ok(written)
    }

    fn write_all(&self, bytes: &[u8], offset: u64) -> rustix::io::Result<()> {
        let (mut rest, mut at) = (bytes, offset);
        while !rest.is_empty() {
            let length = match rustix::io::pwrite(&self.file, rest, at) {
                Ok(0) => return Err(Errno::NOSPC),
                Ok(length) => length,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            };
            rest = rest.get(length..).unwrap_or_default();
            at = at.saturating_add(wide(length));
        }
        Ok(())
    }

    /// Ends a part. The last one gives the file its properties and returns
    /// what could not be restored; a file of which a part failed is removed.
    pub fn finish_part(&self, stack: &Stack) -> Result<Option<Vec<What>>, Failure> {
        if self.parts.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Ok(None);
        }
        if self.failed.load(Ordering::Relaxed) {
            self.abandon();
            return Ok(None);
        }
        let xattrs = stack.xattrs(self.attr.node)?;
        let properties = Properties { attr: &self.attr, xattrs: &xattrs };
        properties.restore(Handle::Open(self.file.as_fd())).map(Some)
    }

    /// Marks the file as one that is not to stay.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    fn abandon(&self) {
        // Best effort: the error that led here is reported.
        let _ = rustix::fs::unlinkat(&*self.directory, &*self.name, AtFlags::empty());
    }
}
