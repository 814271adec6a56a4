//! Following a path through the lower part of a stack, links included.

use super::{LayerInode, Stack};
use crate::error::ReadError;
use crate::format::FileType;
use crate::format::inode::InodeKind;

/// Symbolic links that are followed for one path, as Linux does.
const LINKS_MAX: u32 = 40;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Walked {
    /// The object; of a directory its top-most part.
    pub at: LayerInode,
    /// Its path without links, relative to the root.
    pub path: Vec<u8>,
}

/// Where a path leads, or would if everything on the way were there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Traced {
    /// The object, if there is one.
    at: Option<LayerInode>,
    /// As [`Walked::path`].
    pub path: Vec<u8>,
}

impl Stack {
    /// Follows a path in the layers up to `top`. Symbolic links on the way are
    /// followed inside the root; the last one only with `follow`.
    ///
    /// # Errors
    /// [`ReadError::LinkUnresolved`] for a hard link on the way that leads
    /// nowhere, and everything of the reader.
    pub(super) fn walk(
        &self,
        top: Option<u32>,
        path: &[u8],
        follow: bool,
    ) -> Result<Option<Walked>, ReadError> {
        let traced = self.trace(top, path, follow)?;
        Ok(traced.and_then(|Traced { at, path }| at.map(|at| Walked { at, path })))
    }

    /// As [`Stack::walk`], but goes on where nothing is; `None` for a way
    /// through something that is no directory, and one of too many links.
    ///
    /// # Errors
    /// As [`Stack::walk`].
    pub(super) fn trace(
        &self,
        top: Option<u32>,
        path: &[u8],
        follow: bool,
    ) -> Result<Option<Traced>, ReadError> {
        let Some(layer) = top else { return Ok(None) };
        let roots = self.roots(top)?;
        let mut trail: Vec<(Vec<u8>, Vec<LayerInode>)> = Vec::new();
        let mut pending = components(path);
        pending.reverse();
        let mut links = 0u32;
        let mut is_there = true;
        let mut last = roots.first().copied();
        while let Some(name) = pending.pop() {
            if name == b".." {
                trail.pop();
                last = trail.last().map_or(&roots, |(_, parts)| parts).first().copied();
                continue;
            }
            let parts = trail.last().map_or(&roots, |(_, parts)| parts);
            let Some(at) = self.object_in(parts, &name)? else {
                trail.push((name, Vec::new()));
                is_there = false;
                continue;
            };
            let inode = self.inode(at)?;
            match inode.kind {
                InodeKind::Directory { .. } => {
                    let child = self.child_parts(parts, &name, layer)?;
                    trail.push((name, child));
                }
                InodeKind::Symlink(_) if follow || !pending.is_empty() => {
                    links = links.saturating_add(1);
                    if links > LINKS_MAX {
                        return Ok(None);
                    }
                    let target = self.image(at.layer)?.target(&inode)?;
                    if target.is_empty() {
                        return Ok(None);
                    }
                    if target.starts_with(b"/") {
                        trail.clear();
                    }
                    pending.extend(components(&target).into_iter().rev());
                    last = trail.last().map_or(&roots, |(_, parts)| parts).first().copied();
                    continue;
                }
                _ if pending.is_empty() => trail.push((name, Vec::new())),
                _ => return Ok(None),
            }
            last = Some(at);
        }
        let names: Vec<_> = trail.into_iter().map(|(name, _)| name).collect();
        let at = last.filter(|_| is_there);
        Ok(Some(Traced { at, path: names.join(&b'/') }))
    }

    /// The object at a path in the layers up to `top`, where every component
    /// but the last is a directory: no link is followed.
    ///
    /// # Errors
    /// Everything of the reader.
    pub(super) fn at_path(
        &self,
        top: Option<u32>,
        path: &[u8],
    ) -> Result<Option<LayerInode>, ReadError> {
        let Some(layer) = top else { return Ok(None) };
        let mut parts = self.roots(top)?;
        let mut names = components(path).into_iter().peekable();
        while let Some(name) = names.next() {
            if names.peek().is_none() {
                return match self.object_in(&parts, &name) {
                    // A link that leads nowhere is nothing to build on.
                    Err(ReadError::LinkUnresolved { .. }) => Ok(None),
                    found => found,
                };
            }
            parts = self.child_parts(&parts, &name, layer)?;
        }
        Ok(parts.first().copied())
    }

    /// The path under which an inode of a layer shows: that of its own layer,
    /// or where a directory above it was moved to.
    pub(super) fn path_in_stack(&self, at: LayerInode) -> Result<Vec<u8>, ReadError> {
        let image = self.image(at.layer)?;
        if self.redirects.is_empty() {
            return image.path(at.inode);
        }
        let mut names = Vec::new();
        let mut inode = at.inode;
        while inode != 0 {
            if let Some(moved) = self.redirects.path_of(LayerInode { layer: at.layer, inode }) {
                names.extend(components(moved).into_iter().rev());
                break;
            }
            let record = image.inode(inode)?;
            if record.file_type() != Some(FileType::Directory) && inode != at.inode {
                return Err(ReadError::NotADirectory);
            }
            // Checks that the parent comes before it, so this ends.
            let whole = image.path(inode)?;
            let name = whole.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            names.push(name.to_vec());
            inode = record.parent;
        }
        names.reverse();
        Ok(names.join(&b'/'))
    }
}

fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/');
    parts.filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec).collect()
}
