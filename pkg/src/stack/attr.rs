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
        for part in self.parts(node)?.iter() {
            let image = self.image(part.layer)?;
            let inode = image.inode(part.inode)?;
            if !is_implied(&inode) {
                return Ok((image, Some(inode)));
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
        if self.layers.len() == 1 {
            return Ok(inode.links);
        }
        if inode.file_type() == Some(FileType::Directory) {
            let parts = self.parts(node)?;
            return match *parts {
                [only] if self.whole_below(only)? => Ok(self.inode(only)?.links),
                _ => Ok(self.subdirectories(node, &parts)?.saturating_add(2)),
            };
        }
        self.visible_names(self.resolve(node)?, inode)
    }

    /// Whether a directory's own link count is right for it alone: nothing of
    /// it was moved elsewhere.
    fn whole_below(&self, _at: LayerInode) -> Result<bool, ReadError> {
        Ok(true)
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
    /// its first name in its own layer.
    ///
    /// # Errors
    /// Everything of the reader.
    pub fn path(&self, node: NodeNum) -> Result<Vec<u8>, ReadError> {
        let at = self.resolve(node)?;
        if let Some(path) = self.redirects.path_of(at) {
            return Ok(path.to_vec());
        }
        self.image(at.layer)?.path(at.inode)
    }
}

fn is_implied(inode: &Inode) -> bool {
    matches!(inode.kind, InodeKind::Directory { implied: true, .. })
}
