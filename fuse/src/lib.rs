//! Mounts a microfs layer stack through FUSE.
//!
//! [`mount`] attaches a [`microfs::stack::Stack`] to a directory and serves it
//! until it is unmounted, [`mount_writable`] puts an overlay for changes over
//! it; [`unmount`] takes such a mount down from outside.
//! [`background`] and [`ready`] turn the serving process into a daemon that
//! reports only when the mount answers. The crate knows no OCI layout and no
//! byte of the format: requests are decoded, handed to the stack and answered.

pub use crate::capability::{Capability, CapabilitySet, UnknownCapability};
pub use crate::error::{MountError, UnmountError};
pub use crate::helper::{HelperCall, HelperError};
pub use crate::log::Log;
pub use crate::options::{Access, MountOptions, OptionError, Origin, SUBTYPE, THREADS_MAX};
pub use crate::overlay::{OverlayError, Writable};
pub use crate::session::{End, Mounted, mount, mount_writable};
pub use crate::statistics::{LATENCY_RANGES, Request, Statistics};
pub use crate::unmount::{Unmount, unmount};

pub mod background;
pub mod ready;

mod abi;
mod adapter;
mod attach;
mod attr;
mod capability;
mod clone_device;
mod detach;
mod dispatch;
mod errno;
mod error;
mod fusermount;
mod handshake;
mod helper;
mod known;
mod listing;
mod log;
mod mount_point;
mod mountinfo;
mod options;
mod overlay;
mod place;
mod push;
mod reply;
mod reply_dir;
mod request;
mod server;
mod session;
mod signals;
mod statistics;
mod syslog;
mod unmount;
mod upper;
mod xattr;
