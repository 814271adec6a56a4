//! Listing a directory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{LayerInode, NodeNum, Stack};
use crate::error::ReadError;
use crate::format::dentry::DentryKind;
use crate::format::{FileType, index64, wide};

/// One name of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// What it names.
    pub node: NodeNum,
    /// Its type.
    pub file_type: FileType,
    /// Offset from which a listing goes on after this entry.
    pub next: u64,
}

/// The names of a merged directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    names: Vec<u8>,
    entries: Vec<(usize, NodeNum, FileType)>,
    directories: u32,
}

/// What a name stands for after the layers looked at so far.
#[derive(Debug, Clone, Copy)]
enum Decided {
    /// Nothing in the layers below this one; another part of it may still have
    /// it, perhaps under the hollow directory above.
    Hidden(u32, Option<LayerInode>),
    Hollow(LayerInode),
    Object(LayerInode, DentryKind),
}

impl Decided {
    /// The decision where `above` is what came before; `None` if that stays.
    fn with(above: Option<Self>, here: Self, layer: u32) -> Option<Self> {
        let hollow = match above {
            None => None,
            Some(Self::Hidden(hidden, hollow)) if hidden == layer => hollow,
            Some(Self::Hollow(hollow)) => Some(hollow),
            Some(_) => return None,
        };
        Some(match (hollow, here) {
            (Some(hollow), Self::Object(_, kind)) if kind == DIRECTORY => {
                Self::Object(hollow, kind)
            }
            (Some(hollow), Self::Hollow(_)) => match above {
                Some(Self::Hidden(..)) => return None,
                _ => Self::Hollow(hollow),
            },
            (hollow, Self::Hidden(layer, _)) => Self::Hidden(layer, hollow),
            (_, here) => here,
        })
    }
}

const DIRECTORY: DentryKind = DentryKind::File(FileType::Directory);

impl Listing {
    pub(super) fn bytes(&self) -> u64 {
        wide(self.names.len()).saturating_add(wide(self.entries.len()).saturating_mul(24))
    }

    fn get(&self, at: usize) -> Option<(&[u8], NodeNum, FileType)> {
        let start = match at.checked_sub(1) {
            Some(before) => self.entries.get(before)?.0,
            None => 0,
        };
        let (end, node, file_type) = *self.entries.get(at)?;
        Some((self.names.get(start..end)?, node, file_type))
    }
}

impl Stack {
    /// Calls `each` with the entries of a directory from `offset` on, sorted by
    /// name, `.` and `..` left out, until it breaks. 0 is the first offset; the
    /// others are the `next` of entries.
    ///
    /// # Errors
    /// [`ReadError::NotADirectory`], [`ReadError::LinkUnresolved`] and
    /// everything of the reader.
    pub fn read_dir(
        &self,
        directory: NodeNum,
        offset: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let parts = self.parts(directory)?;
        match *parts {
            [only] => self.read_dir_of(only, offset, each),
            _ => {
                let listing = self.listing(directory, &parts)?;
                let mut at = index64(offset);
                while let Some((name, node, file_type)) = listing.get(at) {
                    at = at.saturating_add(1);
                    if each(DirEntry { name, node, file_type, next: wide(at) }).is_break() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// A directory of one layer: offsets count its dentries, whiteouts too.
    fn read_dir_of(
        &self,
        at: LayerInode,
        offset: u64,
        each: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let image = self.image(at.layer)?;
        let inode = image.inode(at.inode)?;
        let (first, _) = image.dentry_range(&inode)?;
        image.list(&inode, offset, &mut |name, found| {
            let next = found.position.saturating_sub(first).saturating_add(1);
            let child = LayerInode { layer: at.layer, inode: found.dentry.inode };
            let Some((target, file_type)) = self.entry(child, found.dentry.kind)? else {
                return Ok(ControlFlow::Continue(()));
            };
            Ok(each(DirEntry { name, node: self.number(target), file_type, next }))
        })
    }

    /// What a dentry shows as: nothing for a whiteout or what was moved away.
    fn entry(
        &self,
        at: LayerInode,
        kind: DentryKind,
    ) -> Result<Option<(LayerInode, FileType)>, ReadError> {
        match kind {
            DentryKind::Whiteout => Ok(None),
            DentryKind::File(_) if self.redirects.is_moved(at) => Ok(None),
            DentryKind::File(FileType::Directory) if self.is_hollow(at)? => Ok(None),
            DentryKind::File(file_type) => Ok(Some((at, file_type))),
            DentryKind::LinkBelow => match self.link_target(at) {
                Ok(target) => {
                    let file_type = self.inode(target)?.file_type();
                    Ok(file_type.map(|file_type| (target, file_type)))
                }
                // The name is there; using it fails, the directory does not.
                Err(ReadError::LinkUnresolved { .. }) => Ok(Some((at, FileType::Regular))),
                Err(error) => Err(error),
            },
        }
    }

    fn listing(&self, node: NodeNum, parts: &[LayerInode]) -> Result<Arc<Listing>, ReadError> {
        if let Some(listing) = self.merge.listing(node) {
            return Ok(listing);
        }
        // The first layer that has a name decides what it is, but a hollow
        // directory only counts over another directory.
        let mut names: BTreeMap<Vec<u8>, Decided> = BTreeMap::new();
        for part in parts {
            let image = self.image(part.layer)?;
            let inode = image.inode(part.inode)?;
            image.list(&inode, 0, &mut |name, found| {
                let at = LayerInode { layer: part.layer, inode: found.dentry.inode };
                let kind = found.dentry.kind;
                if kind != DentryKind::Whiteout && self.redirects.is_moved(at) {
                    return Ok(ControlFlow::Continue(()));
                }
                let here = match kind {
                    DentryKind::Whiteout => Decided::Hidden(part.layer, None),
                    DIRECTORY if self.is_hollow(at)? => Decided::Hollow(at),
                    _ => Decided::Object(at, kind),
                };
                let above = names.get(name).copied();
                let Some(decided) = Decided::with(above, here, part.layer) else {
                    return Ok(ControlFlow::Continue(()));
                };
                names.insert(name.to_vec(), decided);
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let mut listing = Listing::default();
        for (name, decided) in names {
            let (target, file_type) = match decided {
                Decided::Object(at, DentryKind::File(file_type)) => (at, file_type),
                Decided::Object(at, kind) => match self.entry(at, kind)? {
                    Some(entry) => entry,
                    None => continue,
                },
                Decided::Hidden(..) | Decided::Hollow(_) => continue,
            };
            listing.names.extend_from_slice(&name);
            let end = listing.names.len();
            listing.entries.push((end, self.number(target), file_type));
            if file_type == FileType::Directory {
                listing.directories = listing.directories.saturating_add(1);
            }
        }
        let listing = Arc::new(listing);
        self.merge.remember_listing(node, &listing);
        Ok(listing)
    }

    /// Sub-directories of a directory that show.
    pub(super) fn subdirectories(
        &self,
        node: NodeNum,
        parts: &[LayerInode],
    ) -> Result<u32, ReadError> {
        Ok(self.listing(node, parts)?.directories)
    }
}
