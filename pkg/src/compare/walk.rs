//! Two views, side by side.

use std::cmp::Ordering;

use super::content::ContentComparer;
use super::links::{LinkGroups, Met};
use super::{
    Attributes, CompareError, CompareOptions, Difference, SELF, Side, TreeView, ViewError, What,
};
use crate::format::FileType;
use crate::scan::NameList;

/// Lists the differences between two trees, in order of paths (component by
/// component), those of link counts last.
///
/// # Errors
/// [`CompareError`] if either tree cannot be read; nothing is skipped.
pub fn compare(
    a: &mut dyn TreeView,
    b: &mut dyn TreeView,
    options: &CompareOptions,
) -> Result<Vec<Difference>, CompareError> {
    let mut walk = Walk {
        a,
        b,
        options,
        path: Vec::new(),
        links: LinkGroups::default(),
        pruned: false,
        content: ContentComparer::default(),
        found: Vec::new(),
    };
    walk.everything()?;
    let Walk { a, b, links, pruned, mut found, .. } = walk;
    found.extend(links.counts(a.is_closed() && !pruned, b.is_closed() && !pruned));
    found.truncate(options.max_differences);
    Ok(found)
}

struct Walk<'a> {
    a: &'a mut dyn TreeView,
    b: &'a mut dyn TreeView,
    options: &'a CompareOptions,
    /// Of the current directory.
    path: Vec<u8>,
    links: LinkGroups,
    /// Some names were not visited, so not all links were counted.
    pruned: bool,
    content: ContentComparer,
    found: Vec<Difference>,
}

/// The names of a directory that is being walked.
struct Frame {
    a: NameList,
    b: NameList,
    next_a: usize,
    next_b: usize,
    /// Length of the path to its parent.
    parent_length: usize,
}

impl Walk<'_> {
    fn everything(&mut self) -> Result<(), CompareError> {
        let attributes = self.attributes(SELF)?;
        self.object(SELF, &attributes.0, &attributes.1)?;
        let mut frames = vec![self.frame(0)?];
        while let Some(frame) = frames.last_mut() {
            if self.found.len() >= self.options.max_differences {
                self.pruned = true;
                return Ok(());
            }
            let (name_a, name_b) = (frame.a.get(frame.next_a), frame.b.get(frame.next_b));
            let order = match (name_a, name_b) {
                (Some(a), Some(b)) => a.cmp(b),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => {
                    let parent_length = frame.parent_length;
                    frames.pop();
                    if !frames.is_empty() {
                        self.up(parent_length)?;
                    }
                    continue;
                }
            };
            if order.is_le() {
                frame.next_a = frame.next_a.saturating_add(1);
            }
            if order.is_ge() {
                frame.next_b = frame.next_b.saturating_add(1);
            }
            match order {
                Ordering::Less => self.only(Side::A, name_a.unwrap_or_default())?,
                Ordering::Greater => self.only(Side::B, name_b.unwrap_or_default())?,
                Ordering::Equal => {
                    let name = name_a.unwrap_or_default();
                    if self.both(name)? {
                        let parent_length = self.down(name)?;
                        let frame = self.frame(parent_length)?;
                        frames.push(frame);
                    }
                }
            }
        }
        Ok(())
    }

    fn frame(&mut self, parent_length: usize) -> Result<Frame, CompareError> {
        let a = self.a.names().map_err(|error| self.error(Side::A, SELF, error))?;
        let b = self.b.names().map_err(|error| self.error(Side::B, SELF, error))?;
        Ok(Frame { a, b, next_a: 0, next_b: 0, parent_length })
    }

    fn down(&mut self, name: &[u8]) -> Result<usize, CompareError> {
        self.a.enter(name).map_err(|error| self.error(Side::A, name, error))?;
        self.b.enter(name).map_err(|error| self.error(Side::B, name, error))?;
        let parent_length = self.path.len();
        append(&mut self.path, name);
        Ok(parent_length)
    }

    fn up(&mut self, parent_length: usize) -> Result<(), CompareError> {
        self.path.truncate(parent_length);
        self.a.leave().map_err(|error| self.error(Side::A, SELF, error))?;
        self.b.leave().map_err(|error| self.error(Side::B, SELF, error))
    }

    /// A name that only one tree has.
    fn only(&mut self, side: Side, name: &[u8]) -> Result<(), CompareError> {
        let view = match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        };
        let attributes = view.attributes(name).map_err(|error| self.error(side, name, error))?;
        if self.excluded(name, &attributes) {
            return Ok(());
        }
        let file_type = attributes.file_type;
        if file_type == FileType::Directory {
            self.pruned = true;
        } else if side == Side::A {
            self.links.only_a(&attributes);
        } else {
            self.links.only_b(&attributes);
        }
        self.report(
            name,
            match side {
                Side::A => What::Missing { a: file_type },
                Side::B => What::Extra { b: file_type },
            },
        );
        Ok(())
    }

    /// A name that both have; true if both are directories.
    fn both(&mut self, name: &[u8]) -> Result<bool, CompareError> {
        let (a, b) = self.attributes(name)?;
        if a.file_type != b.file_type {
            match (self.excluded(name, &a), self.excluded(name, &b)) {
                (true, true) => return Ok(false),
                (true, false) => self.report(name, What::Extra { b: b.file_type }),
                (false, true) => self.report(name, What::Missing { a: a.file_type }),
                (false, false) => {
                    self.report(name, What::FileType { a: a.file_type, b: b.file_type });
                }
            }
            self.pruned = true;
            return Ok(false);
        }
        if self.excluded(name, &a) {
            return Ok(false);
        }
        self.object(name, &a, &b)?;
        Ok(a.file_type == FileType::Directory)
    }

    /// Two objects of one type.
    fn object(&mut self, name: &[u8], a: &Attributes, b: &Attributes) -> Result<(), CompareError> {
        if a.file_type != FileType::Directory {
            let (met, different) = self.links.both(|| path_of(&self.path, name), a, b);
            if let Some(different) = different {
                self.report(name, different);
            }
            if met == Met::Before {
                return Ok(());
            }
        }
        self.plain_attributes(name, a, b);
        self.xattrs(name)?;
        match a.file_type {
            FileType::Symlink => {
                let target_a = self.a.link_target(name);
                let a = target_a.map_err(|error| self.error(Side::A, name, error))?;
                let target_b = self.b.link_target(name);
                let b = target_b.map_err(|error| self.error(Side::B, name, error))?;
                if a != b {
                    self.report(name, What::LinkTarget { a, b });
                }
            }
            FileType::Regular if a.size == b.size && a.size > 0 => self.content(name)?,
            _ => {}
        }
        Ok(())
    }

    fn plain_attributes(&mut self, name: &[u8], a: &Attributes, b: &Attributes) {
        if a.permissions != b.permissions {
            self.report(name, What::Permissions { a: a.permissions, b: b.permissions });
        }
        if self.options.owner && a.uid != b.uid {
            self.report(name, What::Uid { a: a.uid, b: b.uid });
        }
        if self.options.owner && a.gid != b.gid {
            self.report(name, What::Gid { a: a.gid, b: b.gid });
        }
        if self.options.mtime && a.mtime != b.mtime {
            self.report(name, What::Mtime { a: a.mtime, b: b.mtime });
        }
        let is_device = matches!(a.file_type, FileType::CharDevice | FileType::BlockDevice);
        if is_device && a.device != b.device {
            self.report(name, What::Device { a: a.device, b: b.device });
        }
        if a.file_type == FileType::Regular && a.size != b.size {
            self.report(name, What::Size { a: a.size, b: b.size });
        }
    }

    fn xattrs(&mut self, name: &[u8]) -> Result<(), CompareError> {
        let filter = &self.options.xattrs;
        if !filter.include {
            return Ok(());
        }
        let set_a = self.a.xattrs(name, filter);
        let mut a = set_a.map_err(|error| self.error(Side::A, name, error))?.into_iter().peekable();
        let set_b = self.b.xattrs(name, filter);
        let mut b = set_b.map_err(|error| self.error(Side::B, name, error))?.into_iter().peekable();
        loop {
            let order = match (a.peek(), b.peek()) {
                (Some(a), Some(b)) => a.0.cmp(&b.0),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return Ok(()),
            };
            let left = if order.is_le() { a.next() } else { None };
            let right = if order.is_ge() { b.next() } else { None };
            match (left, right) {
                (Some((key, a)), Some((_, b))) if a != b => {
                    self.report(name, What::XattrValue { name: key, a, b });
                }
                (Some((key, a)), None) => {
                    self.report(name, What::XattrMissing { name: key, a });
                }
                (None, Some((key, b))) => {
                    self.report(name, What::XattrExtra { name: key, b });
                }
                _ => {}
            }
        }
    }

    fn content(&mut self, name: &[u8]) -> Result<(), CompareError> {
        let holes = self.options.holes;
        let opened = self.a.open(name).map_err(|error| (Side::A, error)).and_then(|a| {
            let b = self.b.open(name).map_err(|error| (Side::B, error))?;
            self.content.compare(&*a, &*b, holes)
        });
        let found = opened.map_err(|(side, error)| self.error(side, name, error))?;
        for what in found {
            self.report(name, what);
        }
        Ok(())
    }

    fn attributes(&mut self, name: &[u8]) -> Result<(Attributes, Attributes), CompareError> {
        let a = self.a.attributes(name).map_err(|error| self.error(Side::A, name, error))?;
        let b = self.b.attributes(name).map_err(|error| self.error(Side::B, name, error))?;
        Ok((a, b))
    }

    fn excluded(&mut self, name: &[u8], attributes: &Attributes) -> bool {
        let exclude = &self.options.exclude;
        let is_directory = attributes.file_type == FileType::Directory;
        let excluded = !exclude.is_empty() && exclude.excludes(&self.path_of(name), is_directory);
        self.pruned |= excluded;
        excluded
    }

    fn path_of(&self, name: &[u8]) -> Vec<u8> {
        path_of(&self.path, name)
    }

    fn report(&mut self, name: &[u8], what: What) {
        self.found.push(Difference { path: self.path_of(name), what });
    }

    fn error(&self, side: Side, name: &[u8], source: ViewError) -> CompareError {
        CompareError { side, path: self.path_of(name), source }
    }
}

fn path_of(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    append(&mut path, name);
    path
}

fn append(path: &mut Vec<u8>, name: &[u8]) {
    if name == SELF {
        return;
    }
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
}
