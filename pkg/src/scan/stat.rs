//! What the kernel says about one object, reduced to what a tree keeps.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, Statx, StatxAttributes, StatxFlags, makedev, statx};

use super::Fault;
use crate::tree::{DeviceNumber, Timestamp};

/// Identity of a file object on the running system.
///
/// Meaningful only while the object exists; some filesystems report inode 0
/// for everything, so equal ids of inode 0 prove nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// `st_dev`, as Linux encodes it for user space.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

impl From<&std::fs::Metadata> for ObjectId {
    fn from(metadata: &std::fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Attributes of one object at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    pub(crate) id: ObjectId,
    pub(crate) file_type: FileType,
    pub(crate) permissions: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) links: u32,
    /// Bytes.
    pub(crate) size: u64,
    /// Allocated, in units of 512 bytes.
    pub(crate) blocks: u64,
    pub(crate) mtime: Timestamp,
    ctime: Timestamp,
    pub(crate) device: DeviceNumber,
    /// The object is the root of a mount; false where the kernel cannot tell.
    pub(crate) mount_root: bool,
}

impl Stat {
    /// Attributes of `name` in a directory; links are not followed and
    /// nothing is mounted on the way.
    pub(crate) fn at(directory: BorrowedFd<'_>, name: &[u8]) -> Result<Self, Fault> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        Ok(Self::new(&statx(directory, name, flags, StatxFlags::BASIC_STATS)?))
    }

    /// Attributes of an open object.
    pub(crate) fn of(file: impl AsFd) -> Result<Self, Fault> {
        Ok(Self::new(&statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?))
    }

    fn new(raw: &Statx) -> Self {
        let device = makedev(raw.stx_dev_major, raw.stx_dev_minor);
        let time = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        Self {
            id: ObjectId { device, inode: raw.stx_ino },
            file_type: FileType::from_raw_mode(u32::from(raw.stx_mode)),
            permissions: raw.stx_mode & 0o7777,
            uid: raw.stx_uid,
            gid: raw.stx_gid,
            links: raw.stx_nlink,
            size: raw.stx_size,
            blocks: raw.stx_blocks,
            mtime: time(raw.stx_mtime.tv_sec, raw.stx_mtime.tv_nsec),
            ctime: time(raw.stx_ctime.tv_sec, raw.stx_ctime.tv_nsec),
            device: DeviceNumber { major: raw.stx_rdev_major, minor: raw.stx_rdev_minor },
            mount_root: raw
                .stx_attributes
                .intersection(raw.stx_attributes_mask)
                .contains(StatxAttributes::MOUNT_ROOT),
        }
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.file_type == FileType::Directory
    }

    /// The moment's version of this object.
    pub(crate) fn version(&self) -> Version {
        let words = [
            self.size,
            self.mtime.seconds.cast_unsigned(),
            u64::from(self.mtime.nanoseconds),
            self.ctime.seconds.cast_unsigned(),
            u64::from(self.ctime.nanoseconds),
        ];
        let stamp = words.iter().fold(0, |state: u64, word| {
            let mixed = (state ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(23)
        });
        Version { id: self.id, stamp }
    }
}

/// An object in a certain state: its identity and a 64-bit digest of size,
/// mtime and ctime. Every change of content or attributes moves ctime, so two
/// equal versions are the same object, unchanged (within the resolution of
/// the filesystem's clock).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) id: ObjectId,
    pub(crate) stamp: u64,
}
