//! Making a mount writable: an overlay whose lower directory is the image.
//!
//! Whoever may mount uses the kernel's overlayfs, in a user namespace with
//! `userxattr` (its marks are then `user.overlay.*`). The overlay is mounted
//! over the image, so there is one mount point and no hidden directory; taking
//! the mount down takes the overlay down first.
//!
//! Others use the program fuse-overlayfs. It mounts through fusermount3, which
//! runs as root and so may not look at what a user has mounted, let alone
//! mount over it. The image is therefore mounted on a directory of its own
//! and taken out of sight as soon as fuse-overlayfs has it open: it ends when
//! fuse-overlayfs does.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::{FsOpenFlags, MountFlags};
use thiserror::Error;

use crate::detach::detach;
use crate::error::UnmountError;
use crate::mount_point::{is_fuse, is_microfs};
use crate::mountinfo::{self, MountEntry};
use crate::options::{Access, MountOptions};

/// The program for users who may not mount.
const PROGRAM: &str = "fuse-overlayfs";
/// What the mount table shows as source of a kernel's overlay that was made here.
const SOURCE: &str = "microfs";

/// Where changes go. Both directories must be on one filesystem that keeps
/// extended attributes, the second must be empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writable {
    /// Holds what was changed. One that is new, or that is empty while there
    /// is no `work` yet, is given the attributes of the image's root.
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
    /// Another mount has its changes there.
    #[error("changes in {} belong to a mount that is still there", .upper.display())]
    InUse {
        /// The upper directory.
        upper: PathBuf,
    },
    /// There is something that overlayfs would remove.
    #[error(
        "{} has something in it that microfs did not put there, and that overlayfs would remove: use another directory for changes", .work.display()
    )]
    Foreign {
        /// The directory for overlayfs itself.
        work: PathBuf,
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
    /// The overlay was made and is gone again.
    #[error("the overlay on {} was taken down at once", .path.display())]
    Gone {
        /// The mount point.
        path: PathBuf,
    },
}

/// Whether this process may mount in its mount namespace.
pub(crate) fn may_mount() -> bool {
    // Whoever may mount is given a context to make a mount with; making none
    // of it changes nothing. Systems without this call let mount(2) decide.
    !matches!(rustix::mount::fsopen(c"fuse", FsOpenFlags::FSOPEN_CLOEXEC), Err(Errno::PERM))
}

/// Mounts an overlay of the image at `image` on `mount_point`; both are
/// absolute, and may be the same. Gives its line of the mount table.
///
/// # Errors
/// [`OverlayError`]; no overlay is mounted then.
pub(crate) fn cover(
    image: &Path,
    mount_point: &Path,
    dirs: &Writable,
    options: &MountOptions,
) -> Result<MountEntry, OverlayError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| OverlayError::Directory { path, source }
    };
    let upper = dirs.upper.canonicalize().map_err(failed(&dirs.upper))?;
    let work = dirs.work.canonicalize().map_err(failed(&dirs.work))?;
    // With the root's attributes in the kernel before the overlay copies them,
    // other users see its true permissions.
    rustix::fs::stat(image).map_err(|errno| failed(image)(errno.into()))?;
    let mut data = OsString::from("lowerdir=");
    data.push(escaped(image));
    data.push(",upperdir=");
    data.push(escaped(&upper));
    data.push(",workdir=");
    data.push(escaped(&work));
    match by_kernel(mount_point, &data, options) {
        Ok(()) => {}
        // No permission, or a kernel without overlayfs.
        Err(Errno::PERM | Errno::NODEV) => by_program(mount_point, data, options)?,
        Err(errno) => return Err(OverlayError::Mount { upper, source: errno.into() }),
    }
    let mounts = mountinfo::read().map_err(failed(mount_point))?;
    let shown = mounts.into_iter().rfind(|mount| mount.mount_point == mount_point);
    shown.filter(is_overlay).ok_or_else(|| OverlayError::Gone { path: mount_point.to_owned() })
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

fn by_kernel(mount_point: &Path, data: &OsStr, options: &MountOptions) -> Result<(), Errno> {
    let mut data = data.as_bytes().to_vec();
    if in_user_namespace() {
        data.extend_from_slice(b",userxattr");
    }
    let data = std::ffi::CString::new(data).map_err(|_| Errno::INVAL)?;
    let flags = options.restrictions();
    rustix::mount::mount(SOURCE, mount_point, c"overlay", flags, data.as_c_str())
}

/// Whether user ids are not those of the machine.
fn in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let all = ["0", "0", "4294967295"];
    !map.lines().next().is_some_and(|line| line.split_whitespace().eq(all))
}

fn by_program(
    mount_point: &Path,
    mut data: OsString,
    options: &MountOptions,
) -> Result<(), OverlayError> {
    let restrictions = options.restrictions();
    let chosen = [
        (restrictions.contains(MountFlags::NOSUID), ",nosuid"),
        (restrictions.contains(MountFlags::NODEV), ",nodev"),
        (restrictions.contains(MountFlags::NOEXEC), ",noexec"),
        (options.access == Access::Everyone, ",allow_other"),
    ];
    for (_, option) in chosen.iter().filter(|(is_chosen, _)| *is_chosen) {
        data.push(option);
    }
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
    // What it passes over comes first, the reason last.
    let mut lines = output.stderr.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let message = lines.next_back().unwrap_or(b"it failed").to_vec();
    Err(OverlayError::Program { message })
}

/// An empty directory to mount an image on until an overlay has it open.
/// Removed when dropped.
pub(crate) struct Hidden {
    path: PathBuf,
}

impl Hidden {
    /// Makes one beside the directory for overlayfs itself.
    pub(crate) fn make(dirs: &Writable) -> Result<Self, OverlayError> {
        let mut number = 0_u32;
        loop {
            let mut name = dirs.work.file_name().unwrap_or_default().to_owned();
            name.push(format!(".image-{number}"));
            let path = dirs.work.with_file_name(name);
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self { path }),
                // Another server's, or what one left that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number = number.wrapping_add(1);
                }
                Err(source) => return Err(OverlayError::Directory { path, source }),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // Nothing is in it; if it cannot be removed it does no harm.
        let _ = std::fs::remove_dir(&self.path);
    }
}

fn is_overlay(mount: &MountEntry) -> bool {
    mount.fs_type == b"overlay" || is_fuse_overlay(mount)
}

fn is_fuse_overlay(mount: &MountEntry) -> bool {
    mount.fs_type == b"fuse.fuse-overlayfs"
}

/// The overlay that is on top at a path, if it is one of ours: it lies directly
/// over a FUSE mount at the same path, and its source is [`SOURCE`]. An overlay
/// of fuse-overlayfs has no source of ours, so a mount of our type must be below.
pub(crate) fn overlay_at<'a>(mounts: &'a [MountEntry], path: &Path) -> Option<&'a MountEntry> {
    let mut at_path = mounts.iter().rev().filter(|mount| mount.mount_point == path);
    let (top, below) = (at_path.next()?, at_path.next()?);
    let is_ours = (top.fs_type == b"overlay" && top.source == SOURCE.as_bytes() && is_fuse(below))
        || (is_fuse_overlay(top) && is_microfs(below));
    (is_ours && top.parent == below.id).then_some(top)
}

/// Takes the overlay away that makes the mount at a path writable, if there is one.
pub(crate) fn uncover(path: &Path, lazy: bool) -> Result<(), UnmountError> {
    let failed = |source| UnmountError::Path { path: path.to_owned(), source };
    let mounts = mountinfo::read().map_err(failed)?;
    overlay_at(&mounts, path).map_or(Ok(()), |_| detach(path, lazy))
}

#[cfg(test)]
mod tests;
