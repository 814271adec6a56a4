//! Replies and notifications to the kernel.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use zerocopy::{Immutable, IntoBytes};

use crate::abi::{NOTIFY_STORE, NotifyStoreOut, OutHeader};

/// Where the reply to one request goes. Dropped without a reply, it answers
/// EIO: the caller must never hang.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    device: BorrowedFd<'a>,
    unique: u64,
    is_open: bool,
}

impl<'a> Reply<'a> {
    pub(crate) fn new(device: BorrowedFd<'a>, unique: u64) -> Self {
        Self { device, unique, is_open: true }
    }

    /// Answers with bytes.
    pub(crate) fn bytes(mut self, bytes: &[u8]) {
        self.is_open = false;
        // A caller that was killed meanwhile has no request any more (ENOENT);
        // for anything else there is nobody to tell.
        let _ = send(self.device, 0, self.unique, &[bytes]);
    }

    /// Answers with a record of the protocol.
    pub(crate) fn record<T: IntoBytes + Immutable>(self, record: &T) {
        self.bytes(record.as_bytes());
    }

    /// Answers that it is done.
    pub(crate) fn done(self) {
        self.bytes(&[]);
    }

    /// Answers with an error.
    pub(crate) fn error(mut self, errno: Errno) {
        self.is_open = false;
        let _ = send(self.device, errno.raw_os_error().saturating_neg(), self.unique, &[]);
    }

    /// For requests that the kernel wants no reply to.
    pub(crate) fn none(mut self) {
        self.is_open = false;
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let _ = send(self.device, Errno::IO.raw_os_error().saturating_neg(), self.unique, &[]);
        }
    }
}

/// Puts bytes of a file into the page cache. They must not reach past the end
/// of the file, and no request for the same page may be waiting for this thread.
///
/// # Errors
/// `ENOENT` when the kernel does not know the file; whatever writing can give.
pub(crate) fn store(
    device: BorrowedFd<'_>,
    node: u64,
    offset: u64,
    bytes: &[u8],
) -> Result<(), Errno> {
    let size = u32::try_from(bytes.len()).map_err(|_| Errno::INVAL)?;
    let record = NotifyStoreOut { nodeid: node, offset, size, padding: 0 };
    send(device, NOTIFY_STORE, 0, &[record.as_bytes(), bytes])
}

fn send(device: BorrowedFd<'_>, error: i32, unique: u64, parts: &[&[u8]]) -> Result<(), Errno> {
    let body = parts.iter().map(|part| part.len()).fold(0, usize::saturating_add);
    let length = body.saturating_add(size_of::<OutHeader>());
    let len = u32::try_from(length).map_err(|_| Errno::INVAL)?;
    let header = OutHeader { len, error, unique };
    let none: &[u8] = &[];
    let part = |number: usize| IoSlice::new(parts.get(number).copied().unwrap_or(none));
    let slices = [IoSlice::new(header.as_bytes()), part(0), part(1)];
    let slices = slices.get(..parts.len().saturating_add(1)).unwrap_or(&slices);
    loop {
        match rustix::io::writev(device, slices) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
