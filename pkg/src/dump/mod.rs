//! The text format of composefs (`composefs-dump(5)`): one line per name.
//!
//! A line has eleven fields, PATH SIZE MODE NLINK UID GID RDEV MTIME PAYLOAD
//! CONTENT DIGEST, and then the extended attributes. [`dump`] writes a whole
//! [`Stack`] so that `mkcomposefs --from-file` accepts
//! it; [`parse_line`] reads one line back. What the manual leaves open is
//! decided thus:
//!
//! - SIZE of a directory is 0 (readers ignore it).
//! - Names come depth first and sorted by bytes; the first name of an object
//!   has its line, every later one is a hard link to it.
//! - A file of at most [`DumpOptions::inline_max`] bytes is in CONTENT. Of a
//!   larger one PAYLOAD and DIGEST are unset, or, with
//!   [`DumpOptions::digests`], its fs-verity digest and the path that an
//!   object store gives it.
//! - `=` is escaped in names and in values of attributes, as `composefs-info` does.

use std::io::Write;

use thiserror::Error;

pub use self::entry::Entry;
pub use self::parse::{Field, ParseError, parse_line};
pub use self::verity::Verity;

use crate::error::ReadError;
use crate::stack::Stack;

mod entry;
mod escape;
mod parse;
mod verity;
mod walk;

#[cfg(test)]
mod tests;

/// Most bytes of content that composefs takes in a line.
pub const INLINE_MAX: u64 = 5000;

/// What goes into a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpOptions {
    /// Files of at most so many bytes have their content in the line; no more
    /// than [`INLINE_MAX`].
    pub inline_max: u64,
    /// Whether larger files have their fs-verity digest; all content is read.
    pub digests: bool,
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self { inline_max: 64, digests: false }
    }
}

/// Why a dump is not complete.
#[derive(Debug, Error)]
pub enum DumpError {
    /// An object cannot be read.
    #[error("cannot read {:?}", String::from_utf8_lossy(.path))]
    Read {
        /// Its path, with leading slash.
        path: Vec<u8>,
        /// Why.
        #[source]
        cause: ReadError,
    },
    /// The text cannot be written.
    #[error("cannot write the dump")]
    Sink(#[from] std::io::Error),
}

/// Writes every object of a stack as a line of text. Memory: one line, and
/// the first path of every file whose other names are still to come.
///
/// # Errors
/// [`DumpError`]; the text is then incomplete.
pub fn dump(stack: &Stack, options: &DumpOptions, sink: &mut impl Write) -> Result<(), DumpError> {
    walk::Dump::new(stack, options).run(sink)
}
