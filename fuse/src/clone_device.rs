//! One more descriptor for a connection, with a queue of its own.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::ioctl::{Setter, ioctl, opcode};

/// `FUSE_DEV_IOC_CLONE` of `include/uapi/linux/fuse.h`.
const CLONE: rustix::ioctl::Opcode = opcode::read::<u32>(229, 0);

/// Makes a fresh descriptor of the FUSE device one more of `connection`;
/// `None` when the kernel refuses.
#[allow(unsafe_code, reason = "the ioctl has no safe wrapper")]
pub(crate) fn clone_device(fresh: OwnedFd, connection: BorrowedFd<'_>) -> Option<OwnedFd> {
    let number = u32::try_from(connection.as_raw_fd()).ok()?;
    // SAFETY: the kernel reads a 32-bit descriptor number at the given address and
    // writes nothing; `Setter` passes the address of a `u32` that lives across the call.
    unsafe { ioctl(fresh.as_fd(), Setter::<CLONE, u32>::new(number)) }.ok()?;
    Some(fresh)
}
