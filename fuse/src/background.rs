//! Serving in the background.
//!
//! Threads do not survive a fork, so nothing is forked: the process starts
//! itself anew with the same arguments, and the copy serves. The copy keeps
//! standard error until the mount answers, so its errors are seen as if it had
//! run in the foreground; then it lets go of terminal, session and directory.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};

use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use thiserror::Error;

/// Set in the copy's environment.
const MARK: &str = "MICROFS_BACKGROUND";
/// What the copy sends when the mount answers.
const READY: u8 = b's';

/// Why there is no mount in the background.
#[derive(Debug, Error)]
pub enum BackgroundError {
    /// The copy could not be started or heard.
    #[error("cannot start a process to serve the mount")]
    Start(#[source] io::Error),
    /// The copy ended without a mount. If it has an exit code, it has also
    /// said why on standard error.
    #[error("the serving process ended before the mount was ready ({status})")]
    Ended {
        /// How it ended.
        status: ExitStatus,
    },
}

/// Starts a copy of this process with the given arguments (the program's name
/// first, as from [`std::env::args_os`]) and returns when its mount answers.
///
/// The copy has to call [`enter`] before it starts any thread.
///
/// # Errors
/// [`BackgroundError`].
pub fn spawn(arguments: impl IntoIterator<Item = OsString>) -> Result<(), BackgroundError> {
    let mut arguments = arguments.into_iter();
    let mut command = Command::new("/proc/self/exe");
    command.arg0(arguments.next().unwrap_or_else(|| "microfs".into())).args(arguments);
    command.env(MARK, "1").stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(BackgroundError::Start)?;
    let mut word = [0];
    let read = match child.stdout.take() {
        Some(mut pipe) => pipe.read_exact(&mut word),
        None => Ok(()),
    };
    match read {
        Ok(()) if word == [READY] => Ok(()),
        // It ended, or is about to: nothing but READY is ever sent.
        _ => Err(BackgroundError::Ended { status: child.wait().map_err(BackgroundError::Start)? }),
    }
}

/// In the copy, the way back to the process that started it.
#[derive(Debug)]
pub struct Parent {
    pipe: File,
    null: File,
}

/// Whether this process is a copy that [`spawn`] started, and so has to serve itself.
#[must_use]
pub fn is_copy() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Makes a process that [`spawn`] started a daemon: its own session, and
/// nothing on standard input and output. `None` in any other process.
///
/// # Errors
/// Those of the system calls involved.
pub fn enter() -> io::Result<Option<Parent>> {
    if !is_copy() {
        return Ok(None);
    }
    // A session leader already has what it needs.
    let _ = rustix::process::setsid();
    // The link it was started by would show as the process's name.
    rustix::thread::set_name(c"microfs")?;
    let pipe = rustix::io::fcntl_dupfd_cloexec(io::stdout(), 3)?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    Ok(Some(Parent { pipe: pipe.into(), null }))
}

impl Parent {
    /// Lets go of directory and standard error and says that the mount answers.
    ///
    /// # Errors
    /// Those of the system calls; a parent that has ended is one (`BrokenPipe`).
    pub(crate) fn ready(mut self) -> io::Result<()> {
        std::env::set_current_dir("/")?;
        dup2_stderr(&self.null)?;
        self.pipe.write_all(&[READY])
    }
}
