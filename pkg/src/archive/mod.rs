//! Tar archives as layers.
//!
//! Reads what is found in the field: v7, ustar, GNU (long names, base-256
//! numbers, old sparse), star, pax (global and per-file headers, sparse 0.0,
//! 0.1 and 1.0, xattrs of both prefixes). The reader is our own because the
//! `tar` crate neither applies global headers nor keeps holes, knows no pax
//! sparse map, no time before 1970, and gives no byte offset of a damaged
//! member; it serves the tests as a second implementation.
//!
//! [`Members`] takes an archive apart; [`write_layer`] makes a layer of it in
//! one pass, file content going into the blob as it streams by.
//! [`ArchiveWriter`] writes one.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects, clippy::as_conversions)]

pub use self::convert::{LayerError, LayerOptions, write_layer};
pub use self::emit::{ArchiveWriter, EmitError, Entry, EntryKind, SparseMap};
pub use self::error::{ArchiveError, Fault};
pub use self::member::{Member, MemberKind, Segment};
pub use self::members::Members;

mod convert;
mod emit;
mod error;
mod header;
mod layer;
mod member;
mod members;
mod names;
mod number;
mod pax;
mod sparse;

#[cfg(test)]
mod tests;
