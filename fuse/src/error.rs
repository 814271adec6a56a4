//! Why a stack cannot be mounted or a mount cannot be taken down.

use std::io;
use std::path::PathBuf;

use microfs::ReadError;
use thiserror::Error;

use crate::overlay::OverlayError;

/// Why a stack cannot be mounted, or why serving it ended.
#[derive(Debug, Error)]
pub enum MountError {
    /// The mount point does not exist.
    #[error("mount point {} does not exist: create it first", .path.display())]
    NoMountPoint {
        /// The mount point as given.
        path: PathBuf,
    },
    /// The mount point is something else.
    #[error("mount point {} is not a directory", .path.display())]
    NotADirectory {
        /// The mount point as given.
        path: PathBuf,
    },
    /// The mount point cannot be looked at.
    #[error("cannot use mount point {}", .path.display())]
    MountPoint {
        /// The mount point as given.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A mount whose server has died is still there.
    #[error("{} is a mount whose server has died: unmount it first", .path.display())]
    DeadMount {
        /// The mount point as given.
        path: PathBuf,
    },
    /// A FUSE mount, or an overlay over one, is already there.
    #[error(
        "{} is busy: a filesystem of type {} is already mounted there; unmount it first, or mount over it (--over)",
        .path.display(), String::from_utf8_lossy(.fs_type)
    )]
    AlreadyMounted {
        /// The mount point.
        path: PathBuf,
        /// Its type.
        fs_type: Vec<u8>,
    },
    /// There is no FUSE device.
    #[error(
        "/dev/fuse is missing: load the kernel module (modprobe fuse), or give the container that device"
    )]
    NoDevice,
    /// The FUSE device may not be opened.
    #[error("no permission to open /dev/fuse: ask for mode 0666 on it, or run as root")]
    DeviceDenied,
    /// The FUSE device cannot be opened.
    #[error("cannot open /dev/fuse")]
    Device(#[source] io::Error),
    /// The program that mounts for ordinary users is missing.
    #[error(
        "mounting without root rights needs the program fusermount3: install the package fuse3"
    )]
    NoFusermount,
    /// It cannot be run.
    #[error("cannot run fusermount3")]
    Fusermount(#[source] io::Error),
    /// It refused.
    #[error("{}", String::from_utf8_lossy(.message))]
    Refused {
        /// What it wrote, one line.
        message: Vec<u8>,
    },
    /// `allow_other` is not permitted to ordinary users here.
    #[error("option allow_other needs the line user_allow_other in /etc/fuse.conf")]
    AllowOtherDenied,
    /// `allow_root` cannot be kept.
    #[error(
        "option allow_root cannot be honoured for an ordinary user: the kernel's caches know only one user or all; use allow_other"
    )]
    AllowRoot,
    /// The system refused to mount.
    #[error("cannot mount on {}", .path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The mount cannot be made writable.
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// An image that only an overlay is to use cannot be taken out of sight.
    #[error("cannot take the image's mount on {} out of sight", .path.display())]
    Hide {
        /// Where it was mounted.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<UnmountError>,
    },
    /// The root directory cannot be read from the image.
    #[error("cannot read the image's root directory")]
    Root(#[from] ReadError),
    /// The kernel and this program do not agree on a protocol.
    #[error("the kernel's FUSE driver refuses the session")]
    Handshake(#[source] io::Error),
    /// The mount is there, but does not answer.
    #[error("the mount on {} does not answer", .path.display())]
    NotAnswering {
        /// The mount point.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A thread or a signal handler could not be set up.
    #[error("cannot start serving")]
    Start(#[source] io::Error),
    /// Serving ended with an error; the mount is gone.
    #[error("serving the mount failed")]
    Serve(#[source] io::Error),
}

/// Why a mount cannot be taken down.
#[derive(Debug, Error)]
pub enum UnmountError {
    /// Nothing is there.
    #[error("{} does not exist", .path.display())]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// The path cannot be resolved, or the mount table cannot be read.
    #[error("cannot look at {}", .path.display())]
    Path {
        /// The path as given.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// No filesystem is mounted there.
    #[error("{} is not a mount point", .path.display())]
    NotMounted {
        /// The path, resolved.
        path: PathBuf,
    },
    /// A filesystem of another kind is mounted there.
    #[error("{} is a mount of type {}, not of FUSE", .path.display(), String::from_utf8_lossy(.fs_type))]
    NotFuse {
        /// The path, resolved.
        path: PathBuf,
        /// Its type.
        fs_type: Vec<u8>,
    },
    /// Something else is mounted over it.
    #[error("cannot unmount {}: another filesystem is mounted on top of it", .path.display())]
    Covered {
        /// The mount point.
        path: PathBuf,
    },
    /// Files are open, or processes are in it.
    #[error("{} is busy: end what uses it, or unmount lazily (--lazy)", .path.display())]
    Busy {
        /// The mount point.
        path: PathBuf,
    },
    /// It belongs to someone else, or the program for ordinary users refused.
    #[error("{}", String::from_utf8_lossy(.message))]
    Refused {
        /// What fusermount3 wrote, one line.
        message: Vec<u8>,
    },
    /// Not root, and no fusermount3.
    #[error(
        "unmounting without root rights needs the program fusermount3: install the package fuse3"
    )]
    NoFusermount,
    /// The system refused.
    #[error("cannot unmount {}", .path.display())]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The system agreed, but the mount is still in the mount table.
    #[error("{} is still mounted", .path.display())]
    StillThere {
        /// The mount point.
        path: PathBuf,
    },
}
