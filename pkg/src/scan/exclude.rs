//! Paths to leave out, in gitignore syntax.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use thiserror::Error;

/// A pattern that cannot be understood.
#[derive(Debug, Error)]
#[error("exclude pattern {number}")]
pub struct ExcludeError {
    /// Which pattern, counted from 1.
    pub number: usize,
    /// What is wrong with it.
    #[source]
    pub source: ignore::Error,
}

/// Patterns over paths below the root, as a `.gitignore` there would hold:
/// `name` anywhere, `/name` at the root, `name/` for directories only, `**`
/// across directories, `!name` to take back an earlier pattern. The last
/// pattern that matches decides; nothing below an excluded directory can be
/// taken back. Matching is by bytes and minds case. The default holds none.
#[derive(Debug, Clone)]
pub struct ExcludeSet {
    matcher: Gitignore,
}

impl Default for ExcludeSet {
    fn default() -> Self {
        Self { matcher: Gitignore::empty() }
    }
}

impl ExcludeSet {
    /// Compiles patterns, one a line; empty ones and those that begin with
    /// `#` are comments.
    ///
    /// # Errors
    /// [`ExcludeError`] names the first bad one.
    pub fn new<P: AsRef<str>>(patterns: impl IntoIterator<Item = P>) -> Result<Self, ExcludeError> {
        // A root of "." makes the matcher take paths as they are.
        let mut builder = GitignoreBuilder::new(".");
        let mut last = 0;
        for (number, pattern) in (1..).zip(patterns) {
            last = number;
            builder
                .add_line(None, pattern.as_ref())
                .map_err(|source| ExcludeError { number, source })?;
        }
        let matcher = builder.build().map_err(|source| ExcludeError { number: last, source })?;
        Ok(Self { matcher })
    }

    /// Whether there is no pattern.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.matcher.is_empty()
    }

    /// Whether the object of this path below the root (no leading slash) is
    /// left out by a pattern for it. Patterns for its parents are not tried:
    /// who walks does not enter an excluded directory.
    #[must_use]
    pub fn excludes(&self, path: &[u8], is_directory: bool) -> bool {
        let path = Path::new(OsStr::from_bytes(path));
        !self.is_empty() && self.matcher.matched(path, is_directory).is_ignore()
    }
}
