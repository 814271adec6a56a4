//! The names of one layer, whiteouts included.

use super::{EachName, Names};
use crate::error::ReadError;
use crate::format::dentry::DentryKind;
use crate::format::{FileType, Place, Rule};
use crate::reader::Image;

/// What a name of a layer stands for.
#[derive(Debug, Clone, Copy)]
pub struct LayerName {
    /// Inode index; 0 for a whiteout.
    pub inode: u32,
    /// Kind.
    pub kind: DentryKind,
    /// Position of the dentry among all of the layer; `None` for the root.
    pub position: Option<u64>,
}

/// A layer, to be walked.
#[derive(Debug, Clone, Copy)]
pub struct LayerNames<'a>(pub &'a Image);

impl Names for LayerNames<'_> {
    type Name = LayerName;

    fn root(&self) -> LayerName {
        let kind = DentryKind::File(FileType::Directory);
        LayerName { inode: 0, kind, position: None }
    }

    fn directory(name: &LayerName) -> Option<u64> {
        let is_directory = name.kind == DentryKind::File(FileType::Directory);
        is_directory.then_some(u64::from(name.inode))
    }

    fn list(
        &self,
        directory: u64,
        offset: u64,
        each: EachName<'_, LayerName>,
    ) -> Result<(), ReadError> {
        let inode = self.0.inode(u32::try_from(directory).unwrap_or(u32::MAX))?;
        let (first, _) = self.0.dentry_range(&inode)?;
        self.0.list(&inode, offset, &mut |name, found| {
            let next = found.position.saturating_sub(first).saturating_add(1);
            let position = Some(found.position);
            let target = LayerName { inode: found.dentry.inode, kind: found.dentry.kind, position };
            Ok(each(name, target, next))
        })
    }

    fn loops(&self, directory: u64) -> ReadError {
        let inode = u32::try_from(directory).unwrap_or(u32::MAX);
        self.0.corrupt(Rule::Tree, Place::Inode(inode))
    }
}
