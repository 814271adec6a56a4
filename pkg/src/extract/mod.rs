//! Unpacking a stack into a directory.
//!
//! Nothing can land outside the target: every object is made by its one name
//! in a directory that is held open, no symbolic link is followed, and no path
//! of more than one name is given to the kernel. So neither a hostile image
//! nor a path of any depth matters.
//!
//! While the work goes on, directories belong to the caller alone (0700); they
//! get their mode, owner, attributes and time at the end, the deepest first.
//! Of an object the owner is set first, then its attributes, then its mode,
//! then its time: a change of owner clears setuid bits and capabilities, and a
//! read-only file takes no attributes from an ordinary user.
//!
//! Memory: about 60 bytes and its name for each directory and for each name of
//! a file that has several; 1 MiB for each thread.

use std::path::Path;

use rayon::ThreadPool;

pub use self::error::{Action, ExtractError};
pub use self::report::{ExtractReport, Unrestored, What};

use crate::stack::Stack;

mod directories;
mod error;
mod file;
mod object;
mod outcome;
mod report;
mod restore;
mod target;
mod walk;

/// How a stack is unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExtractOptions {
    /// Whether the target may hold something already: directories are then
    /// used as they are, everything else in the way is replaced.
    pub force: bool,
    /// Whether anything that cannot be restored is an error.
    pub strict: bool,
    /// Whether everything is on disk when the call returns.
    pub sync: bool,
}

/// Hears how far the work is. Called from many threads, often.
pub trait Progress: Sync {
    /// One more object was made.
    fn object(&self);
    /// So many more bytes of content were written.
    fn bytes(&self, more: u64);
}

/// For those who do not want to hear.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn object(&self) {}
    fn bytes(&self, _more: u64) {}
}

/// Unpacks a stack into `target`, which is made when it is not there (its
/// parent must be) and must be empty unless [`ExtractOptions::force`].
///
/// Bytes that a file has in holes are not written. What the caller's rights or
/// the target's filesystem do not allow (owners, device nodes, attributes,
/// times out of range) is left out and listed in the report.
///
/// # Errors
/// The first [`ExtractError`]; it names the object. Objects that are complete
/// stay, in directories that are still the caller's alone; a file whose
/// content could not be written is removed again.
pub fn extract(
    stack: &Stack,
    target: &Path,
    options: &ExtractOptions,
    pool: &ThreadPool,
    progress: &dyn Progress,
) -> Result<ExtractReport, ExtractError> {
    walk::run(stack, target, options, pool, progress)
}
