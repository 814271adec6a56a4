//! Making a mount writable: an overlay whose lower directory is the mount.
//!
//! The overlay is mounted over the mount itself, so there is one mount point
//! and no hidden directory; taking the mount down takes the overlay down
//! first. Root uses the kernel's overlayfs, in a user namespace with
//! `userxattr` (its marks are then `user.overlay.*`); a user who may not mount
//! uses the program fuse-overlayfs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::MountFlags;
use thiserror::Error;

use crate::detach::detach;
use crate::error::UnmountError;
use crate::mount_point::is_microfs;
use crate::mountinfo::{self, MountEntry};

/// The program for users who may not mount.
const PROGRAM: &str = "fuse-overlayfs";

/// Where changes go. Both directories must be on one filesystem that keeps
/// extended attributes, the second must be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writable {
    /// Holds what was changed.
    pub upper: PathBuf,
    /// For overlayfs itself.
    pub work: PathBuf,
}

/// Why a mount cannot be made writable.
#[derive(Debug, Error)]
pub enum OverlayError {
    /// A directory for changes cannot be used.
    #[error("cannot use {} for changes", .path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The kernel refused the overlay.
    #[error(
        "cannot mount an overlay with changes in {}: its filesystem must be one that overlayfs takes (not overlayfs or NFS)", .upper.display()
    )]
    Mount {
        /// The upper directory.
        upper: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Not permitted to mount, and no fuse-overlayfs.
    #[error(
        "a writable mount without root rights needs the program fuse-overlayfs: install the package fuse-overlayfs"
    )]
    NoProgram,
    /// fuse-overlayfs failed.
    #[error("fuse-overlayfs: {}", String::from_utf8_lossy(.message))]
    Program {
        /// What it wrote, one line.
        message: Vec<u8>,
    },
}

/// Mounts an overlay over the microfs mount at `mount_point`, an absolute path.
///
/// # Errors
/// [`OverlayError`]; nothing is mounted then.
pub fn cover(mount_point: &Path, dirs: &Writable) -> Result<(), OverlayError> {
    let upper = directory(&dirs.upper)?;
    let work = directory(&dirs.work)?;
    // With the root's attributes in the kernel before the overlay copies them,
    // other users see its true permissions.
    rustix::fs::stat(mount_point).map_err(|errno| OverlayError::Directory {
        path: mount_point.to_owned(),
        source: errno.into(),
    })?;
    let mut data = OsString::from("lowerdir=");
    data.push(escaped(mount_point));
    data.push(",upperdir=");
    data.push(escaped(&upper));
    data.push(",workdir=");
    data.push(escaped(&work));
    match by_kernel(mount_point, &data) {
        Ok(()) => Ok(()),
        Err(Errno::PERM) => by_program(mount_point, &data),
        Err(errno) => Err(OverlayError::Mount { upper, source: errno.into() }),
    }
}

fn directory(path: &Path) -> Result<PathBuf, OverlayError> {
    let failed = |source| OverlayError::Directory { path: path.to_owned(), source };
    std::fs::create_dir_all(path).map_err(failed)?;
    path.canonicalize().map_err(failed)
}

/// overlayfs splits its options at commas and lower directories at colons.
fn escaped(path: &Path) -> OsString {
    let mut text = Vec::new();
    for byte in path.as_os_str().as_bytes() {
        if matches!(byte, b',' | b':' | b'\\') {
            text.push(b'\\');
        }
        text.push(*byte);
    }
    OsString::from_vec(text)
}

fn by_kernel(mount_point: &Path, data: &OsStr) -> Result<(), Errno> {
    let mut data = data.as_bytes().to_vec();
    if in_user_namespace() {
        data.extend_from_slice(b",userxattr");
    }
    let data = std::ffi::CString::new(data).map_err(|_| Errno::INVAL)?;
    rustix::mount::mount(c"microfs", mount_point, c"overlay", MountFlags::empty(), data.as_c_str())
}

/// Whether user ids are not those of the machine.
fn in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let all = ["0", "0", "4294967295"];
    !map.lines().next().is_some_and(|line| line.split_whitespace().eq(all))
}

fn by_program(mount_point: &Path, data: &OsStr) -> Result<(), OverlayError> {
    let mut command = Command::new(PROGRAM);
    command.arg("-o").arg(data).arg(mount_point).stdin(Stdio::null()).stdout(Stdio::null());
    let output = command.stderr(Stdio::piped()).output();
    let failed = |text: String| OverlayError::Program { message: text.into_bytes() };
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => OverlayError::NoProgram,
        _ => failed(error.to_string()),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let message: Vec<u8> =
        output.stderr.split(|byte| *byte == b'\n').next().unwrap_or_default().into();
    Err(OverlayError::Program { message })
}

fn is_overlay(mount: &MountEntry) -> bool {
    mount.fs_type == b"overlay" || mount.fs_type == b"fuse.fuse-overlayfs"
}

/// Takes an overlay away that lies directly over a microfs mount at a path.
/// Returns whether there was one.
pub(crate) fn uncover(path: &Path, lazy: bool) -> Result<bool, UnmountError> {
    let failed = |source| UnmountError::Path { path: path.to_owned(), source };
    let mounts = mountinfo::read().map_err(failed)?;
    let mut at_path = mounts.iter().rev().filter(|mount| mount.mount_point == path);
    match (at_path.next(), at_path.next()) {
        (Some(top), Some(below)) if is_overlay(top) && is_microfs(below) => {
            detach(path, lazy)?;
            Ok(true)
        }
        _ => Ok(false),
    }
}
