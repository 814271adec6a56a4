//! Interned sets of extended attributes.

use std::collections::HashMap;
use std::sync::Arc;

use super::TreeError;

/// Number of a set in its [`XattrTable`]; the empty set is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct XattrSetId(pub u32);

impl XattrSetId {
    /// The empty set.
    pub const NONE: Self = Self(0);
}

/// Name and value of each attribute of a set, sorted by name.
pub type XattrSet = Arc<[(Vec<u8>, Vec<u8>)]>;

/// Longest attribute name in bytes (Linux `XATTR_NAME_MAX`).
pub const XATTR_NAME_MAX: usize = 255;
/// Longest attribute value in bytes (Linux `XATTR_SIZE_MAX`).
pub const XATTR_VALUE_MAX: usize = 65_536;

/// Most attributes of one object: more than Linux can list.
pub const XATTRS_MAX: usize = 16_384;

/// All distinct sets of a tree.
#[derive(Debug, Clone, Default)]
pub struct XattrTable {
    sets: Vec<XattrSet>,
    ids: HashMap<XattrSet, XattrSetId>,
}

impl XattrTable {
    /// Interns a set; order does not matter, the last of two equal names wins.
    ///
    /// # Errors
    /// [`TreeError::BadXattr`], also for more than 16,384 attributes, and
    /// [`TreeError::TooManyNodes`] for 2^32 - 1 distinct sets.
    pub fn intern(&mut self, mut set: Vec<(Vec<u8>, Vec<u8>)>) -> Result<XattrSetId, TreeError> {
        for (name, value) in &set {
            let bad_name = name.is_empty() || name.len() > XATTR_NAME_MAX || name.contains(&0);
            if bad_name || value.len() > XATTR_VALUE_MAX {
                return Err(TreeError::BadXattr { name: name.clone() });
            }
        }
        if set.is_empty() {
            return Ok(XattrSetId::NONE);
        }
        if let Some((name, _)) = set.get(XATTRS_MAX) {
            return Err(TreeError::BadXattr { name: name.clone() });
        }
        set.reverse();
        set.sort_by(|a, b| a.0.cmp(&b.0));
        set.dedup_by(|later, kept| later.0 == kept.0);
        let set: XattrSet = set.into();
        if let Some(id) = self.ids.get(&set) {
            return Ok(*id);
        }
        self.sets.push(Arc::clone(&set));
        let id = u32::try_from(self.sets.len()).map_err(|_| TreeError::TooManyNodes)?;
        self.ids.insert(set, XattrSetId(id));
        Ok(XattrSetId(id))
    }

    /// The attributes of a set, sorted by name; nothing for an unknown id.
    #[must_use]
    pub fn set(&self, id: XattrSetId) -> &[(Vec<u8>, Vec<u8>)] {
        let index = usize::try_from(id.0).ok().and_then(|id| id.checked_sub(1));
        index.and_then(|index| self.sets.get(index)).map_or(&[], |set| set)
    }

    /// Number of distinct sets, the empty one not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there is no set but the empty one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }
}
