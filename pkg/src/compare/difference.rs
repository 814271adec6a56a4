//! How two trees differ.

use std::fmt;

use crate::format::FileType;
use crate::tree::{DeviceNumber, Timestamp};

/// One way in which one path differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Path below the root, without leading slash; empty for the root.
    pub path: Vec<u8>,
    /// In what.
    pub what: What,
}

/// In what two objects of one path differ: `a` is in the first tree, `b` in the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Only the first tree has it; what lies below it is not listed.
    Missing {
        /// Its type there.
        a: FileType,
    },
    /// Only the second tree has it; what lies below it is not listed.
    Extra {
        /// Its type there.
        b: FileType,
    },
    /// Type; nothing else is compared then.
    FileType {
        /// In the first tree.
        a: FileType,
        /// In the second tree.
        b: FileType,
    },
    /// Permission bits.
    Permissions {
        /// In the first tree.
        a: u16,
        /// In the second tree.
        b: u16,
    },
    /// Owner.
    Uid {
        /// In the first tree.
        a: u32,
        /// In the second tree.
        b: u32,
    },
    /// Group.
    Gid {
        /// In the first tree.
        a: u32,
        /// In the second tree.
        b: u32,
    },
    /// Modification time.
    Mtime {
        /// In the first tree.
        a: Timestamp,
        /// In the second tree.
        b: Timestamp,
    },
    /// Number of a device.
    Device {
        /// In the first tree.
        a: DeviceNumber,
        /// In the second tree.
        b: DeviceNumber,
    },
    /// Target of a symbolic link.
    LinkTarget {
        /// In the first tree.
        a: Vec<u8>,
        /// In the second tree.
        b: Vec<u8>,
    },
    /// An extended attribute that only the first tree has.
    XattrMissing {
        /// Its name.
        name: Vec<u8>,
        /// Its value.
        a: Vec<u8>,
    },
    /// An extended attribute that only the second tree has.
    XattrExtra {
        /// Its name.
        name: Vec<u8>,
        /// Its value.
        b: Vec<u8>,
    },
    /// Value of an extended attribute.
    XattrValue {
        /// Its name.
        name: Vec<u8>,
        /// In the first tree.
        a: Vec<u8>,
        /// In the second tree.
        b: Vec<u8>,
    },
    /// Bytes of a regular file; content is not compared then.
    Size {
        /// In the first tree.
        a: u64,
        /// In the second tree.
        b: u64,
    },
    /// Content of a regular file.
    Content {
        /// First byte that differs.
        offset: u64,
        /// That byte in the first tree.
        a: u8,
        /// That byte in the second tree.
        b: u8,
    },
    /// Map of data and holes of a regular file; `true` is data.
    Holes {
        /// First byte where the maps differ.
        offset: u64,
        /// In the first tree.
        a: bool,
        /// In the second tree.
        b: bool,
    },
    /// The first path that is the same object, if there is one before this.
    LinkedTo {
        /// In the first tree.
        a: Option<Vec<u8>>,
        /// In the second tree.
        b: Option<Vec<u8>>,
    },
    /// Number of links of an object that is not a directory: as claimed in a
    /// closed tree ([`TreeView::is_closed`](super::TreeView::is_closed)), else
    /// at most the number of its names there.
    Links {
        /// In the first tree.
        a: u32,
        /// In the second tree.
        b: u32,
    },
}

impl fmt::Display for Difference {
    /// One line, whatever bytes the names hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}: {}", self.path.escape_ascii(), self.what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { a } => write!(f, "missing ({})", type_name(*a)),
            Self::Extra { b } => write!(f, "extra ({})", type_name(*b)),
            Self::FileType { a, b } => write!(f, "type {} -> {}", type_name(*a), type_name(*b)),
            Self::Permissions { a, b } => write!(f, "permissions {a:04o} -> {b:04o}"),
            Self::Uid { a, b } => write!(f, "uid {a} -> {b}"),
            Self::Gid { a, b } => write!(f, "gid {a} -> {b}"),
            Self::Mtime { a, b } => write!(
                f,
                "mtime {}+{:09}ns -> {}+{:09}ns",
                a.seconds, a.nanoseconds, b.seconds, b.nanoseconds
            ),
            Self::Device { a, b } => {
                write!(f, "device {}:{} -> {}:{}", a.major, a.minor, b.major, b.minor)
            }
            Self::LinkTarget { a, b } => {
                write!(f, "target {} -> {}", quoted(a), quoted(b))
            }
            Self::XattrMissing { name, a } => {
                write!(f, "xattr {} missing (was {})", name.escape_ascii(), quoted(a))
            }
            Self::XattrExtra { name, b } => {
                write!(f, "xattr {} extra (is {})", name.escape_ascii(), quoted(b))
            }
            Self::XattrValue { name, a, b } => {
                write!(f, "xattr {} {} -> {}", name.escape_ascii(), quoted(a), quoted(b))
            }
            Self::Size { a, b } => write!(f, "size {a} -> {b}"),
            Self::Content { offset, a, b } => {
                write!(f, "content at {offset}: 0x{a:02x} -> 0x{b:02x}")
            }
            Self::Holes { offset, a, b } => {
                write!(f, "map at {offset}: {} -> {}", map_name(*a), map_name(*b))
            }
            Self::LinkedTo { a, b } => {
                write!(f, "hard link to {} -> {}", link_name(a), link_name(b))
            }
            Self::Links { a, b } => write!(f, "links {a} -> {b}"),
        }
    }
}

fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "regular file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::CharDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Fifo => "pipe",
        FileType::Socket => "socket",
    }
}

fn map_name(data: bool) -> &'static str {
    if data { "data" } else { "hole" }
}

fn link_name(path: &Option<Vec<u8>>) -> String {
    path.as_ref().map_or_else(|| "nothing before".to_owned(), |path| quoted(path))
}

fn quoted(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}
