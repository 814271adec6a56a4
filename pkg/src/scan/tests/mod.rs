//! Tests against real directories.
//!
//! They run as root and as an ordinary user; where the two can do different
//! things, what is asserted depends on which it is.

pub(crate) mod fixture;

mod attributes;
mod content;
mod limits;
mod selection;
mod trouble;

pub(crate) use self::trouble::as_ordinary_user;
