//! The merged tree of a stack as an archive.

use std::collections::HashMap;
use std::io::Write;

use super::error::unreadable;
use super::members::{Attributes, Members, check_name};
use super::{ExportError, ExportOptions, Exported, Progress};
use crate::error::ReadError;
use crate::format::FileType;
use crate::format::inode::Inode;
use crate::reader::Image;
use crate::stack::{Attr, NodeNum, Stack};
use crate::walk::Walk;

/// An object of which more names are to come.
struct First {
    path: Vec<u8>,
    left: u32,
}

/// Writes all that a stack shows as one archive into `sink`, which should be
/// buffered, and gives it back flushed. Content is verified as it is read.
///
/// # Errors
/// [`ExportError`]; what was written is then no archive.
pub fn write_tree<W: Write>(
    stack: &Stack,
    sink: W,
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<(W, Exported), ExportError> {
    let mut members = Members::new(sink, options, progress);
    let mut firsts: HashMap<NodeNum, First> = HashMap::new();
    let mut walk = Walk::new(stack);
    loop {
        let visit = walk.next_name();
        let path = walk.path();
        let Some(visit) = visit.map_err(unreadable(path))? else { break };
        check_name(path)?;
        let node = visit.name.node;
        let attr = stack.attr(node).map_err(unreadable(path))?;
        let attributes = attributes(stack, &attr).map_err(unreadable(path))?;
        if attr.file_type == FileType::Directory {
            members.directory(path, &attributes)?;
            continue;
        }
        let (image, inode) = inode(stack, node).map_err(unreadable(path))?;
        match firsts.remove(&node) {
            Some(First { path: first, left }) => {
                members.hard_link(path, &attributes, &inode, &first)?;
                if left > 1 {
                    firsts.insert(node, First { path: first, left: left.saturating_sub(1) });
                }
            }
            None => {
                members.object(path, &attributes, image, &inode)?;
                if attr.links > 1 {
                    let left = attr.links.saturating_sub(1);
                    firsts.insert(node, First { path: path.to_vec(), left });
                }
            }
        }
    }
    members.finish()
}

fn attributes(stack: &Stack, attr: &Attr) -> Result<Attributes, ReadError> {
    Ok(Attributes {
        permissions: attr.permissions,
        uid: attr.uid,
        gid: attr.gid,
        mtime: attr.mtime,
        xattrs: stack.xattrs(attr.node)?,
    })
}

/// The inode behind a number, and its layer.
fn inode(stack: &Stack, node: NodeNum) -> Result<(&Image, Inode), ReadError> {
    let at = stack.resolve(node)?;
    let layer = usize::try_from(at.layer).ok().and_then(|layer| stack.layers().get(layer));
    let image = layer.ok_or(ReadError::NoSuchNode(node.0))?;
    Ok((image, image.inode(at.inode)?))
}
