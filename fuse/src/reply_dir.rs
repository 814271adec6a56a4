//! Listing a directory in the kernel's terms.
//!
//! Offsets: 0 is the start, 1 follows `.`, 2 follows `..`, and 2 + n follows
//! the n-th entry in the stack's order. They depend on the image alone, so a
//! `telldir` position stays valid for ever.

use std::ops::ControlFlow;

use microfs::stack::{NodeNum, Stack};
use microfs::{FileType, ReadError};

/// Offsets that `.` and `..` take up.
const DOTS: u64 = 2;

/// An entry as it goes into a reply.
pub(crate) struct Listed<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) node: NodeNum,
    pub(crate) file_type: FileType,
    /// Where to go on after it.
    pub(crate) offset: u64,
    /// `.` and `..`, of which the kernel keeps no reference.
    pub(crate) is_dot: bool,
}

/// Hands entries from `offset` on to `emit` until it says that the reply is full.
pub(crate) fn list(
    stack: &Stack,
    directory: NodeNum,
    offset: u64,
    emit: &mut dyn FnMut(&Listed<'_>) -> ControlFlow<()>,
) -> Result<(), ReadError> {
    if offset < DOTS {
        let parent = stack.parent(directory)?;
        for (name, node, next) in [(&b"."[..], directory, 1), (b"..", parent, DOTS)] {
            let file_type = FileType::Directory;
            let dot = Listed { name, node, file_type, offset: next, is_dot: true };
            if offset < next && emit(&dot).is_break() {
                return Ok(());
            }
        }
    }
    stack.read_dir(directory, offset.saturating_sub(DOTS), &mut |entry| {
        emit(&Listed {
            name: entry.name,
            node: entry.node,
            file_type: entry.file_type,
            offset: entry.next.saturating_add(DOTS),
            is_dot: false,
        })
    })
}
