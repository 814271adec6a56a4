//! The names of a merged tree.

use super::{EachName, Names};
use crate::error::ReadError;
use crate::format::{FileType, FormatError, Place, Rule};
use crate::stack::{NodeNum, Stack};

/// What a name of a stack stands for.
#[derive(Debug, Clone, Copy)]
pub struct StackName {
    /// The object.
    pub node: NodeNum,
    /// Its type.
    pub file_type: FileType,
}

impl Names for Stack {
    type Name = StackName;

    fn root(&self) -> StackName {
        StackName { node: NodeNum::ROOT, file_type: FileType::Directory }
    }

    fn directory(name: &StackName) -> Option<u64> {
        (name.file_type == FileType::Directory).then_some(name.node.0)
    }

    fn list(
        &self,
        directory: u64,
        offset: u64,
        each: EachName<'_, StackName>,
    ) -> Result<(), ReadError> {
        self.read_dir(NodeNum(directory), offset, &mut |entry| {
            let name = StackName { node: entry.node, file_type: entry.file_type };
            each(entry.name, name, entry.next)
        })
    }

    fn loops(&self, directory: u64) -> ReadError {
        match self.resolve(NodeNum(directory)) {
            Ok(at) => {
                let cause = FormatError::new(Rule::Tree, Place::Inode(at.inode));
                ReadError::Corrupt { layer: at.layer, cause }
            }
            Err(error) => error,
        }
    }
}
