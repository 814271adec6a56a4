//! One layer as an archive.

use std::collections::HashSet;
use std::io::Write;

use super::below::{LinkBelow, LinksBelow};
use super::error::unreadable;
use super::members::{Attributes, Members, check_name};
use super::{ExportError, ExportOptions, Exported, Progress};
use crate::error::ReadError;
use crate::format::dentry::DentryKind;
use crate::format::inode::{Inode, InodeKind};
use crate::format::{Place, Rule, index};
use crate::reader::Image;
use crate::stack::Stack;
use crate::walk::{LayerName, LayerNames, Walk};

/// Writes layer `number` of a stack, the lowest being 0, as an OCI layer into
/// `sink`, which should be buffered, and gives it back flushed. Content is verified as it is read; what
/// is in the layers below is looked at only for hard links into them.
///
/// # Errors
/// [`ExportError`], with [`ReadError::NoSuchNode`] for a layer that is not
/// there; what was written is then no archive.
pub fn write_layer<W: Write>(
    stack: &Stack,
    number: u32,
    sink: W,
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<(W, Exported), ExportError> {
    let image = stack.layers().get(index(number)).ok_or(ReadError::NoSuchNode(0));
    let image = image.map_err(unreadable(b""))?;
    let links = LinksBelow::of(stack, number)?;
    let members = Members::new(sink, options, progress);
    let mut layer = LayerExport { image, members, early: HashSet::new() };
    for link in &links.first {
        layer.link_below(stack, &links, link)?;
    }
    layer.names()?;
    for link in &links.last {
        layer.link_here(stack, link)?;
    }
    layer.members.finish()
}

struct LayerExport<'a, W> {
    image: &'a Image,
    members: Members<'a, W>,
    /// Directories that have their member already.
    early: HashSet<u32>,
}

impl<W: Write> LayerExport<'_, W> {
    fn names(&mut self) -> Result<(), ExportError> {
        let names = LayerNames(self.image);
        let mut walk = Walk::new(&names);
        loop {
            let visit = walk.next_name();
            let path = walk.path();
            let Some(visit) = visit.map_err(unreadable(path))? else { return Ok(()) };
            check_name(path)?;
            self.name(path, &visit.name)?;
        }
    }

    fn name(&mut self, path: &[u8], name: &LayerName) -> Result<(), ExportError> {
        match name.kind {
            DentryKind::Whiteout => {
                let slash = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                let (directory, name) = path.split_at_checked(slash).unwrap_or_default();
                let name = name.strip_prefix(b"/").unwrap_or(name);
                self.members.mark(directory, &[b".wh.", name].concat())
            }
            // Before or after all else.
            DentryKind::LinkBelow => Ok(()),
            DentryKind::File(file_type) => {
                let inode = self.image.inode(name.inode).map_err(unreadable(path))?;
                if inode.file_type() != Some(file_type) {
                    let place = Place::Inode(inode.index);
                    return Err(unreadable(path)(self.image.corrupt(Rule::DentryKind, place)));
                }
                match inode.kind {
                    InodeKind::Directory { opaque, .. } => {
                        self.directory(path, &inode)?;
                        if opaque { self.members.mark(path, b".wh..wh..opq") } else { Ok(()) }
                    }
                    _ => self.object(path, name, &inode),
                }
            }
        }
    }

    fn directory(&mut self, path: &[u8], inode: &Inode) -> Result<(), ExportError> {
        let is_implied = matches!(inode.kind, InodeKind::Directory { implied: true, .. });
        if is_implied || self.early.contains(&inode.index) {
            return Ok(());
        }
        let attributes = Attributes::of(self.image, inode).map_err(unreadable(path))?;
        self.members.directory(path, &attributes)
    }

    fn object(&mut self, path: &[u8], name: &LayerName, inode: &Inode) -> Result<(), ExportError> {
        let attributes = Attributes::of(self.image, inode).map_err(unreadable(path))?;
        if inode.dentry == name.position {
            return self.members.object(path, &attributes, self.image, inode);
        }
        let first = self.image.path(inode.index).map_err(unreadable(path))?;
        self.members.hard_link(path, &attributes, inode, &first)
    }

    /// Writes all names of a hard link to a lower layer: the first leads
    /// there, the others to the first.
    fn link_below(
        &mut self,
        stack: &Stack,
        links: &LinksBelow,
        link: &LinkBelow,
    ) -> Result<(), ExportError> {
        let paths = link.paths(self.image)?;
        let (target, attributes) = link.attributes(stack, &paths)?;
        let mut leads_to = &link.target;
        for (directory, path) in &paths {
            check_name(path)?;
            for (index, path) in links.directories(self.image, *directory)? {
                let inode = self.image.inode(index).map_err(unreadable(&path))?;
                self.directory(&path, &inode)?;
                self.early.insert(index);
            }
            self.members.hard_link(path, &attributes, &target, leads_to)?;
            leads_to = path;
        }
        Ok(())
    }

    /// Writes all names of a hard link that its source has before its target.
    fn link_here(&mut self, stack: &Stack, link: &LinkBelow) -> Result<(), ExportError> {
        let paths = link.paths(self.image)?;
        let (target, attributes) = link.attributes(stack, &paths)?;
        for (_, path) in &paths {
            self.members.hard_link(path, &attributes, &target, &link.target)?;
        }
        Ok(())
    }
}
