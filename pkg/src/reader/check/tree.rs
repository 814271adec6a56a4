//! Dentries: blocks, index, order, back references, link counts.

use std::ops::ControlFlow;

use super::super::FoundDentry;
use super::Checker;
use super::inodes::{Inodes, LINK_BELOW};
use crate::error::ReadError;
use crate::format::dentry::DentryKind;
use crate::format::inode::{InodeKind, flags};
use crate::format::section::Section;
use crate::format::{FileType, FormatError, Place, Rule, index, wide};

/// A name of an inode that has several, as the hard-link table sorts them:
/// inode, dentry, parent.
type Link = (u32, u64, u32);

/// The walk through all names in tree order.
struct Walk<'a> {
    inodes: &'a Inodes,
    /// Directories to come, the next one last.
    pending: Vec<u32>,
    /// Position of the next dentry.
    position: u64,
    /// Index of the next inode that is named for the first time.
    next: u32,
    /// Names of each inode; for directories 2 + sub-directories.
    names: Vec<u32>,
    links: Vec<Link>,
    whiteouts: u64,
    /// Of each directory, whether it holds anything but whiteouts and
    /// directories.
    solid: Vec<bool>,
}

impl Checker<'_> {
    /// Rules 19 to 21 for each dentry block by itself.
    pub(super) fn dentry_blocks(&mut self) {
        let span = self.image.superblock.sections.span(Section::Dentries);
        let mut first = 0u64;
        for block in 0..span.blocks {
            if self.findings.is_full() {
                return;
            }
            let recorded = self.image.dentry_block_first(block);
            let Some(recorded) = self.read(recorded) else { return };
            if recorded != first {
                return self.spoil(Rule::DentryIndex, Place::Dentry(recorded));
            }
            let looked = self.image.with_dentry_block(block, first, |view| {
                let mut length = 0usize;
                let mut broken: Option<FormatError> = None;
                for slot in 0..view.count() {
                    match view.name(slot).and_then(|name| view.dentry(slot).map(|_| name)) {
                        Ok(name) => length = length.saturating_add(name.len()),
                        Err(cause) => {
                            broken.get_or_insert(cause);
                        }
                    }
                }
                if broken.is_none() && length != view.names_length() {
                    broken = Some(FormatError::new(Rule::DentryBlock, Place::Dentry(first)));
                }
                let after = first.saturating_add(wide(view.count()));
                Ok((after, broken))
            });
            let Some((after, broken)) = self.read(looked) else { return };
            if let Some(cause) = broken {
                self.spoil(cause.rule, cause.place);
            }
            first = after;
        }
    }

    /// Rules 17, 22, 23, 28, 29, 31 and 32, and link counts (rule 16). Returns the number of whiteouts.
    pub(super) fn tree(&mut self, inodes: &Inodes) -> u64 {
        let count = inodes.codes.len();
        let mut walk = Walk {
            inodes,
            pending: vec![0],
            position: 0,
            next: 1,
            names: vec![0; count],
            links: Vec::new(),
            whiteouts: 0,
            solid: vec![false; count],
        };
        let total = self.image.superblock.sections.span(Section::Dentries).count;
        self.report.dentries = total;
        while let Some(directory) = walk.pending.pop() {
            if self.findings.is_full() {
                return walk.whiteouts;
            }
            let mark = walk.pending.len();
            let walked = self.directory(directory, &mut walk);
            self.read(walked);
            if let Some(added) = walk.pending.get_mut(mark..) {
                added.reverse();
            }
        }
        if self.incomplete {
            return walk.whiteouts;
        }
        if walk.position != total {
            self.findings.broken(Rule::Tree, Place::Dentry(walk.position));
        }
        if index(walk.next) != count {
            self.findings.broken(Rule::Tree, Place::Inode(walk.next));
        }
        self.hollow(&mut walk);
        if self.link_counts(&walk) {
            self.hard_links(&mut walk);
        }
        self.report.whiteouts = walk.whiteouts;
        walk.whiteouts
    }

    fn directory(&mut self, number: u32, walk: &mut Walk<'_>) -> Result<(), ReadError> {
        let image = self.image;
        let inode = image.inode(number)?;
        let InodeKind::Directory { first, count, .. } = inode.kind else { return Ok(()) };
        walk.add_name(number, 2);
        let expected = if count == 0 { 0 } else { walk.position };
        if first != expected {
            // Its names are those of another directory, or some were skipped.
            let skipped = self.incomplete && first > expected;
            if !skipped {
                self.spoil(Rule::Tree, Place::Inode(number));
                return Ok(());
            }
            walk.position = first;
        }
        let start = walk.position;
        let mut before: Option<Vec<u8>> = None;
        let mut unreadable = None;
        let listed = image.list(&inode, 0, &mut |name, found| {
            if before.as_deref().is_some_and(|before| before >= name) {
                self.findings.broken(Rule::NameOrder, Place::Dentry(found.position));
            }
            before = Some(name.to_vec());
            if let Err(error) = self.dentry(number, &found, walk) {
                self.incomplete = true;
                unreadable = Some(error);
            }
            let stop = self.findings.is_full();
            Ok(if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        walk.position = start.saturating_add(u64::from(count));
        if let Some(error) = unreadable {
            self.findings.error(error);
        }
        listed
    }

    fn dentry(
        &mut self,
        directory: u32,
        found: &FoundDentry,
        walk: &mut Walk<'_>,
    ) -> Result<(), ReadError> {
        let place = Place::Dentry(found.position);
        let code = match found.dentry.kind {
            DentryKind::Whiteout => {
                walk.whiteouts = walk.whiteouts.saturating_add(1);
                return Ok(());
            }
            DentryKind::LinkBelow => LINK_BELOW,
            DentryKind::File(file_type) => file_type.code(),
        };
        let number = found.dentry.inode;
        let recorded = walk.inodes.codes.get(index(number)).copied();
        let recorded = recorded.ok_or_else(|| self.image.corrupt(Rule::InodeIndex, place))?;
        if recorded == 0 {
            walk.next = walk.next.max(number.saturating_add(1));
            return Ok(());
        }
        if recorded != code {
            self.spoil(Rule::DentryKind, place);
        }
        let is_directory = recorded == FileType::Directory.code();
        if number < walk.next {
            if is_directory {
                return Err(self.image.corrupt(Rule::Tree, place));
            }
        } else {
            if number > walk.next && !self.incomplete {
                self.spoil(Rule::Tree, place);
            }
            walk.next = number.saturating_add(1);
            let inode = self.image.inode(number)?;
            if inode.parent != directory || inode.dentry != Some(found.position) {
                self.spoil(Rule::BackReference, Place::Inode(number));
            }
        }
        if is_directory {
            walk.pending.push(number);
            walk.add_name(directory, 1);
        } else {
            walk.add_name(number, 1);
            if let Some(solid) = walk.solid.get_mut(index(directory)) {
                *solid = true;
            }
            if self.image.inode(number)?.links > 1 {
                walk.links.push((number, found.position, directory));
            }
        }
        Ok(())
    }

    /// Rule 29: a directory is flagged as hollow when it is, and only then.
    fn hollow(&mut self, walk: &mut Walk<'_>) {
        // What is in a directory has higher numbers than the directory.
        let count = u32::try_from(walk.inodes.flags.len()).unwrap_or(u32::MAX);
        for number in (1..count).rev() {
            let inode_flags = walk.inodes.flags.get(index(number)).copied().unwrap_or(0);
            if walk.inodes.codes.get(index(number)) != Some(&FileType::Directory.code()) {
                continue;
            }
            let is_solid = walk.solid.get(index(number)).copied().unwrap_or(true);
            let is_hollow = inode_flags & flags::IMPLIED != 0 && !is_solid;
            if is_hollow != (inode_flags & flags::HOLLOW != 0) {
                self.findings.broken(Rule::Implied, Place::Inode(number));
            }
            if !is_hollow {
                let inode = self.image.inode(number);
                let Some(inode) = self.read(inode) else { return };
                if let Some(solid) = walk.solid.get_mut(index(inode.parent)) {
                    *solid = true;
                }
            }
        }
        if walk.inodes.flags.first().is_some_and(|first| first & flags::HOLLOW != 0) {
            self.findings.broken(Rule::Implied, Place::Inode(0));
        }
    }

    /// Rule 16 for link counts: whether all are right.
    fn link_counts(&mut self, walk: &Walk<'_>) -> bool {
        let mut are_right = true;
        for (number, names) in (0u32..).zip(&walk.names) {
            let inode = self.image.inode(number);
            let Some(inode) = self.read(inode) else { return false };
            if inode.links != *names {
                are_right = false;
                self.findings.broken(Rule::Inode, Place::Inode(number));
                if self.findings.is_full() {
                    break;
                }
            }
        }
        are_right
    }

    fn hard_links(&mut self, walk: &mut Walk<'_>) {
        walk.links.sort_unstable();
        let count = self.image.superblock.sections.span(Section::HardLinks).count;
        let expected = wide(walk.links.len());
        for (record, link) in (0..count).zip(&walk.links) {
            let (inode, parent, dentry) = match self.read(self.image.hard_link(record)) {
                Some(found) => found,
                None => return,
            };
            if (inode, dentry, parent) != *link {
                return self.findings.broken(Rule::HardLinks, Place::HardLink(record));
            }
        }
        if count != expected {
            self.findings.broken(Rule::HardLinks, Place::HardLink(count.min(expected)));
        }
    }
}

impl Walk<'_> {
    fn add_name(&mut self, inode: u32, count: u32) {
        if let Some(names) = self.names.get_mut(index(inode)) {
            *names = names.saturating_add(count);
        }
    }
}
