//! A directory on disk as a source: directory → [`Tree`],
//! and the bytes of its files.
//!
//! [`Scan::run`] walks a directory once and yields the tree of everything in
//! it, with all attributes but no content, and a [`SourceTable`] that opens
//! the content of each file later, from any thread, and notices when a file
//! is no longer what was scanned.
//!
//! # Why a walker of its own
//!
//! Every object is reached by one name relative to the open directory it is
//! in, and links are never followed. `walkdir` (like `std::fs`) works with
//! whole paths: it cannot reach what lies deeper than `PATH_MAX`, and a
//! directory that someone replaces by a link between two of its calls leads
//! it out of the tree. Here depth costs memory for the names only, at most 64
//! descriptors are open at a time, and every directory that is entered is
//! verified to be the one that was seen.
//!
//! # Order
//!
//! A directory's names are taken in the order of their bytes; then come its
//! sub-directories, each with everything below it. So a scan of an unchanged
//! directory yields the same tree every time, whatever order the filesystem
//! lists names in.
//!
//! # What "changed" means
//!
//! A directory is listed again when its times moved meanwhile, and a link or
//! an object with extended attributes is read again; [`ScanError::Changed`]
//! comes when that does not settle. Content is checked against size, mtime
//! and ctime of the scan, before and after it is read. A whole tree cannot be
//! read at one instant: for that, scan a snapshot.

use std::path::Path;

pub(crate) use self::content::OpenFile;
pub(crate) use self::descent::Descent;
pub use self::directory::NameList;
pub(crate) use self::directory::{open_directory, open_root};
pub(crate) use self::error::Fault;
pub use self::error::{ScanError, SkipReason, Skipped};
pub use self::exclude::{ExcludeError, ExcludeSet};
pub use self::options::{
    MtimePolicy, OnError, OwnerPolicy, ScanOptions, ScanProgress, XattrFilter,
};
pub use self::source::{SourceFile, SourceTable};
pub use self::stat::ObjectId;
pub(crate) use self::stat::Stat;
pub(crate) use self::xattrs::XattrReader;
use crate::tree::Tree;

mod cache;
mod content;
mod descent;
mod directory;
mod error;
mod exclude;
mod options;
mod source;
mod stat;
mod walk;
mod xattrs;

#[cfg(test)]
pub(crate) mod tests;

/// Scans directories.
#[derive(Debug)]
pub struct Scan;

impl Scan {
    /// Walks everything below `root`, which may be a link to a directory.
    ///
    /// Memory: the tree, 24 bytes for each regular file, and 16 bytes and the
    /// name for each entry of the directories between the root and the
    /// current one. Needs `/proc` unless extended attributes are left out.
    ///
    /// # Errors
    /// Any [`ScanError`]; with [`OnError::Skip`] only those that are about the
    /// root, the process or the tree as a whole.
    pub fn run(root: &Path, options: &ScanOptions) -> Result<Scanned, ScanError> {
        walk::run(root, options)
    }
}

/// What a scan found.
#[derive(Debug)]
pub struct Scanned {
    /// Everything but content.
    pub tree: Tree,
    /// Opens content. It knows files by their ids in `tree`.
    pub sources: SourceTable,
    /// What was met and left out, but for excluded paths; in order of the walk.
    pub skipped: Vec<Skipped>,
    /// Numbers about it.
    pub statistics: Statistics,
}

/// Numbers about a scan. Objects are counted once, however many names they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Names, the root not counted.
    pub entries: u64,
    /// Directories, the root included.
    pub directories: u64,
    /// Regular files.
    pub regular_files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, pipes and sockets.
    pub special_files: u64,
    /// Names beyond the first of objects that have several in the tree.
    pub hard_links: u64,
    /// Sum of the sizes of regular files in bytes, holes included; saturates.
    pub content_bytes: u64,
    /// The same, counting for each file no more than what it occupies.
    pub allocated_bytes: u64,
    /// Paths left out by a pattern; what lies below them is not counted.
    pub excluded: u64,
}
