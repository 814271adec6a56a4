//! What the comparator asks of a tree.

use std::ops::Range;

use super::ViewError;
use crate::format::FileType;
use crate::scan::{NameList, XattrFilter};
use crate::tree::{DeviceNumber, Timestamp};

/// The name by which a view's current directory is asked for itself.
pub const SELF: &[u8] = b".";

/// Extended attributes as (name, value), sorted by name.
pub type XattrList = Vec<(Vec<u8>, Vec<u8>)>;

/// Attributes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Type.
    pub file_type: FileType,
    /// 0 to 0o7777.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Claimed number of links.
    pub links: u32,
    /// Bytes.
    pub size: u64,
    /// Modification time.
    pub mtime: Timestamp,
    /// Device number; zero for other types.
    pub device: DeviceNumber,
    /// Equal for two names of one object, within one view.
    pub identity: (u64, u64),
}

/// A tree seen from one directory at a time.
///
/// A view stands in a directory, at first the root, and is asked about names
/// in it; [`SELF`] is the directory itself. So no view needs paths, which
/// could be longer than the kernel takes, or to keep more than the way back.
pub trait TreeView {
    /// Names in the current directory, sorted by bytes, without `.` and `..`.
    ///
    /// # Errors
    /// If it cannot be read.
    fn names(&mut self) -> Result<NameList, ViewError>;

    /// Attributes of an object; links are not followed.
    ///
    /// # Errors
    /// If it is not there or cannot be read.
    fn attributes(&mut self, name: &[u8]) -> Result<Attributes, ViewError>;

    /// Target of a symbolic link.
    ///
    /// # Errors
    /// If it is none or cannot be read.
    fn link_target(&mut self, name: &[u8]) -> Result<Vec<u8>, ViewError>;

    /// The extended attributes that the filter accepts, sorted by name.
    ///
    /// # Errors
    /// If they cannot be read.
    fn xattrs(&mut self, name: &[u8], filter: &XattrFilter) -> Result<XattrList, ViewError>;

    /// Content of a regular file.
    ///
    /// # Errors
    /// If it is none or cannot be opened.
    fn open(&mut self, name: &[u8]) -> Result<Box<dyn Content + '_>, ViewError>;

    /// Goes to a sub-directory.
    ///
    /// # Errors
    /// If it is none or cannot be opened.
    fn enter(&mut self, name: &[u8]) -> Result<(), ViewError>;

    /// Goes back to the parent; nothing happens at the root.
    ///
    /// # Errors
    /// If the parent is no longer where it was.
    fn leave(&mut self) -> Result<(), ViewError>;

    /// Whether every name of every object lies within this view, so that a
    /// link count that differs from the number of names is wrong.
    fn is_closed(&self) -> bool;
}

/// Bytes of a regular file.
pub trait Content {
    /// Length in bytes.
    fn size(&self) -> u64;

    /// The first run of data that ends after `offset`, cut to begin there at
    /// the earliest; `None` when there is only a hole up to the end.
    ///
    /// # Errors
    /// If the map cannot be read.
    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ViewError>;

    /// Fills the buffer from `offset` on; holes are zeros.
    ///
    /// # Errors
    /// If that cannot be read, or the file ends within it.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ViewError>;
}
