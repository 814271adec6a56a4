//! What a scan includes, and how it sees it.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::{ExcludeSet, ObjectId};
use crate::tree::Timestamp;

/// Everything that decides what a scan of a given directory yields.
///
/// The default takes every object with every attribute, and fails at the
/// first that cannot be read.
#[derive(Clone, Default)]
pub struct ScanOptions {
    /// Which extended attributes to take.
    pub xattrs: XattrFilter,
    /// What becomes of modification times.
    pub mtime: MtimePolicy,
    /// What becomes of owners.
    pub owner: OwnerPolicy,
    /// Do not cross into other filesystems (`st_dev`): a mount point is an
    /// empty directory with the attributes that it shows; another object that
    /// is mounted from elsewhere is left out and recorded as skipped.
    pub one_file_system: bool,
    /// Paths to leave out. Excluded directories are not read.
    pub exclude: ExcludeSet,
    /// Objects to leave out wherever they are met, such as the store that the
    /// output goes to; recorded as skipped.
    pub exclude_ids: Vec<ObjectId>,
    /// What to do about an object that cannot be read.
    pub on_error: OnError,
    /// Is told how far the scan is.
    pub progress: Option<Arc<dyn ScanProgress>>,
}

impl std::fmt::Debug for ScanOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ScanOptions")
            .field("xattrs", &self.xattrs)
            .field("mtime", &self.mtime)
            .field("owner", &self.owner)
            .field("one_file_system", &self.one_file_system)
            .field("exclude", &self.exclude)
            .field("exclude_ids", &self.exclude_ids)
            .field("on_error", &self.on_error)
            .field("progress", &self.progress.is_some())
            .finish()
    }
}

/// Listens to a scan and may stop it.
pub trait ScanProgress: Send + Sync {
    /// `entries` names have been dealt with so far. Called when a directory
    /// has been listed and before its entries are looked at, and then again
    /// after every thousand or so; `Break` ends the scan with
    /// [`ScanError::Cancelled`](super::ScanError::Cancelled).
    fn entries(&self, entries: u64) -> ControlFlow<()>;
}

/// What becomes of modification times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MtimePolicy {
    /// As they are.
    #[default]
    Keep,
    /// None later than this many seconds since 1970, as `SOURCE_DATE_EPOCH` asks.
    Clamp(i64),
    /// All exactly this many seconds since 1970.
    Set(i64),
}

impl MtimePolicy {
    /// The time to store for a time found.
    #[must_use]
    pub fn apply(self, found: Timestamp) -> Timestamp {
        match self {
            Self::Keep => found,
            Self::Clamp(seconds) => found.min(Timestamp { seconds, nanoseconds: 0 }),
            Self::Set(seconds) => Timestamp { seconds, nanoseconds: 0 },
        }
    }
}

/// What becomes of owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnerPolicy {
    /// All objects belong to this user; `None` keeps what they have.
    pub uid: Option<u32>,
    /// All objects belong to this group; `None` keeps what they have.
    pub gid: Option<u32>,
}

impl OwnerPolicy {
    /// Everything belongs to user 0 and group 0.
    pub const ALL_ROOT: Self = Self { uid: Some(0), gid: Some(0) };
}

/// What to do about an object that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// The first one ends the scan.
    #[default]
    Fail,
    /// It is left out of the tree, with all below it, and recorded.
    Skip,
}

/// Which extended attributes to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XattrFilter {
    /// Whether to take any at all.
    pub include: bool,
    /// Names to leave out; a final `*` stands for any continuation, so
    /// `user.*` is the whole namespace.
    pub exclude: Vec<Vec<u8>>,
}

impl Default for XattrFilter {
    fn default() -> Self {
        Self { include: true, exclude: Vec::new() }
    }
}

impl XattrFilter {
    /// Takes none.
    pub const NONE: Self = Self { include: false, exclude: Vec::new() };

    /// Whether an attribute of this name is taken.
    #[must_use]
    pub fn accepts(&self, name: &[u8]) -> bool {
        self.include
            && !self.exclude.iter().any(|pattern| match pattern.strip_suffix(b"*") {
                Some(prefix) => name.starts_with(prefix),
                None => name == pattern.as_slice(),
            })
    }
}
