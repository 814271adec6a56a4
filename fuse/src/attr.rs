//! Attributes of the stack in the form that FUSE wants.

use microfs::FileType;
use microfs::stack::{self, NodeNum};
use microfs::tree::DeviceNumber;
use rustix::io::Errno;

use crate::abi::{Attr, EntryOut};
use crate::adapter::FOREVER;

/// Smallest and largest `st_blksize` that is announced, in bytes.
const BLKSIZE: std::ops::RangeInclusive<u32> = 4096..=1 << 20;

/// Largest major and minor number in the kernel's 32-bit device number.
const MAJOR_MAX: u32 = 0xfff;
const MINOR_MAX: u32 = 0xf_ffff;

/// What `stat` shows; `block_size` (bytes) becomes `st_blksize`.
///
/// There is one time stamp in the format, so all three show the modification time.
///
/// # Errors
/// `EOVERFLOW` for a device number that Linux cannot express: a major over
/// 4,095 or a minor over 1,048,575.
pub(crate) fn file_attr(attr: &stack::Attr, block_size: u32) -> Result<Attr, Errno> {
    let is_device = matches!(attr.file_type, FileType::CharDevice | FileType::BlockDevice);
    let rdev = if is_device { encode_device(attr.device)? } else { 0 };
    let (seconds, nanoseconds) = (attr.mtime.seconds, attr.mtime.nanoseconds);
    Ok(Attr {
        ino: attr.node.0,
        size: attr.size,
        blocks: attr.blocks,
        atime: seconds,
        mtime: seconds,
        ctime: seconds,
        atimensec: nanoseconds,
        mtimensec: nanoseconds,
        ctimensec: nanoseconds,
        mode: type_bits(attr.file_type) | u32::from(attr.permissions),
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev,
        blksize: block_size.clamp(*BLKSIZE.start(), *BLKSIZE.end()),
        flags: 0,
    })
}

/// An object of which only number and type are known. The kernel asks before
/// it uses anything else, for the lifetimes are zero.
pub(crate) fn unknown(node: NodeNum, file_type: FileType) -> EntryOut {
    let attr = Attr {
        ino: node.0,
        size: 0,
        blocks: 0,
        atime: 0,
        mtime: 0,
        ctime: 0,
        atimensec: 0,
        mtimensec: 0,
        ctimensec: 0,
        mode: type_bits(file_type),
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: *BLKSIZE.start(),
        flags: 0,
    };
    EntryOut {
        nodeid: node.0,
        generation: 0,
        entry_valid: 0,
        attr_valid: 0,
        entry_valid_nsec: 0,
        attr_valid_nsec: 0,
        attr,
    }
}

/// The answer that a name is not there, for the kernel to remember.
pub(crate) fn negative() -> EntryOut {
    EntryOut { entry_valid: FOREVER, ..unknown(NodeNum(0), FileType::Regular) }
}

/// The type in a mode, as `S_IFMT` masks it.
pub(crate) fn type_bits(file_type: FileType) -> u32 {
    match file_type {
        FileType::Fifo => 0o010_000,
        FileType::CharDevice => 0o020_000,
        FileType::Directory => 0o040_000,
        FileType::BlockDevice => 0o060_000,
        FileType::Regular => 0o100_000,
        FileType::Symlink => 0o120_000,
        FileType::Socket => 0o140_000,
    }
}

/// The kernel's `new_encode_dev`: minor bits 0-7, major, minor bits 8-19.
fn encode_device(device: DeviceNumber) -> Result<u32, Errno> {
    if device.major > MAJOR_MAX || device.minor > MINOR_MAX {
        return Err(Errno::OVERFLOW);
    }
    Ok((device.minor & 0xff) | (device.major << 8) | ((device.minor & !0xff) << 12))
}

#[cfg(test)]
mod tests;
