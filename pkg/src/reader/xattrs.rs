//! Extended attributes of an inode.

use zerocopy::FromBytes;

use super::Image;
use crate::error::ReadError;
use crate::format::inode::Inode;
use crate::format::section::Section;
use crate::format::xattr::{RawXattrEntry, RawXattrName, RawXattrSet};
use crate::format::{Place, Rule};

/// Most attributes of one inode: as many as Linux can list.
const ATTRIBUTES_MAX: u32 = 16_384;

/// Name and value.
pub type Xattr = (Vec<u8>, Vec<u8>);

impl Image {
    /// Name `number` of the table of distinct names.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] (rules 26, 27), [`ReadError::Io`].
    pub fn xattr_name(&self, number: u32) -> Result<Vec<u8>, ReadError> {
        let place = Place::Xattr(u64::from(number));
        let bad = || self.corrupt(Rule::Xattr, place);
        let section = Section::XattrNames;
        let record = self.record::<12>(section, u64::from(number), Rule::Xattr, place)?;
        let raw = RawXattrName::ref_from_bytes(&record).map_err(|_| bad())?;
        let length = raw.length.get();
        if !(1..=255).contains(&length) {
            return Err(bad());
        }
        let name = self.heap(raw.position.get(), u64::from(length))?;
        if name.contains(&0) { Err(bad()) } else { Ok(name) }
    }

    pub(crate) fn xattr_entry(&self, number: u64) -> Result<RawXattrEntry, ReadError> {
        let place = Place::Xattr(number);
        let record = self.record::<16>(Section::XattrEntries, number, Rule::Xattr, place)?;
        RawXattrEntry::read_from_bytes(&record).map_err(|_| self.corrupt(Rule::Xattr, place))
    }

    pub(crate) fn xattr_set(&self, set: u32) -> Result<(u64, u32), ReadError> {
        let place = Place::Xattr(u64::from(set));
        let section = Section::XattrSets;
        let record = self.record::<12>(section, u64::from(set), Rule::Xattr, place)?;
        let raw = RawXattrSet::ref_from_bytes(&record);
        let raw = raw.map_err(|_| self.corrupt(Rule::Xattr, place))?;
        if raw.count.get() > ATTRIBUTES_MAX {
            let what = "extended attributes of a file";
            return Err(ReadError::Limit { what, limit: u64::from(ATTRIBUTES_MAX) });
        }
        Ok((raw.first.get(), raw.count.get()))
    }

    fn xattr_value(&self, entry: &RawXattrEntry) -> Result<Vec<u8>, ReadError> {
        self.heap(entry.value.get(), u64::from(entry.length.get()))
    }

    /// All attributes of an inode, sorted by name.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] (rules 26, 27), [`ReadError::Limit`], [`ReadError::Io`].
    pub fn xattrs(&self, inode: &Inode) -> Result<Vec<Xattr>, ReadError> {
        let Some(set) = inode.xattrs else { return Ok(Vec::new()) };
        let (first, count) = self.xattr_set(set)?;
        let mut attributes = Vec::new();
        for number in 0..count {
            let entry = self.xattr_entry(first.saturating_add(u64::from(number)))?;
            let name = self.xattr_name(entry.name.get())?;
            attributes.push((name, self.xattr_value(&entry)?));
        }
        Ok(attributes)
    }

    /// The value of one attribute of an inode.
    ///
    /// # Errors
    /// As [`Image::xattrs`].
    pub fn xattr(&self, inode: &Inode, name: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        let Some(set) = inode.xattrs else { return Ok(None) };
        let (first, count) = self.xattr_set(set)?;
        for number in 0..count {
            let entry = self.xattr_entry(first.saturating_add(u64::from(number)))?;
            if self.xattr_name(entry.name.get())? == name {
                return self.xattr_value(&entry).map(Some);
            }
        }
        Ok(None)
    }
}
