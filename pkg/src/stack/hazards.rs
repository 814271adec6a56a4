//! What overlayfs would obey instead of showing.
//!
//! Where a stack is the lower directory of an overlay, a character device 0:0
//! is a whiteout to overlayfs, and attributes `trusted.overlay.*` and
//! `user.overlay.*` are orders. In an image they are content.

use super::{LayerInode, Stack};
use crate::error::ReadError;
use crate::format::FileType;
use crate::format::inode::InodeKind;
use crate::tree::DeviceNumber;

/// Something that an overlay over this stack would not show as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OverlayHazard {
    /// A character device 0:0 at this path.
    Whiteout(Vec<u8>),
    /// An extended attribute of this name, on some file.
    Xattr(Vec<u8>),
}

impl Stack {
    /// The first thing that overlayfs would take for an order of its own.
    /// Looks at inodes only in layers that have character devices.
    ///
    /// # Errors
    /// Everything of the reader.
    pub fn overlay_hazard(&self) -> Result<Option<OverlayHazard>, ReadError> {
        for image in self.layers() {
            let section = crate::format::section::Section::XattrNames;
            let names = image.superblock().sections.span(section).count;
            for number in 0..u32::try_from(names).unwrap_or(u32::MAX) {
                let name = image.xattr_name(number)?;
                if name.starts_with(b"trusted.overlay.") || name.starts_with(b"user.overlay.") {
                    return Ok(Some(OverlayHazard::Xattr(name)));
                }
            }
        }
        for (layer, image) in (0u32..).zip(self.layers()) {
            let code = usize::from(FileType::CharDevice.code());
            let kinds = &image.superblock().totals.kinds;
            let slot = code.checked_sub(1).and_then(|slot| kinds.get(slot));
            let mut left = slot.map_or(0, |count| count.get());
            let count = u32::try_from(image.superblock().inode_count()).unwrap_or(u32::MAX);
            for number in 0..count {
                if left == 0 {
                    break;
                }
                let InodeKind::CharDevice(device) = image.inode(number)?.kind else { continue };
                left = left.saturating_sub(1);
                if device == DeviceNumber::default() {
                    let path = self.path_in_stack(LayerInode { layer, inode: number })?;
                    return Ok(Some(OverlayHazard::Whiteout(path)));
                }
            }
        }
        Ok(None)
    }
}
