//! Dentries, the blocks they lie in, and the hard-link table.
//!
//! A dentry block is: `u32` number of dentries `n`; `n` records of 7 bytes as
//! byte planes; the names, one after another. A record holds the inode index,
//! the end of its name in the names, and the kind.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::inode::FileType;
use super::{FormatError, Place, Rule, planes};

/// Bytes of a dentry record.
pub const DENTRY_SIZE: usize = 7;
/// Bytes before the records of a dentry block.
pub const DENTRY_HEADER: usize = 4;

/// A dentry record as stored.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawDentry {
    /// Inode index; 0 for a whiteout.
    pub inode: U32,
    /// First byte after its name, in the names of its block.
    pub name_end: U16,
    /// [`DentryKind`] code.
    pub kind: u8,
}

const _: () = assert!(size_of::<RawDentry>() == DENTRY_SIZE);

/// A name of an inode that has several, as stored.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RawHardLink {
    /// The inode.
    pub inode: U32,
    /// The directory that the name is in.
    pub parent: U32,
    /// Position of the dentry.
    pub dentry: U64,
}

const _: () = assert!(size_of::<RawHardLink>() == 16);

/// What a dentry stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DentryKind {
    /// An object of this type: codes 1 to 7.
    File(FileType),
    /// A hard link to an object of a lower layer: code 8.
    LinkBelow,
    /// Nothing, and nothing from below: code 9.
    Whiteout,
}

impl DentryKind {
    /// The kind of a code, if it is known.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            8 => Some(Self::LinkBelow),
            9 => Some(Self::Whiteout),
            _ => FileType::from_code(code).map(Self::File),
        }
    }

    /// The stored code.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::File(file_type) => file_type.code(),
            Self::LinkBelow => 8,
            Self::Whiteout => 9,
        }
    }
}

/// A dentry without its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dentry {
    /// Inode index; 0 for a whiteout.
    pub inode: u32,
    /// What it stands for.
    pub kind: DentryKind,
}

/// A checked view of one dentry block.
#[derive(Debug, Clone, Copy)]
pub struct DentryBlock<'a> {
    count: usize,
    records: &'a [u8],
    names: &'a [u8],
    first: u64,
}

impl<'a> DentryBlock<'a> {
    /// Opens a block whose first dentry is at position `first`.
    ///
    /// # Errors
    /// [`Rule::DentryBlock`].
    pub fn parse(block: &'a [u8], first: u64) -> Result<Self, FormatError> {
        let bad = || FormatError::new(Rule::DentryBlock, Place::Dentry(first));
        let (header, rest) = block.split_first_chunk::<DENTRY_HEADER>().ok_or_else(bad)?;
        let count = super::index(u32::from_le_bytes(*header));
        let length = count.checked_mul(DENTRY_SIZE).ok_or_else(bad)?;
        let (records, names) = rest.split_at_checked(length).ok_or_else(bad)?;
        if count == 0 {
            return Err(bad());
        }
        Ok(Self { count, records, names, first })
    }

    /// Number of dentries.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Length of all names together.
    #[must_use]
    pub fn names_length(&self) -> usize {
        self.names.len()
    }

    fn place(&self, slot: usize) -> Place {
        Place::Dentry(self.first.saturating_add(super::wide(slot)))
    }

    fn name_end(&self, slot: usize) -> Option<usize> {
        let low = self.records.get(self.count.checked_mul(4)?.checked_add(slot)?)?;
        let high = self.records.get(self.count.checked_mul(5)?.checked_add(slot)?)?;
        Some(usize::from(u16::from_le_bytes([*low, *high])))
    }

    /// The name in `slot`.
    ///
    /// # Errors
    /// [`Rule::DentryBlock`] when it does not lie in the block, [`Rule::Name`]
    /// when it is not a name.
    pub fn name(&self, slot: usize) -> Result<&'a [u8], FormatError> {
        let bad = || FormatError::new(Rule::DentryBlock, self.place(slot));
        let start = match slot.checked_sub(1) {
            Some(before) => self.name_end(before).ok_or_else(bad)?,
            None => 0,
        };
        let end = self.name_end(slot).filter(|_| slot < self.count).ok_or_else(bad)?;
        let name = self.names.get(start..end).ok_or_else(bad)?;
        if crate::tree::check_name(name).is_err() {
            return Err(FormatError::new(Rule::Name, self.place(slot)));
        }
        Ok(name)
    }

    /// The dentry in `slot`.
    ///
    /// # Errors
    /// [`Rule::DentryBlock`] past the end, [`Rule::DentryKind`] for an unknown
    /// kind or a whiteout with an inode.
    pub fn dentry(&self, slot: usize) -> Result<Dentry, FormatError> {
        let bad = || FormatError::new(Rule::DentryBlock, self.place(slot));
        let record = planes::gather::<DENTRY_SIZE>(self.records, self.count, slot);
        let record = record.ok_or_else(bad)?;
        let raw = RawDentry::read_from_bytes(&record).map_err(|_| bad())?;
        let kind = DentryKind::from_code(raw.kind);
        let kind = kind.filter(|kind| (*kind == DentryKind::Whiteout) == (raw.inode.get() == 0));
        let kind = kind.ok_or(FormatError::new(Rule::DentryKind, self.place(slot)))?;
        Ok(Dentry { inode: raw.inode.get(), kind })
    }
}
