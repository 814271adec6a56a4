//! A member of an archive.

use crate::tree::{DeviceNumber, Timestamp};

/// A run of a file's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// First byte in the file.
    pub offset: u64,
    /// Length in bytes, at least 1.
    pub length: u64,
}

/// What a member is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberKind {
    /// A regular file.
    Regular {
        /// Length in bytes.
        size: u64,
        /// Where its data lie, in order; what is between them is a hole.
        data: Vec<Segment>,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink(Vec<u8>),
    /// Another name for what this path names.
    HardLink(Vec<u8>),
    /// A character device.
    CharDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A named pipe.
    Fifo,
}

/// A member without its data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Byte offset of its (first) header in the uncompressed archive.
    pub offset: u64,
    /// Its path as written.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: MemberKind,
    /// Permission bits, 0 to 0o7777.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time.
    pub mtime: Timestamp,
    /// Extended attributes, the last of a name last.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}
