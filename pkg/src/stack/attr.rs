//! Attributes of an object as stat shows them.

use super::{LayerInode, NodeNum, Stack};
use crate::error::ReadError;
use crate::format::FileType;
use crate::format::inode::{Inode, InodeKind};
use crate::reader::Image;
use crate::tree::{DeviceNumber, Timestamp};

/// Attributes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub node: NodeNum,
    /// Its type.
    pub file_type: FileType,
    /// Permission bits with setuid, setgid and sticky, 0 to 0o7777.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Visible names; for directories 2 + visible sub-directories.
    pub links: u32,
    /// Bytes of a file or link target; number of dentries of a directory.
    pub size: u64,
    /// 512-byte units that are not holes.
    pub blocks: u64,
    /// Modification time.
    pub mtime: Timestamp,
    /// Device number; 0:0 for anything but devices.
    pub device: DeviceNumber,
}

/// Metadata of a directory that no layer has an entry for (OCI leaves it open).
const IMPLIED_PERMISSIONS: u16 = 0o755;

impl Stack {
    /// The inode that an object's metadata comes from: for an implied
    /// directory the nearest one below that is real, or none.
    pub(super) fn open_metadata(
        &self,
        node: NodeNum,
    ) -> Result<(&Image, Option<Inode>), ReadError> {
        let (image, inode) = self.open_node(node)?;
        if !is_implied(&inode) {
            return Ok((image, Some(inode)));
        }
        let parts = self.parts(node)?;
        for part in parts.iter() {
            let image = self.image(part.layer)?;
            let inode = image.inode(part.inode)?;
            if !is_implied(&inode) {
                return Ok((image, Some(inode)));
            }
        }
        // An opaque mark hides what is in the directory below, not its attributes.
        let mut below = parts.last().and_then(|part| part.layer.checked_sub(1));
        let path = self.path(node)?;
        while let Some(at) = self.at_path(below, &path)? {
            let image = self.image(at.layer)?;
            let inode = image.inode(at.inode)?;
            match inode.kind {
                InodeKind::Directory { implied: false, .. } => return Ok((image, Some(inode))),
                InodeKind::Directory { .. } => below = at.layer.checked_sub(1),
                _ => break,
            }
        }
        Ok((image, None))
    }

    /// Attributes of an object.
    ///
    /// # Errors
    /// [`ReadError::NoSuchNode`] and everything of the reader.
    pub fn attr(&self, node: NodeNum) -> Result<Attr, ReadError> {
        let (_, metadata) = self.open_metadata(node)?;
        let Some(inode) = metadata else { return self.implied_attr(node) };
        let device = match inode.kind {
            InodeKind::CharDevice(device) | InodeKind::BlockDevice(device) => device,
            _ => DeviceNumber::default(),
        };
        let file_type = inode.file_type().ok_or(ReadError::NoSuchNode(node.0))?;
        let size = match inode.kind {
            InodeKind::Directory { count, .. } => u64::from(count),
            _ => inode.size,
        };
        let data = match inode.kind {
            InodeKind::Regular(_) => inode.size.saturating_sub(inode.hole_bytes),
            _ => 0,
        };
        Ok(Attr {
            node,
            file_type,
            permissions: inode.permissions,
            uid: inode.uid,
            gid: inode.gid,
            links: self.links(node, &inode)?,
            size,
            blocks: data.div_ceil(512),
            mtime: inode.mtime,
            device,
        })
    }

    fn implied_attr(&self, node: NodeNum) -> Result<Attr, ReadError> {
        let (_, inode) = self.open_node(node)?;
        Ok(Attr {
            node,
            file_type: FileType::Directory,
            permissions: IMPLIED_PERMISSIONS,
            uid: 0,
            gid: 0,
            links: self.links(node, &inode)?,
            size: 0,
            blocks: 0,
            mtime: Timestamp::default(),
            device: DeviceNumber::default(),
        })
    }

    fn links(&self, node: NodeNum, inode: &Inode) -> Result<u32, ReadError> {
        if self.layers.len() == 1 && !self.has_links_below() && !self.has_specials(0)? {
            return Ok(inode.links);
        }
        if inode.file_type() == Some(FileType::Directory) {
            let parts = self.parts(node)?;
            return match *parts {
                [only] if !self.has_specials(only.layer)? => Ok(self.inode(only)?.links),
                _ => Ok(self.subdirectories(node, &parts)?.saturating_add(2)),
            };
        }
        self.visible_names(self.resolve(node)?, inode)
    }

    /// Whether a layer has directories that may not show in their place.
    fn has_specials(&self, layer: u32) -> Result<bool, ReadError> {
        let section = crate::format::section::Section::Implied;
        Ok(self.image(layer)?.superblock().sections.span(section).count > 0)
    }

    /// The directory that a directory is in; the root's is itself.
    ///
    /// # Errors
    /// [`ReadError::NotADirectory`] and everything of the reader.
    pub fn parent(&self, directory: NodeNum) -> Result<NodeNum, ReadError> {
        let path = self.path(directory)?;
        self.parts(directory)?;
        let mut at = NodeNum::ROOT;
        let names: Vec<_> = path.split(|byte| *byte == b'/').collect();
        let above = names.len().saturating_sub(1);
        if self.layers.len() == 1 {
            let (_, inode) = self.open_node(directory)?;
            return Ok(self.number(LayerInode { layer: 0, inode: inode.parent }));
        }
        for name in names.into_iter().take(above) {
            at = self.lookup(at, name)?.ok_or(ReadError::NoSuchNode(directory.0))?;
        }
        Ok(at)
    }

    /// A path of an object, relative to the root and without leading slash:
    /// its first name in its own layer, or where its directory was moved to.
    ///
    /// # Errors
    /// Everything of the reader.
    pub fn path(&self, node: NodeNum) -> Result<Vec<u8>, ReadError> {
        self.path_in_stack(self.resolve(node)?)
    }
}

fn is_implied(inode: &Inode) -> bool {
    matches!(inode.kind, InodeKind::Directory { implied: true, .. })
}
