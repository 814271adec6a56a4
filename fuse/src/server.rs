//! The threads that read requests from the kernel and have them answered.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::io::Errno;
use zerocopy::IntoBytes;

use crate::adapter::Adapter;
use crate::attach::DEVICE;
use crate::clone_device::clone_device;
use crate::request::Incoming;

/// Room for a request in 8-byte words. The kernel wants 8 KiB at least and
/// sends nothing longer: a write is at most 4 KiB (see the handshake), and a
/// longer extended attribute is refused for lack of room.
const REQUEST_WORDS: usize = 2048;

/// Room for one request, aligned as its records want it.
#[derive(Debug)]
pub(crate) struct RequestBuffer(Vec<u64>);

impl Default for RequestBuffer {
    fn default() -> Self {
        Self(vec![0; REQUEST_WORDS])
    }
}

impl RequestBuffer {
    /// Waits for a request.
    ///
    /// # Errors
    /// `ENODEV` when the mount is gone; whatever reading can give.
    pub(crate) fn receive(&mut self, device: BorrowedFd<'_>) -> Result<&[u8], Errno> {
        let length = loop {
            match rustix::io::read(device, self.0.as_mut_bytes()) {
                // ENOENT: the caller was killed before its request was read.
                Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => {}
                other => break other?,
            }
        };
        Ok(self.0.as_bytes().get(..length).unwrap_or_default())
    }
}

/// Hears how serving ended.
type Ended = Box<dyn FnOnce(io::Result<()>) + Send>;

/// What the threads of a mount share.
struct Shared {
    adapter: Adapter,
    device: Arc<OwnedFd>,
    /// Called by the last thread, with the first error of any.
    ended: Mutex<Option<Ended>>,
    error: Mutex<Option<io::Error>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let take = |error: &mut Option<io::Error>| error.take();
        let error = take(&mut self.error.lock().unwrap_or_else(PoisonError::into_inner));
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(ended) = ended {
            ended(error.map_or(Ok(()), Err));
        }
    }
}

/// Starts `threads` threads that serve an initialised connection until the
/// mount is gone; `ended` is called when the last of them has ended. With
/// `own_queues` each has its own queue in the kernel, where that is possible.
///
/// # Errors
/// Whatever starting a thread can give, if not even one could be started.
pub(crate) fn start(
    adapter: Adapter,
    device: Arc<OwnedFd>,
    threads: usize,
    own_queues: bool,
    ended: impl FnOnce(io::Result<()>) + Send + 'static,
) -> io::Result<()> {
    let ended: Ended = Box::new(ended);
    let shared = Arc::new(Shared {
        adapter,
        device,
        ended: Mutex::new(Some(ended)),
        error: Mutex::default(),
    });
    for number in 0..threads.max(1) {
        let mine = Arc::clone(&shared);
        let body = move || mine.run(own_queues && number > 0);
        match thread::Builder::new().name(format!("microfs-{number}")).spawn(body) {
            Ok(_) => {}
            // Fewer threads serve as well.
            Err(_) if number > 0 => break,
            Err(error) => {
                // The caller learns it from here.
                shared.ended.lock().unwrap_or_else(PoisonError::into_inner).take();
                return Err(error);
            }
        }
    }
    Ok(())
}

impl Shared {
    fn run(&self, own_queue: bool) {
        let clone = if own_queue { self.own_device() } else { None };
        let device = clone.as_ref().map_or(self.device.as_fd(), AsFd::as_fd);
        // Handlers catch their own panics; whatever gets past them costs one
        // request, whose reply says EIO, and not the thread.
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.serve(device))) {
                Ok(Ok(())) => return,
                Ok(Err(errno)) => {
                    let mut error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
                    error.get_or_insert(errno.into());
                    return;
                }
                Err(_) => self.adapter.statistics.count_panic(),
            }
        }
    }

    fn own_device(&self) -> Option<OwnedFd> {
        let device = File::options().read(true).write(true).open(DEVICE).ok()?;
        clone_device(device.into(), self.device.as_fd())
    }

    fn serve(&self, device: BorrowedFd<'_>) -> Result<(), Errno> {
        let mut buffer = RequestBuffer::default();
        loop {
            match buffer.receive(device) {
                Ok(bytes) => {
                    if let Some(request) = Incoming::parse(bytes) {
                        self.adapter.dispatch(&request, device);
                    }
                }
                Err(Errno::NODEV) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
    }
}
