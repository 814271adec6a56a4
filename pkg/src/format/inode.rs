//! Inodes: the metadata of one file object.

use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::extent::BlockSlice;
use super::{FormatError, Place, Rule};
use crate::tree::{DeviceNumber, TARGET_MAX, Timestamp};

/// Bytes of a stored inode.
pub const INODE_SIZE: usize = 72;

/// `dentry` of the root, which has no name.
pub const NO_DENTRY: u64 = u64::MAX;

/// An inode as stored.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawInode {
    /// File type and permissions as in `st_mode`; 0 for a link-below.
    pub mode: U16,
    /// [`flags`].
    pub flags: U16,
    /// Owner.
    pub uid: U32,
    /// Group.
    pub gid: U32,
    /// Names in this layer; for directories 2 + sub-directories.
    pub links: U32,
    /// Bytes of a regular file, a link target or a link-below path; else 0.
    pub size: U64,
    /// Bytes of a regular file that lie in holes; else 0.
    pub hole_bytes: U64,
    /// Modification time, seconds.
    pub mtime_seconds: I64,
    /// Modification time, nanoseconds.
    pub mtime_nanoseconds: U32,
    /// 0: no xattrs; `n`: xattr set `n - 1`.
    pub xattrs: U32,
    /// By type: first extent, block (inline extent), first dentry, heap position or device.
    pub start: U64,
    /// By type: number of extents, offset in the block (inline extent), number of dentries.
    pub count: U32,
    /// Inode index of the directory with the first name.
    pub parent: U32,
    /// Position of the first name's dentry; 2^64 - 1 for the root.
    pub dentry: U64,
}

const _: () = assert!(size_of::<RawInode>() == INODE_SIZE);

/// Bits of an inode's flags.
pub mod flags {
    /// A directory that hides everything below it in lower layers.
    pub const OPAQUE: u16 = 1;
    /// A directory without an entry of its own.
    pub const IMPLIED: u16 = 1 << 1;
    /// A regular file whose only extent is in the inode.
    pub const INLINE_EXTENT: u16 = 1 << 2;
    /// An implied directory with nothing in it but whiteouts and directories
    /// of the same kind: it does not make a directory where none is below.
    pub const HOLLOW: u16 = 1 << 3;
    /// All bits that are known.
    pub const ALL: u16 = OPAQUE | IMPLIED | INLINE_EXTENT | HOLLOW;
}

/// The seven types of file objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileType {
    /// Code 1.
    Regular,
    /// Code 2.
    Directory,
    /// Code 3.
    Symlink,
    /// Code 4.
    CharDevice,
    /// Code 5.
    BlockDevice,
    /// Code 6.
    Fifo,
    /// Code 7.
    Socket,
}

impl FileType {
    /// All types, in the order of the codes.
    pub const ALL: [Self; 7] = [
        Self::Regular,
        Self::Directory,
        Self::Symlink,
        Self::CharDevice,
        Self::BlockDevice,
        Self::Fifo,
        Self::Socket,
    ];

    /// The type of a dentry code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|file_type| file_type.code() == code)
    }

    /// The dentry code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Regular => 1,
            Self::Directory => 2,
            Self::Symlink => 3,
            Self::CharDevice => 4,
            Self::BlockDevice => 5,
            Self::Fifo => 6,
            Self::Socket => 7,
        }
    }

    /// The type bits of `st_mode`, as Linux numbers them.
    #[must_use]
    pub fn mode_bits(self) -> u16 {
        match self {
            Self::Regular => 0o100_000,
            Self::Directory => 0o040_000,
            Self::Symlink => 0o120_000,
            Self::CharDevice => 0o020_000,
            Self::BlockDevice => 0o060_000,
            Self::Fifo => 0o010_000,
            Self::Socket => 0o140_000,
        }
    }

    /// The type in an `st_mode`.
    #[must_use]
    pub fn from_mode(mode: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|file_type| mode & 0o170_000 == file_type.mode_bits())
    }
}

/// What belongs to an inode's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InodeKind {
    /// A regular file.
    Regular(FileData),
    /// A directory.
    Directory {
        /// Position of its first dentry.
        first: u64,
        /// Number of its dentries.
        count: u32,
        /// Hides everything below it.
        opaque: bool,
        /// Has no entry of its own.
        implied: bool,
        /// Implied, and holds only whiteouts and hollow directories.
        hollow: bool,
    },
    /// A symbolic link; its target is `size` bytes at this heap position.
    Symlink(u64),
    /// A character device.
    CharDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A hard link to a lower layer's object; its path is `size` bytes at this heap position.
    LinkBelow(u64),
}

/// Where a regular file's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileData {
    /// It has none.
    Empty,
    /// All in one slice of this blob's blocks.
    Inline(BlockSlice),
    /// In a run of extent records.
    Extents {
        /// The first.
        first: u64,
        /// How many, at least 1.
        count: u32,
    },
}

/// A checked inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inode {
    /// Its index.
    pub index: u32,
    /// Permission bits, 0 to 0o7777.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names in this layer; for directories 2 + sub-directories.
    pub links: u32,
    /// Bytes of a regular file, a link target or a link-below path; else 0.
    pub size: u64,
    /// Bytes in holes, at most `size`.
    pub hole_bytes: u64,
    /// Modification time.
    pub mtime: Timestamp,
    /// Number of its xattr set.
    pub xattrs: Option<u32>,
    /// Directory with its first name.
    pub parent: u32,
    /// Position of its first name; `None` for the root.
    pub dentry: Option<u64>,
    /// Type and what belongs to it.
    pub kind: InodeKind,
}

impl Inode {
    /// Checks the record of inode `index`.
    ///
    /// # Errors
    /// [`Rule::Inode`], and [`Rule::Root`] for inode 0.
    pub fn parse(raw: &RawInode, index: u32) -> Result<Self, FormatError> {
        let bad = |rule| FormatError::new(rule, Place::Inode(index));
        let mode = raw.mode.get();
        let bits = raw.flags.get();
        let size = raw.size.get();
        let hole_bytes = raw.hole_bytes.get();
        let start = raw.start.get();
        let nanoseconds = raw.mtime_nanoseconds.get();
        let kind = match FileType::from_mode(mode) {
            Some(FileType::Regular) => InodeKind::Regular(file_data(raw)),
            Some(FileType::Directory) => InodeKind::Directory {
                first: start,
                count: raw.count.get(),
                opaque: bits & flags::OPAQUE != 0,
                implied: bits & flags::IMPLIED != 0,
                hollow: bits & flags::HOLLOW != 0,
            },
            Some(FileType::Symlink) => InodeKind::Symlink(start),
            Some(FileType::CharDevice) => InodeKind::CharDevice(device(start)),
            Some(FileType::BlockDevice) => InodeKind::BlockDevice(device(start)),
            Some(FileType::Fifo) => InodeKind::Fifo,
            Some(FileType::Socket) => InodeKind::Socket,
            None if mode == 0 => InodeKind::LinkBelow(start),
            None => return Err(bad(Rule::Inode)),
        };
        let path_length = size <= super::wide(TARGET_MAX);
        let allowed = match kind {
            InodeKind::Regular(FileData::Empty) => (size == 0 && start == 0, 0),
            InodeKind::Regular(FileData::Inline(_)) => {
                (size > 0 && hole_bytes == 0, flags::INLINE_EXTENT)
            }
            InodeKind::Regular(FileData::Extents { count, .. }) => (size > 0 && count > 0, 0),
            InodeKind::Directory { implied, hollow, .. } => {
                (size == 0 && (implied || !hollow), flags::OPAQUE | flags::IMPLIED | flags::HOLLOW)
            }
            InodeKind::Symlink(_) => (path_length, 0),
            InodeKind::LinkBelow(_) => (path_length && size > 0, 0),
            _ => (size == 0, 0),
        };
        let (shape, allowed_flags) = allowed;
        let regular = matches!(kind, InodeKind::Regular(_));
        let fine = shape
            && bits & !allowed_flags == 0
            && i64::try_from(size).is_ok()
            && hole_bytes <= size
            && (regular || hole_bytes == 0)
            && nanoseconds < 1_000_000_000
            && raw.links.get() > 0;
        if !fine {
            return Err(bad(Rule::Inode));
        }
        let dentry = Some(raw.dentry.get()).filter(|at| *at != NO_DENTRY);
        let parent = raw.parent.get();
        let is_root = index == 0;
        let root_shape =
            dentry.is_none() && parent == 0 && matches!(kind, InodeKind::Directory { .. });
        if (is_root && !root_shape) || (!is_root && dentry.is_none()) {
            return Err(bad(Rule::Root));
        }
        Ok(Self {
            index,
            permissions: mode & 0o7777,
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            links: raw.links.get(),
            size,
            hole_bytes,
            mtime: Timestamp { seconds: raw.mtime_seconds.get(), nanoseconds },
            xattrs: raw.xattrs.get().checked_sub(1),
            parent,
            dentry,
            kind,
        })
    }

    /// The record to store.
    #[must_use]
    pub fn to_raw(&self) -> RawInode {
        let (start, count, bits) = match self.kind {
            InodeKind::Regular(FileData::Empty) => (0, 0, 0),
            InodeKind::Regular(FileData::Inline(slice)) => {
                (slice.block, slice.offset, flags::INLINE_EXTENT)
            }
            InodeKind::Regular(FileData::Extents { first, count }) => (first, count, 0),
            InodeKind::Directory { first, count, opaque, implied, hollow } => {
                let opaque = if opaque { flags::OPAQUE } else { 0 };
                let implied = if implied { flags::IMPLIED } else { 0 };
                let hollow = if hollow { flags::HOLLOW } else { 0 };
                (first, count, opaque | implied | hollow)
            }
            InodeKind::Symlink(at) | InodeKind::LinkBelow(at) => (at, 0, 0),
            InodeKind::CharDevice(device) | InodeKind::BlockDevice(device) => {
                ((u64::from(device.major) << 32) | u64::from(device.minor), 0, 0)
            }
            InodeKind::Fifo | InodeKind::Socket => (0, 0, 0),
        };
        let type_bits = self.file_type().map_or(0, FileType::mode_bits);
        RawInode {
            mode: U16::new(type_bits | self.permissions),
            flags: U16::new(bits),
            uid: U32::new(self.uid),
            gid: U32::new(self.gid),
            links: U32::new(self.links),
            size: U64::new(self.size),
            hole_bytes: U64::new(self.hole_bytes),
            mtime_seconds: I64::new(self.mtime.seconds),
            mtime_nanoseconds: U32::new(self.mtime.nanoseconds),
            xattrs: U32::new(self.xattrs.map_or(0, |set| set.saturating_add(1))),
            start: U64::new(start),
            count: U32::new(count),
            parent: U32::new(self.parent),
            dentry: U64::new(self.dentry.unwrap_or(NO_DENTRY)),
        }
    }

    /// Its type; `None` for a link-below, whose type is its target's.
    #[must_use]
    pub fn file_type(&self) -> Option<FileType> {
        match self.kind {
            InodeKind::Regular(_) => Some(FileType::Regular),
            InodeKind::Directory { .. } => Some(FileType::Directory),
            InodeKind::Symlink(_) => Some(FileType::Symlink),
            InodeKind::CharDevice(_) => Some(FileType::CharDevice),
            InodeKind::BlockDevice(_) => Some(FileType::BlockDevice),
            InodeKind::Fifo => Some(FileType::Fifo),
            InodeKind::Socket => Some(FileType::Socket),
            InodeKind::LinkBelow(_) => None,
        }
    }
}

fn file_data(raw: &RawInode) -> FileData {
    if raw.flags.get() & flags::INLINE_EXTENT != 0 {
        let slice = BlockSlice { blob: 0, block: raw.start.get(), offset: raw.count.get() };
        FileData::Inline(slice)
    } else if raw.size.get() == 0 && raw.count.get() == 0 {
        FileData::Empty
    } else {
        FileData::Extents { first: raw.start.get(), count: raw.count.get() }
    }
}

fn device(start: u64) -> DeviceNumber {
    let [a, b, c, d, e, f, g, h] = start.to_le_bytes();
    DeviceNumber {
        major: u32::from_le_bytes([e, f, g, h]),
        minor: u32::from_le_bytes([a, b, c, d]),
    }
}
