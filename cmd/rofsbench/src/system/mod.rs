//! The systems that are measured.

pub mod detect;
pub mod image;
pub mod mount;
pub mod server;
mod version;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How a system works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// The source itself, bound to the mount point.
    Directory,
    Microfs,
    /// Of the high-level library of libfuse.
    Squashfuse,
    SquashfuseLl,
    /// The kernel's driver, on a loop device.
    Squashfs,
    /// The kernel's driver, on a loop device.
    Erofs,
    Erofsfuse,
    Puzzlefs,
}

/// What an image is made by and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Builder {
    pub format: Format,
    pub program: PathBuf,
    /// Of the program.
    pub version: String,
}

/// Format of an image, with its codec where there is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Microfs,
    Squashfs,
    /// For peers that cannot do zstd.
    ErofsLz4,
    ErofsZstd,
    Puzzlefs,
}

impl Format {
    /// As in paths and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Microfs => "microfs",
            Self::Squashfs => "squashfs",
            Self::ErofsLz4 => "erofs-lz4hc",
            Self::ErofsZstd => "erofs-zstd",
            Self::Puzzlefs => "puzzlefs",
        }
    }
}

/// One column of the tables.
#[derive(Debug, Clone)]
pub struct System {
    /// As in results and on the command line.
    pub name: String,
    pub family: Family,
    /// None for the directory.
    pub builder: Option<Builder>,
    /// What serves the mount; none when the kernel does.
    pub server: Option<PathBuf>,
    /// Of what serves the mount.
    pub version: String,
    /// Further words for the mount command.
    pub arguments: Vec<OsString>,
    /// Takes so long that it is measured in fewer rounds.
    pub is_slow: bool,
}

impl System {
    /// Whether a process serves the mount.
    pub fn is_fuse(&self) -> bool {
        self.server.is_some()
    }

    /// The command that mounts as a user does it, and returns when the mount
    /// answers.
    pub fn mount_command(&self, image: &Path, at: &Path) -> Command {
        self.command(image, at, false)
    }

    /// The command that serves the mount until it is taken down; for systems
    /// whose mount a process serves.
    pub fn serve_command(&self, image: &Path, at: &Path) -> Command {
        self.command(image, at, true)
    }

    fn command(&self, image: &Path, at: &Path, in_foreground: bool) -> Command {
        let program = self.server.clone().unwrap_or_else(|| PathBuf::from("mount"));
        let mut command = Command::new(program);
        let foreground: &[&str] = if in_foreground { &["-f"] } else { &[] };
        match self.family {
            Family::Directory => {
                command.args(["--bind", "--"]).arg(image);
            }
            Family::Microfs if in_foreground => {
                command.args(["mount", "-f", "--ready-fd", "1"]).args(&self.arguments);
                command.arg(image).arg("bench");
            }
            Family::Microfs | Family::Puzzlefs => {
                command.arg("mount").args(foreground).args(&self.arguments).arg(image).arg("bench");
            }
            Family::Squashfuse | Family::SquashfuseLl | Family::Erofsfuse => {
                command.args(foreground).args(&self.arguments).arg(image);
            }
            Family::Squashfs => {
                command.args(["-t", "squashfs", "-o", "ro,loop"]).args(&self.arguments).arg(image);
            }
            Family::Erofs => {
                command.args(["-t", "erofs", "-o", "ro,loop"]).args(&self.arguments).arg(image);
            }
        }
        command.arg(at);
        command
    }
}
