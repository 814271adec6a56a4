//! Are two trees the same, in every attribute that counts?
//!
//! [`compare`] walks two [`TreeView`]s side by side, each being a directory
//! on disk (also a mount point) or an opened stack of layers, and lists how
//! they differ. It is what `diff` prints, and what the tests of everything
//! else rest on.
//!
//! # What is compared
//!
//! Names; type; permissions; owner; modification time to the nanosecond;
//! device numbers; link targets; extended attributes, each value; size,
//! content and holes of regular files; which names are links to one object,
//! and how many links an object claims to have. Not compared: access and
//! change times, inode numbers, sizes and link counts of directories, and how
//! much storage a file occupies, because these belong to a filesystem and not
//! to its content.
//!
//! # Holes
//!
//! By default both sides must report the same map of data and holes
//! (`SEEK_DATA`). A filesystem decides for itself what it calls a hole: space
//! that is allocated but never written is a hole on some and data on others,
//! and maps are rounded to its blocks. For two filesystems that disagree,
//! [`CompareOptions::holes`] turns that off, and a hole is right when both
//! sides read as zeros.
//!
//! # Cost
//!
//! Every byte of data is read from both sides, 1 MiB at a time; where both
//! have a hole nothing is. Memory is the names of the directories between the
//! root and the current one, and an entry for each object of several names.

use crate::scan::{ExcludeSet, XattrFilter};

pub use self::difference::{Difference, What};
pub use self::directory::DirectoryView;
pub use self::error::{CompareError, Side, ViewError};
pub use self::stack::StackView;
pub use self::view::{Attributes, Content, SELF, TreeView, XattrList};
pub use self::walk::compare;

mod content;
mod difference;
mod directory;
mod error;
mod links;
mod stack;
mod view;
mod walk;

#[cfg(test)]
mod tests;

/// What to compare. The default is everything.
#[derive(Debug, Clone)]
pub struct CompareOptions {
    /// Modification times.
    pub mtime: bool,
    /// Users and groups.
    pub owner: bool,
    /// Whether the maps of data and holes must be equal.
    pub holes: bool,
    /// Which extended attributes.
    pub xattrs: XattrFilter,
    /// Paths to leave out on both sides, with everything below them.
    pub exclude: ExcludeSet,
    /// Stop after so many differences.
    pub max_differences: usize,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            mtime: true,
            owner: true,
            holes: true,
            xattrs: XattrFilter::default(),
            exclude: ExcludeSet::default(),
            max_differences: usize::MAX,
        }
    }
}
