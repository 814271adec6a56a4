//! Hard links of a layer to lower layers, and the order of their members.
//!
//! A hard link leads to what is at its target when it is met. So a link to a
//! lower layer comes before everything that its own layer has at the target's
//! path, which may be another such link.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::ExportError;
use super::error::unreadable;
use super::members::Attributes;
use crate::error::ReadError;
use crate::format::dentry::DentryKind;
use crate::format::inode::{Inode, InodeKind};
use crate::format::{FileType, index};
use crate::reader::Image;
use crate::stack::{LayerInode, Stack};

/// A link-below of a layer.
#[derive(Debug)]
pub struct LinkBelow {
    inode: Inode,
    /// What it stands for.
    at: LayerInode,
    /// The path that it names.
    pub target: Vec<u8>,
}

/// The link-belows of a layer.
#[derive(Debug, Default)]
pub struct LinksBelow {
    /// Links to what lower layers have, in the order of their members.
    pub first: Vec<LinkBelow>,
    /// Links to what only their own layer has.
    pub last: Vec<LinkBelow>,
    /// Directories of the layer at paths where a link finds a file below.
    replaced: HashSet<u32>,
}

/// What must come in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Step {
    /// The making of a directory.
    Directory(u32),
    /// A link.
    Link(u32),
}

/// Steps of which some must come before others.
#[derive(Debug, Default)]
struct Order {
    after: HashMap<Step, Vec<Step>>,
    /// By step: how many must come before it and have not.
    waits: HashMap<Step, usize>,
}

impl Order {
    fn add(&mut self, first: Step, then: Step) {
        self.after.entry(first).or_default().push(then);
        let count = self.waits.entry(then).or_default();
        *count = count.saturating_add(1);
    }

    /// The links in order, the lowest number first where there is a choice;
    /// those of circles are left out.
    fn steps(mut self, links: impl Iterator<Item = u32>) -> Vec<u32> {
        let links = links.map(Step::Link).filter(|link| !self.waits.contains_key(link));
        let mut ready: BTreeSet<Step> = links.collect();
        let mut steps = Vec::new();
        while let Some(step) = ready.pop_first() {
            for next in self.after.remove(&step).unwrap_or_default() {
                let count = self.waits.entry(next).or_default();
                *count = count.saturating_sub(1);
                if *count == 0 {
                    ready.insert(next);
                }
            }
            if let Step::Link(number) = step {
                steps.push(number);
            }
        }
        steps
    }
}

/// A directory of a layer and its path.
type Directory = (u32, Vec<u8>);

impl LinkBelow {
    /// Its names, each with its directory.
    pub fn paths(&self, image: &Image) -> Result<Vec<Directory>, ExportError> {
        names(image, &self.inode).map_err(|cause| self.failed(image, cause))
    }

    fn failed(&self, image: &Image, cause: ReadError) -> ExportError {
        // The path only tells where the fault is.
        ExportError::Read { path: image.path(self.inode.index).unwrap_or_default(), cause }
    }

    /// What it stands for, and its attributes.
    pub fn attributes(
        &self,
        stack: &Stack,
        paths: &[Directory],
    ) -> Result<(Inode, Attributes), ExportError> {
        let path = paths.first().map_or(&b""[..], |(_, path)| path);
        let image = stack.layers().get(index(self.at.layer)).ok_or(ReadError::NoSuchNode(0));
        let image = image.map_err(unreadable(path))?;
        let inode = image.inode(self.at.inode).map_err(unreadable(path))?;
        let attributes = Attributes::of(image, &inode).map_err(unreadable(path))?;
        Ok((inode, attributes))
    }
}

fn names(image: &Image, inode: &Inode) -> Result<Vec<Directory>, ReadError> {
    let names = match inode.links {
        1 => vec![(inode.parent, inode.dentry.unwrap_or(0))],
        _ => image.hard_links(inode)?,
    };
    let mut paths = Vec::new();
    for (directory, position) in names {
        let (_, name) = image.dentry(position)?;
        let mut path = image.path(directory)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(&name);
        paths.push((directory, path));
    }
    Ok(paths)
}

/// What a layer itself has at a path, no link followed.
fn own(image: &Image, path: &[u8]) -> Result<Option<(DentryKind, u32)>, ReadError> {
    let mut found = Some((DentryKind::File(FileType::Directory), 0));
    for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let Some((DentryKind::File(FileType::Directory), directory)) = found else {
            return Ok(None);
        };
        let inode = image.inode(directory)?;
        let dentry = image.find(&inode, name)?.map(|found| found.dentry);
        found = dentry.map(|dentry| (dentry.kind, dentry.inode));
    }
    Ok(found)
}

impl LinksBelow {
    /// Those of a layer of a stack.
    pub fn of(stack: &Stack, layer: u32) -> Result<Self, ExportError> {
        let mut links = Self::default();
        let Some(image) = stack.layers().get(index(layer)) else { return Ok(links) };
        let mut left = image.superblock().totals.kinds.last().map_or(0, |count| count.get());
        let mut found = Vec::new();
        for number in 0..u32::try_from(image.superblock().inode_count()).unwrap_or(u32::MAX) {
            if left == 0 {
                break;
            }
            let inode = image.inode(number).map_err(unreadable(b""))?;
            if matches!(inode.kind, InodeKind::LinkBelow(_)) {
                left = left.saturating_sub(1);
                let here = LayerInode { layer, inode: number };
                let failed = |cause| {
                    let path = image.path(number).unwrap_or_default();
                    ExportError::Read { path, cause }
                };
                let at = stack.link_target(here).map_err(failed)?;
                let target = image.target(&inode).map_err(failed)?;
                let link = LinkBelow { inode, at, target };
                if at.layer == layer {
                    links.last.push(link);
                } else {
                    found.push(link);
                }
            }
        }
        links.order(image, found)?;
        Ok(links)
    }

    /// Puts links in an order in which each finds its target below.
    fn order(&mut self, image: &Image, found: Vec<LinkBelow>) -> Result<(), ExportError> {
        let mut found: HashMap<u32, LinkBelow> =
            found.into_iter().map(|link| (link.inode.index, link)).collect();
        let mut order = Order::default();
        let mut into: HashMap<u32, u32> = HashMap::new();
        for (number, link) in &found {
            let own = own(image, &link.target).map_err(|cause| link.failed(image, cause))?;
            match own {
                Some((DentryKind::LinkBelow, other))
                    if other != *number && found.contains_key(&other) =>
                {
                    order.add(Step::Link(*number), Step::Link(other));
                }
                Some((DentryKind::File(FileType::Directory), directory)) => {
                    self.replaced.insert(directory);
                    into.insert(*number, directory);
                    order.add(Step::Link(*number), Step::Directory(directory));
                }
                _ => {}
            }
        }
        if !self.replaced.is_empty() {
            for (number, link) in &found {
                let own = into.get(number);
                let makes = self.makes(image, link).map_err(|cause| link.failed(image, cause))?;
                for directory in makes.into_iter().filter(|directory| own != Some(directory)) {
                    order.add(Step::Directory(directory), Step::Link(*number));
                }
            }
        }
        for number in order.steps(found.keys().copied()) {
            self.first.extend(found.remove(&number));
        }
        match found.into_values().min_by_key(|link| link.inode.index) {
            Some(link) => {
                let path = image.path(link.inode.index).unwrap_or_default();
                Err(ExportError::LinkCircle { path })
            }
            None => Ok(()),
        }
    }

    /// Replaced directories that the names of a link are in.
    fn makes(&self, image: &Image, link: &LinkBelow) -> Result<BTreeSet<u32>, ReadError> {
        let mut directories = BTreeSet::new();
        for (directory, _) in names(image, &link.inode)? {
            let mut at = directory;
            while at != 0 {
                if self.replaced.contains(&at) {
                    directories.insert(at);
                }
                // Names have paths, so these are parents that lie before.
                at = image.inode(at)?.parent;
            }
        }
        Ok(directories)
    }

    /// The directories on the way to a name, the highest first: those that may
    /// come before the link.
    pub fn directories(&self, image: &Image, last: u32) -> Result<Vec<Directory>, ExportError> {
        let mut directories = Vec::new();
        let mut at = last;
        loop {
            let path = image.path(at).map_err(unreadable(b""))?;
            let inode = image.inode(at).map_err(unreadable(&path))?;
            if self.replaced.contains(&at) {
                directories.clear();
            } else {
                directories.push((at, path));
            }
            if at == 0 {
                directories.reverse();
                return Ok(directories);
            }
            // The path above was made of parents that lie before.
            at = inode.parent;
        }
    }
}
