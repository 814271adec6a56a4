//! Mounting, and taking down whatever happens.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount_remount, unmount};

use super::{Family, System, server};
use crate::{child, interrupt};

/// For a mount to answer, or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A mount, with the process that serves it if one does. Dropped, it is taken
/// down by force.
pub struct Mounted {
    at: PathBuf,
    log: PathBuf,
    server: Option<Child>,
    is_up: bool,
}

impl Mounted {
    /// Mounts an image, or binds a directory, and returns when it answers. `log`
    /// gets what the server says.
    pub fn new(system: &System, image: &Path, at: &Path, log: &Path) -> Result<Self> {
        let mut mounted =
            Self { at: at.to_owned(), log: log.to_owned(), server: None, is_up: true };
        if system.is_fuse() {
            let output = File::create(log)?;
            let mut command = system.serve_command(image, at);
            command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
            // One that says when it is ready has looked at its mount itself then,
            // and must not find it taken down already.
            let mut ready = None;
            if system.family == Family::Microfs {
                let (reader, writer) = std::io::pipe()?;
                command.stdout(writer);
                ready = Some(reader);
            }
            mounted.server =
                Some(command.spawn().with_context(|| format!("cannot run {command:?}"))?);
            // The other end is the server's alone.
            drop(command);
            mounted.wait()?;
            if let Some(mut reader) = ready {
                reader.read_exact(&mut [0]).context("the server does not say that it is ready")?;
            }
        } else {
            child::run(&mut system.mount_command(image, at), log, PATIENCE)?;
            if system.family == Family::Directory {
                // Nothing that is measured writes, and nothing that cleans up can.
                mount_remount(at, MountFlags::BIND | MountFlags::RDONLY, "")
                    .context("cannot make the directory read-only")?;
            }
        }
        Ok(mounted)
    }

    /// Waits until another filesystem is there than before.
    fn wait(&mut self) -> Result<()> {
        let parent = fs::metadata(self.at.parent().unwrap_or(Path::new("/")))?.dev();
        let start = Instant::now();
        while fs::metadata(&self.at).map_or(true, |metadata| metadata.dev() == parent) {
            interrupt::check()?;
            if let Some(status) = self.server.as_mut().map(Child::try_wait).transpose()?.flatten() {
                self.server = None;
                bail!("the server ended: {status}{}", child::said(&self.log));
            }
            if start.elapsed() > PATIENCE {
                bail!("no mount after {} s{}", PATIENCE.as_secs(), child::said(&self.log));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// What the server used so far; none if no process serves it.
    pub fn usage(&self) -> Option<server::Usage> {
        self.server.as_ref().map(|child| server::usage(&server::family(child.id())))
    }

    /// Takes it down and waits for the server's end.
    pub fn unmount(mut self) -> Result<()> {
        take_down(&self.at)?;
        self.is_up = false;
        if let Some(server) = &mut self.server {
            match child::wait(server, PATIENCE)? {
                None => bail!("the server is still there after {} s", PATIENCE.as_secs()),
                Some(status) if !status.success() => {
                    bail!("after the unmount the server ended: {status}{}", child::said(&self.log));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_up {
            let _ = unmount(&self.at, UnmountFlags::DETACH);
        }
        if let Some(server) = &mut self.server {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Takes a mount down; one that is busy for a moment is tried again.
pub fn take_down(at: &Path) -> Result<()> {
    let start = Instant::now();
    loop {
        match unmount(at, UnmountFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) if start.elapsed() < Duration::from_secs(5) => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => {
                return Err(error).with_context(|| format!("cannot unmount {}", at.display()));
            }
        }
    }
}

/// Empties the page cache and the caches of names and inodes, of all that is
/// stored on disk. Only root can.
pub fn drop_caches() -> std::io::Result<()> {
    fs::write("/proc/sys/vm/drop_caches", "3")
}

/// Reads a command's own files, so that only what it does is measured.
pub fn prime(command: &mut Command) {
    let _ = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
