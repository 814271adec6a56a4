//! An opened stack of layers as a view.

use std::ops::{ControlFlow, Range};

use super::{Attributes, Content, SELF, TreeView, ViewError, XattrList};
use crate::scan::{NameList, XattrFilter};
use crate::stack::{NodeNum, Stack};

/// The merged tree of a stack.
pub struct StackView<'a> {
    stack: &'a Stack,
    /// From below the root to the current directory.
    way: Vec<NodeNum>,
    /// The name that was asked for last, and what it is.
    last: Option<(Vec<u8>, NodeNum)>,
}

impl<'a> StackView<'a> {
    /// Stands in the root of a stack.
    #[must_use]
    pub fn new(stack: &'a Stack) -> Self {
        Self { stack, way: Vec::new(), last: None }
    }

    fn current(&self) -> NodeNum {
        self.way.last().copied().unwrap_or(NodeNum::ROOT)
    }

    fn find(&mut self, name: &[u8]) -> Result<NodeNum, ViewError> {
        if name == SELF {
            return Ok(self.current());
        }
        if let Some((last, node)) = &self.last
            && last == name
        {
            return Ok(*node);
        }
        let node = self.stack.lookup(self.current(), name)?.ok_or(ViewError::NoSuchName)?;
        self.last = Some((name.to_vec(), node));
        Ok(node)
    }
}

impl TreeView for StackView<'_> {
    fn names(&mut self) -> Result<NameList, ViewError> {
        let mut names = NameList::default();
        self.stack.read_dir(self.current(), 0, &mut |entry| {
            names.push(entry.name);
            ControlFlow::Continue(())
        })?;
        Ok(names)
    }

    fn attributes(&mut self, name: &[u8]) -> Result<Attributes, ViewError> {
        let node = self.find(name)?;
        let attr = self.stack.attr(node)?;
        Ok(Attributes {
            file_type: attr.file_type,
            permissions: attr.permissions,
            uid: attr.uid,
            gid: attr.gid,
            links: attr.links,
            size: attr.size,
            mtime: attr.mtime,
            device: attr.device,
            identity: (0, attr.node.0),
        })
    }

    fn link_target(&mut self, name: &[u8]) -> Result<Vec<u8>, ViewError> {
        let node = self.find(name)?;
        Ok(self.stack.read_link(node)?)
    }

    fn xattrs(&mut self, name: &[u8], filter: &XattrFilter) -> Result<XattrList, ViewError> {
        let node = self.find(name)?;
        let mut found = self.stack.xattrs(node)?;
        found.retain(|(name, _)| filter.accepts(name));
        Ok(found)
    }

    fn open(&mut self, name: &[u8]) -> Result<Box<dyn Content + '_>, ViewError> {
        let node = self.find(name)?;
        let size = self.stack.attr(node)?.size;
        Ok(Box::new(StackContent { stack: self.stack, node, size }))
    }

    fn enter(&mut self, name: &[u8]) -> Result<(), ViewError> {
        let node = self.find(name)?;
        self.way.push(node);
        self.last = None;
        Ok(())
    }

    fn leave(&mut self) -> Result<(), ViewError> {
        self.way.pop();
        self.last = None;
        Ok(())
    }

    fn is_closed(&self) -> bool {
        true
    }
}

struct StackContent<'a> {
    stack: &'a Stack,
    node: NodeNum,
    size: u64,
}

impl Content for StackContent<'_> {
    fn size(&self) -> u64 {
        self.size
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, ViewError> {
        let Some(start) = self.stack.seek_data(self.node, offset)? else { return Ok(None) };
        let end = self.stack.seek_hole(self.node, start)?.unwrap_or(self.size);
        Ok(Some(start..end))
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ViewError> {
        let mut offset = offset;
        let mut rest = buffer;
        while !rest.is_empty() {
            let length = self.stack.read_at(self.node, offset, rest)?;
            if length == 0 {
                return Err(ViewError::Changed);
            }
            offset = offset.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
            rest = rest.get_mut(length..).unwrap_or_default();
        }
        Ok(())
    }
}
