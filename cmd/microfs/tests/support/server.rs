//! A mount that is served in the foreground, as a child of the test.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};

use super::program::microfs;
use super::scratch::Scratch;

/// Long enough for the slowest machine; nothing waits for it to pass.
const PATIENCE: Timespec = Timespec { tv_sec: 120, tv_nsec: 0 };

/// A serving process; killed when dropped.
pub struct Server {
    child: Child,
    /// What it said.
    pub stderr: PathBuf,
}

impl Server {
    /// Mounts and returns when the mount answers.
    #[track_caller]
    pub fn start(scratch: &Scratch, layout: &Path, tag: &str, mount: &Path) -> Self {
        let words = words!["mount", "-f", layout, tag, mount];
        let (byte, server) = Self::with_pipe(scratch, words);
        let said = std::fs::read_to_string(&server.stderr).unwrap();
        assert_eq!(byte, b's', "{said}");
        server
    }

    /// Starts the program with an init pipe, and returns the byte from it.
    #[track_caller]
    pub fn with_pipe(scratch: &Scratch, words: Vec<OsString>) -> (u8, Self) {
        let pipe = Pipe::new(scratch);
        let mut command = microfs(words);
        command.arg("--init-pipe").arg(&pipe.path);
        let server = Self::of(scratch, &mut command);
        (pipe.byte(), server)
    }

    /// Starts any command that serves a mount.
    #[track_caller]
    pub fn of(scratch: &Scratch, command: &mut Command) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let stderr = scratch.file(&format!("stderr-{number}"), "");
        let file = std::fs::File::options().append(true).open(&stderr).unwrap();
        Self { child: command.stderr(file).spawn().unwrap(), stderr }
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A FIFO that is open for reading, so that nobody waits to write to it.
pub struct Pipe {
    pub path: PathBuf,
    end: std::fs::File,
}

static NEXT: AtomicU32 = AtomicU32::new(0);

impl Pipe {
    pub fn new(scratch: &Scratch) -> Self {
        let path = scratch.join(&format!("pipe-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let end = rustix::fs::open(&path, flags, Mode::empty()).unwrap();
        Self { path, end: end.into() }
    }

    /// Waits for one byte, and that no other follows.
    #[track_caller]
    pub fn byte(&self) -> u8 {
        let mut fds = [PollFd::new(&self.end, PollFlags::IN)];
        let ready = poll(&mut fds, Some(&PATIENCE)).unwrap();
        assert_eq!(ready, 1, "nobody wrote to the pipe");
        let mut bytes = [0; 8];
        let length = rustix::io::read(&self.end, &mut bytes).unwrap();
        assert_eq!(length, 1, "one byte is promised: {:?}", &bytes[..length]);
        bytes[0]
    }
}
