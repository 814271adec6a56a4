//! Every inode, in order.

use zerocopy::{FromBytes, IntoBytes};

use super::Checker;
use super::files::FileSums;
use super::heap::HeapUse;
use super::shape::Shapes;
use crate::error::ReadError;
use crate::format::inode::{INODE_SIZE, Inode, InodeKind, RawInode};
use crate::format::section::Section;
use crate::format::{FileType, Place, Rule};

/// Dentry code of a link-below.
pub(super) const LINK_BELOW: u8 = 8;

/// What is remembered of all inodes.
#[derive(Debug, Default)]
pub(super) struct Inodes {
    /// Dentry code of each; 0 when it is broken.
    pub codes: Vec<u8>,
    /// Opaque directories.
    pub opaque: u64,
    /// [`flags`](crate::format::inode::flags) of each.
    pub flags: Vec<u16>,
    /// Bytes of files.
    pub files: FileSums,
}

impl Checker<'_> {
    /// Rules 16, 18, 24 to 27, 29 and 30 for each inode by itself.
    pub(super) fn inodes(&mut self, shapes: &mut Shapes<'_>, heap: &mut HeapUse) -> Inodes {
        let sections = self.image.superblock.sections;
        let count = u32::try_from(sections.span(Section::Inodes).count).unwrap_or(u32::MAX);
        let sets = sections.span(Section::XattrSets).count;
        let mut inodes = Inodes::default();
        let mut implied = 0u64;
        for number in 0..count {
            if self.findings.is_full() {
                return inodes;
            }
            let inode = self.image.checked_inode(number);
            let Some(inode) = self.read(inode) else {
                inodes.codes.push(0);
                inodes.flags.push(0);
                continue;
            };
            let place = Place::Inode(number);
            let code = inode.file_type().map_or(LINK_BELOW, FileType::code);
            inodes.codes.push(code);
            inodes.flags.push(inode.to_raw().flags.get());
            let slot = usize::from(code).saturating_sub(1);
            if let Some(kind) = self.report.kinds.get_mut(slot) {
                *kind = kind.saturating_add(1);
            }
            if inode.xattrs.is_some_and(|set| u64::from(set) >= sets) {
                self.spoil(Rule::Xattr, place);
            }
            match inode.kind {
                InodeKind::Regular(data) => self.file(&inode, data, shapes, &mut inodes.files),
                InodeKind::Directory { opaque, implied: is_implied, .. } => {
                    inodes.opaque = inodes.opaque.saturating_add(u64::from(opaque));
                    if is_implied {
                        self.implied(implied, number);
                        implied = implied.saturating_add(1);
                    }
                }
                InodeKind::Symlink(position) | InodeKind::LinkBelow(position) => {
                    self.target(&inode, position, heap);
                }
                _ => {}
            }
        }
        if implied != sections.span(Section::Implied).count && !self.incomplete {
            self.findings.broken(Rule::Implied, Place::Implied(implied));
        }
        self.report.extents = sections.span(Section::Extents).count;
        inodes
    }

    /// Rule 29: the table's next record is this directory.
    fn implied(&mut self, record: u64, inode: u32) {
        if record >= self.image.superblock.sections.span(Section::Implied).count {
            return;
        }
        let found = self.image.implied(record);
        if self.read(found).is_some_and(|found| found != inode) {
            self.findings.broken(Rule::Implied, Place::Implied(record));
        }
    }

    fn target(&mut self, inode: &Inode, position: u64, heap: &mut HeapUse) {
        let target = self.image.target(inode);
        let Some(target) = self.read(target) else { return };
        heap.add(position, inode.size);
        if target.contains(&0) {
            self.spoil(Rule::Inode, Place::Inode(inode.index));
        }
    }
}

impl super::super::Image {
    /// An inode whose record is stored as its meaning would be (rule 16).
    fn checked_inode(&self, number: u32) -> Result<Inode, ReadError> {
        let place = Place::Inode(number);
        let section = Section::Inodes;
        let record = self.record::<INODE_SIZE>(section, number.into(), Rule::InodeIndex, place)?;
        let raw =
            RawInode::ref_from_bytes(&record).map_err(|_| self.corrupt(Rule::Inode, place))?;
        let inode = Inode::parse(raw, number).map_err(|cause| self.broken(cause))?;
        if inode.to_raw().as_bytes() == record {
            Ok(inode)
        } else {
            Err(self.corrupt(Rule::Inode, place))
        }
    }
}
