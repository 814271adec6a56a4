//! Telling others when a mount answers, or that it never will.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use thiserror::Error;

use crate::background::Parent;

/// The byte for a mount that answers.
const READY: &[u8] = b"s";
/// The byte for one that failed.
const FAILED: &[u8] = b"f";
/// How long a failing process waits for somebody to open a FIFO's other end.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Why somebody could not be told.
#[derive(Debug, Error)]
pub enum ReadyError {
    /// The FIFO cannot be used.
    #[error("cannot use init pipe {}", .path.display())]
    InitPipe {
        /// Its path as given.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The descriptor cannot be used.
    #[error("cannot use file descriptor {number} to report readiness")]
    Descriptor {
        /// Its number.
        number: i32,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The process that waits in the foreground is gone.
    #[error("the process that waited for the mount is gone")]
    Parent(#[source] io::Error),
}

/// Reports once to everyone who waits: one byte, `s` for a mount that answers
/// and `f` for a failure. One that is dropped without report reports a failure.
#[derive(Debug)]
pub struct ReadyNotifier {
    parent: Option<Parent>,
    init_pipe: Option<PathBuf>,
    descriptor: Option<(i32, File)>,
    is_told: bool,
}

impl ReadyNotifier {
    /// Collects who waits: a foreground process (see [`crate::background`]), the
    /// reader of a FIFO, and the other end of an inherited pipe or socket.
    ///
    /// The number of a descriptor cannot be taken over in safe Rust, so a
    /// duplicate is used and the descriptor itself stays open until the process
    /// ends: its reader must read one byte and not wait for the end of the file.
    ///
    /// # Errors
    /// [`ReadyError`] when FIFO or descriptor cannot be used; whichever of the
    /// two can be is told of the failure.
    pub fn new(
        parent: Option<Parent>,
        init_pipe: Option<&Path>,
        ready_fd: Option<i32>,
    ) -> Result<Self, ReadyError> {
        let mut notifier = Self { parent, init_pipe: None, descriptor: None, is_told: false };
        if let Some(number) = ready_fd {
            let file =
                duplicate(number).map_err(|source| ReadyError::Descriptor { number, source })?;
            notifier.descriptor = Some((number, file));
        }
        if let Some(path) = init_pipe {
            // Absolute, because a background process leaves its directory.
            let path = std::path::absolute(path).and_then(|path| path.metadata().map(|_| path));
            notifier.init_pipe = Some(path.map_err(|source| {
                let path = init_pipe.map(Path::to_owned).unwrap_or_default();
                ReadyError::InitPipe { path, source }
            })?);
        }
        Ok(notifier)
    }

    /// Reports a mount that answers. A FIFO that nobody reads yet is waited for
    /// in a thread of its own.
    ///
    /// # Errors
    /// [`ReadyError`]: someone who asked is gone, so that the mount is not wanted.
    pub fn ready(mut self) -> Result<(), ReadyError> {
        if let Some((number, file)) = &mut self.descriptor {
            let number = *number;
            file.write_all(READY).map_err(|source| ReadyError::Descriptor { number, source })?;
        }
        if let Some(path) = &self.init_pipe {
            let error = |source| ReadyError::InitPipe { path: path.clone(), source };
            let fifo = path.clone();
            let write = move || {
                // A reader that is gone again does not ask any more.
                let opened = File::options().write(true).open(fifo);
                let _ = opened.and_then(|mut fifo| fifo.write_all(READY));
            };
            let thread = std::thread::Builder::new().name("microfs-ready".into());
            thread.spawn(write).map_err(error)?;
        }
        self.is_told = true;
        self.parent.take().map_or(Ok(()), |parent| parent.ready().map_err(ReadyError::Parent))
    }

    /// Best effort: whoever cannot be told will notice that the process ends.
    fn tell_failure(&mut self) {
        if let Some((_, file)) = &mut self.descriptor {
            let _ = file.write_all(FAILED);
        }
        if let Some(path) = &self.init_pipe {
            let end = Instant::now().checked_add(PATIENCE);
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            while let Err(Errno::NXIO) = rustix::fs::open(path, flags, Mode::empty())
                .map(|fifo| rustix::io::write(fifo, FAILED))
            {
                if end.is_none_or(|end| Instant::now() >= end) {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
        }
    }
}

impl Drop for ReadyNotifier {
    fn drop(&mut self) {
        if !self.is_told {
            self.tell_failure();
        }
    }
}

/// Opens the file behind a descriptor of this process for writing, or, where
/// that is impossible (a socket), duplicates the descriptor.
fn duplicate(number: i32) -> io::Result<File> {
    let error = match File::options().append(true).open(format!("/proc/self/fd/{number}")) {
        Ok(file) => return Ok(file),
        Err(error) => error,
    };
    let own = pidfd_open(getpid(), PidfdFlags::empty());
    let duplicate = own.and_then(|own| pidfd_getfd(own, number, PidfdGetfdFlags::empty()));
    duplicate.map(File::from).map_err(|_| error)
}

#[cfg(test)]
mod tests;
