//! microfs: compressed, content-addressed, read-only layers for containers.
//!
//! A layer is one file of four parts: compressed blocks, inodes and dentries,
//! block pointers, superblock. `FORMAT.md` beside this crate is the
//! specification; [`mod@format`] holds its records and rules, [`writer`] makes
//! layers from a [`tree`], [`reader`] opens one, [`stack`] merges several.

#![forbid(unsafe_code)]

pub mod archive;
pub mod build;
pub mod check;
pub mod compare;
pub mod compress;
pub mod delta;
pub mod dump;
mod error;
pub mod export;
pub mod extract;
pub mod format;
pub mod reader;
pub mod scan;
mod source;
pub mod squash;
pub mod stack;
pub mod tree;
mod walk;
pub mod writer;

pub use self::error::ReadError;
pub use self::format::FileType;
pub use self::source::ReadAt;
