//! The entries of a directory as READDIR and READDIRPLUS give them.

use std::ops::ControlFlow;

use microfs::stack::NodeNum;
use zerocopy::IntoBytes;

use crate::abi::{DIRENT_ALIGN, Dirent, EntryOut};
use crate::adapter::Adapter;
use crate::attr::{type_bits, unknown};
use crate::errno::Failure;
use crate::reply_dir::{Listed, list};
use crate::statistics::Request;

/// A reply under construction, in a buffer of the size that was asked for.
#[derive(Debug)]
pub(crate) struct Listing<'a> {
    room: &'a mut [u8],
    length: usize,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(room: &'a mut [u8]) -> Self {
        Self { room, length: 0 }
    }

    /// Bytes of the reply so far.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Fills it with the entries of a directory from an offset on; with their
    /// attributes if `plus`.
    pub(crate) fn fill(
        &mut self,
        adapter: &Adapter,
        directory: NodeNum,
        offset: u64,
        plus: bool,
    ) -> Result<(), Failure> {
        list(&adapter.stack, directory, offset, &mut |entry| {
            if !plus {
                return self.add(&[], entry);
            }
            if !self.has_room(size_of::<EntryOut>(), entry) {
                return ControlFlow::Break(());
            }
            let record = Self::record(adapter, entry);
            self.add(record.as_bytes(), entry)
        })?;
        Ok(())
    }

    /// One whose attributes cannot be given is listed all the same, without
    /// lifetime: the error shows when it is used.
    fn record(adapter: &Adapter, entry: &Listed<'_>) -> EntryOut {
        if entry.is_dot {
            return unknown(entry.node, entry.file_type);
        }
        match adapter.entry(entry.node) {
            Ok(record) => {
                adapter.kernel.known.insert(entry.node);
                record
            }
            Err(failure) => {
                adapter.failed(Request::ReadDirPlus, entry.node, &failure);
                unknown(entry.node, entry.file_type)
            }
        }
    }

    fn has_room(&self, before: usize, entry: &Listed<'_>) -> bool {
        let length = size_of::<Dirent>().saturating_add(entry.name.len());
        let needed = before.saturating_add(length.next_multiple_of(DIRENT_ALIGN));
        self.length.saturating_add(needed) <= self.room.len()
    }

    fn add(&mut self, before: &[u8], entry: &Listed<'_>) -> ControlFlow<()> {
        let Ok(namelen) = u32::try_from(entry.name.len()) else { return ControlFlow::Continue(()) };
        if !self.has_room(before.len(), entry) {
            return ControlFlow::Break(());
        }
        let kind = type_bits(entry.file_type) >> 12;
        let dirent = Dirent { ino: entry.node.0, off: entry.offset, namelen, kind };
        let end = self.length.saturating_add(before.len());
        let end = end.saturating_add(size_of::<Dirent>()).saturating_add(entry.name.len());
        let padding = end.next_multiple_of(DIRENT_ALIGN).saturating_sub(end);
        for part in [before, dirent.as_bytes(), entry.name, &[0; DIRENT_ALIGN][..padding]] {
            self.put(part);
        }
        ControlFlow::Continue(())
    }

    fn put(&mut self, part: &[u8]) {
        let end = self.length.saturating_add(part.len());
        if let Some(to) = self.room.get_mut(self.length..end) {
            to.copy_from_slice(part);
            self.length = end;
        }
    }
}

#[cfg(test)]
mod tests;
