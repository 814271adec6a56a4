//! Random stacks of layers, and what they must look like: two models that
//! share nothing with the library.
//!
//! [`changeset`] follows FORMAT.md section 14 for every archive, however odd.
//! [`extraction`] is what a container engine does: it unpacks members one
//! after another into one tree. That gives an answer for sane archives only.
#![allow(missing_docs)]

pub mod changeset;
pub mod extraction;
pub mod layer;
pub mod member;
pub mod same;
pub mod tree;

/// Symbolic links that are followed for one path, as Linux does.
pub const LINKS_MAX: usize = 40;

/// Components of a path: no empty ones and no `.`.
pub fn parts(path: &str) -> Vec<String> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").map(str::to_owned).collect()
}
