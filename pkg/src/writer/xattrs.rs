//! The xattr sections of a tree.

use std::collections::{BTreeMap, HashMap};

use super::error::WriteError;
use super::heap::Heap;
use crate::format::xattr::{RawXattrEntry, RawXattrName, RawXattrSet, known};
use crate::tree::{ValidTree, XattrSetId};

/// Records of the xattr sections; sets are numbered in the order in which
/// inodes use them, so that unused ones and the order of interning leave no trace.
#[derive(Debug, Default)]
pub struct XattrSections {
    /// Set records.
    pub sets: Vec<RawXattrSet>,
    /// Entry records.
    pub entries: Vec<RawXattrEntry>,
    /// Name records, sorted by bytes.
    pub names: Vec<RawXattrName>,
    /// Bits of [`known`].
    pub known: u32,
    numbers: HashMap<XattrSetId, u32>,
}

impl XattrSections {
    /// Collects what the inodes use, in inode order, and fills the heap with
    /// names, then values.
    pub fn build(tree: &ValidTree, heap: &mut Heap) -> Result<Self, WriteError> {
        let table = tree.tree().xattrs();
        let many = |_| WriteError::TooMany("extended attributes");
        let mut built = Self::default();
        let mut used = Vec::new();
        for node in tree.order() {
            let id = tree.node(*node).metadata.xattrs;
            if id != XattrSetId::NONE && !built.numbers.contains_key(&id) {
                built.numbers.insert(id, u32::try_from(used.len()).map_err(many)?);
                used.push(id);
            }
        }
        let mut names = BTreeMap::new();
        for id in &used {
            for (name, _) in table.set(*id) {
                names.insert(name.as_slice(), 0u32);
            }
        }
        for (number, (name, slot)) in (0u32..).zip(names.iter_mut()) {
            *slot = number;
            built.known |= known::of(name);
            let length = u32::try_from(name.len()).map_err(many)?;
            let record = RawXattrName { position: heap.add(name).into(), length: length.into() };
            built.names.push(record);
        }
        let mut values: HashMap<&[u8], u64> = HashMap::new();
        for id in &used {
            let set = table.set(*id);
            let first = u64::try_from(built.entries.len()).map_err(many)?;
            let count = u32::try_from(set.len()).map_err(many)?;
            built.sets.push(RawXattrSet { first: first.into(), count: count.into() });
            for (name, value) in set {
                let at = *values.entry(value).or_insert_with(|| heap.add(value));
                built.entries.push(RawXattrEntry {
                    name: names.get(name.as_slice()).copied().unwrap_or(0).into(),
                    length: u32::try_from(value.len()).map_err(many)?.into(),
                    value: at.into(),
                });
            }
        }
        Ok(built)
    }

    /// The number of a set in the layer.
    pub fn number(&self, id: XattrSetId) -> Option<u32> {
        self.numbers.get(&id).copied()
    }
}
