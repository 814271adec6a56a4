//! What is known about xattrs without looking at a file.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{NodeNum, Stack};
use crate::error::ReadError;
use crate::format::xattr::known;
use crate::reader::{Image, Xattr};

/// Names beyond which only prefixes are remembered.
const NAMES_MAX: u32 = 4096;

/// Which extended attributes occur in a stack at all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct XattrKnowledge {
    /// Whether any file has any.
    pub any: bool,
    /// Whether a POSIX ACL (`system.posix_acl_*`) occurs.
    pub acl: bool,
    bits: u32,
    names: Option<BTreeSet<Vec<u8>>>,
}

impl XattrKnowledge {
    pub(super) fn of(layers: &[Arc<Image>]) -> Result<Self, ReadError> {
        let bits = layers.iter().fold(0, |bits, image| bits | image.superblock().xattr_known);
        let count = |image: &Arc<Image>| {
            let section = crate::format::section::Section::XattrNames;
            image.superblock().sections.span(section).count
        };
        let total = layers.iter().map(count).fold(0, u64::saturating_add);
        let mut names = None;
        if total <= u64::from(NAMES_MAX) {
            let mut set = BTreeSet::new();
            for image in layers {
                for number in 0..u32::try_from(count(image)).unwrap_or(NAMES_MAX) {
                    set.insert(image.xattr_name(number)?);
                }
            }
            names = Some(set);
        }
        Ok(Self {
            any: bits & known::ANY != 0,
            acl: bits & (known::ACL_ACCESS | known::ACL_DEFAULT) != 0,
            bits,
            names,
        })
    }

    /// Whether some file may have an attribute of this name. `false` is certain.
    #[must_use]
    pub fn may_have(&self, name: &[u8]) -> bool {
        if !self.any {
            return false;
        }
        match &self.names {
            Some(names) => names.contains(name),
            None => self.bits & known::of(name) & !known::ANY != 0,
        }
    }
}

impl Stack {
    /// What is known about xattrs without looking at a file.
    #[must_use]
    pub fn xattr_knowledge(&self) -> &XattrKnowledge {
        &self.knowledge
    }

    /// All attributes of an object, sorted by name.
    ///
    /// # Errors
    /// Everything of the reader.
    pub fn xattrs(&self, node: NodeNum) -> Result<Vec<Xattr>, ReadError> {
        if !self.knowledge.any {
            return Ok(Vec::new());
        }
        let (image, inode) = self.open_metadata(node)?;
        match inode {
            Some(inode) => image.xattrs(&inode),
            None => Ok(Vec::new()),
        }
    }

    /// The value of one attribute of an object.
    ///
    /// # Errors
    /// Everything of the reader.
    pub fn xattr(&self, node: NodeNum, name: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        if !self.knowledge.may_have(name) {
            return Ok(None);
        }
        let (image, inode) = self.open_metadata(node)?;
        match inode {
            Some(inode) => image.xattr(&inode, name),
            None => Ok(None),
        }
    }
}
