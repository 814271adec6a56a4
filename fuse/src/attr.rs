//! Attributes of the stack in the form that FUSE wants.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, INodeNo};
use microfs::FileType;
use microfs::stack::{Attr, NodeNum};
use microfs::tree::{DeviceNumber, Timestamp};

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
pub(crate) fn file_attr(attr: &Attr, block_size: u32) -> Result<FileAttr, Errno> {
    let kind = file_type(attr.file_type);
    let is_device = matches!(attr.file_type, FileType::CharDevice | FileType::BlockDevice);
    let rdev = if is_device { encode_device(attr.device)? } else { 0 };
    let time = system_time(attr.mtime);
    Ok(FileAttr {
        ino: INodeNo(attr.node.0),
        size: attr.size,
        blocks: attr.blocks,
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind,
        perm: attr.permissions,
        nlink: attr.links,
        uid: attr.uid,
        gid: attr.gid,
        rdev,
        blksize: block_size.clamp(*BLKSIZE.start(), *BLKSIZE.end()),
        flags: 0,
    })
}

/// Attributes for an object of which only number and type are known. They
/// must go out with zero lifetimes, so that the kernel asks before it uses them;
/// with number 0 they are a negative answer.
pub(crate) fn bare_attr(node: NodeNum, file_type: FileType) -> FileAttr {
    FileAttr {
        ino: INodeNo(node.0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: self::file_type(file_type),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: *BLKSIZE.start(),
        flags: 0,
    }
}

pub(crate) fn file_type(file_type: FileType) -> fuser::FileType {
    match file_type {
        FileType::Regular => fuser::FileType::RegularFile,
        FileType::Directory => fuser::FileType::Directory,
        FileType::Symlink => fuser::FileType::Symlink,
        FileType::CharDevice => fuser::FileType::CharDevice,
        FileType::BlockDevice => fuser::FileType::BlockDevice,
        FileType::Fifo => fuser::FileType::NamedPipe,
        FileType::Socket => fuser::FileType::Socket,
    }
}

/// The kernel's `new_encode_dev`: minor bits 0-7, major, minor bits 8-19.
fn encode_device(device: DeviceNumber) -> Result<u32, Errno> {
    if device.major > MAJOR_MAX || device.minor > MINOR_MAX {
        return Err(Errno::EOVERFLOW);
    }
    Ok((device.minor & 0xff) | (device.major << 8) | ((device.minor & !0xff) << 12))
}

/// `SystemTime` holds every `Timestamp` on Linux; were it not so, the epoch shows.
fn system_time(time: Timestamp) -> SystemTime {
    let nanoseconds = Duration::from_nanos(u64::from(time.nanoseconds));
    let seconds = Duration::from_secs(time.seconds.unsigned_abs());
    let whole = if time.seconds < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    whole.and_then(|whole| whole.checked_add(nanoseconds)).unwrap_or(UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
