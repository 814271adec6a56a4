//! The tables of extended attributes.

use super::Checker;
use super::heap::HeapUse;
use crate::error::ReadError;
use crate::format::section::Section;
use crate::format::xattr::{RawXattrName, known};
use crate::format::{Place, Rule};

use zerocopy::FromBytes;

/// How often an entry is looked at, on the average of all.
const SHARING_MAX: u64 = 16;

impl Checker<'_> {
    /// Rules 26 and 27 for the attribute tables. Returns the bits of
    /// [`known`] for the names in them.
    pub(super) fn xattrs(&mut self, heap: &mut HeapUse) -> u32 {
        let bits = self.xattr_names(heap);
        self.xattr_entries(heap);
        self.xattr_sets();
        bits
    }

    fn xattr_names(&mut self, heap: &mut HeapUse) -> u32 {
        let count = self.image.superblock.sections.span(Section::XattrNames).count;
        let mut bits = 0;
        let mut before: Option<Vec<u8>> = None;
        for number in 0..u32::try_from(count).unwrap_or(u32::MAX) {
            if self.findings.is_full() {
                break;
            }
            let place = Place::Xattr(u64::from(number));
            let Some(name) = self.read(self.image.xattr_name(number)) else {
                before = None;
                continue;
            };
            let section = Section::XattrNames;
            let record = self.image.record::<12>(section, number.into(), Rule::Xattr, place);
            if let Some(record) = self.read(record)
                && let Ok(raw) = RawXattrName::read_from_bytes(&record)
            {
                heap.add(raw.position.get(), raw.length.get().into());
            }
            if before.as_ref().is_some_and(|before| *before >= name) {
                self.findings.broken(Rule::Xattr, place);
            }
            bits |= known::of(&name);
            before = Some(name);
        }
        bits
    }

    /// Every entry by itself.
    fn xattr_entries(&mut self, heap: &mut HeapUse) {
        let sections = &self.image.superblock.sections;
        let names = sections.span(Section::XattrNames).count;
        for number in 0..sections.span(Section::XattrEntries).count {
            if self.findings.is_full() {
                return;
            }
            let Some(entry) = self.read(self.image.xattr_entry(number)) else { continue };
            if u64::from(entry.name.get()) >= names {
                self.spoil(Rule::Xattr, Place::Xattr(number));
            }
            let (position, length) = (entry.value.get(), u64::from(entry.length.get()));
            let value = self.image.heap(position, length);
            if self.read(value).is_some() {
                heap.add(position, length);
            }
        }
    }

    /// That sets are in range, their names in order, and no two the same.
    fn xattr_sets(&mut self) {
        let sections = &self.image.superblock.sections;
        let sets = sections.span(Section::XattrSets).count;
        let entries = sections.span(Section::XattrEntries).count;
        self.report.xattr_sets = sets;
        // Sets may share entries, but a hostile blob could share without end.
        let visits_max = entries.saturating_add(sets).saturating_mul(SHARING_MAX);
        let mut visits = 0u64;
        let mut hashes: Vec<([u8; 16], u32)> = Vec::new();
        for set in 0..u32::try_from(sets).unwrap_or(u32::MAX) {
            if self.findings.is_full() {
                return;
            }
            let Some((first, count)) = self.read(self.image.xattr_set(set)) else { continue };
            let after = first.saturating_add(u64::from(count));
            if count == 0 || after > entries {
                self.spoil(Rule::Xattr, Place::Xattr(u64::from(set)));
                continue;
            }
            visits = visits.saturating_add(u64::from(count));
            if visits > visits_max {
                let what = "xattr entries shared by sets";
                self.incomplete = true;
                return self.findings.error(ReadError::Limit { what, limit: visits_max });
            }
            if let Some(hash) = self.xattr_set(first, after) {
                hashes.push((hash, set));
            }
        }
        hashes.sort_unstable();
        for pair in hashes.windows(2) {
            if let [(a, _), (b, set)] = pair
                && a == b
            {
                self.findings.broken(Rule::Xattr, Place::Xattr(u64::from(*set)));
            }
        }
    }

    /// Half a digest of a set's attributes, to tell equal sets; `None` when
    /// one is broken.
    fn xattr_set(&mut self, first: u64, after: u64) -> Option<[u8; 16]> {
        let mut hasher = blake3::Hasher::new();
        let mut before: Option<u32> = None;
        for number in first..after {
            let entry = self.read(self.image.xattr_entry(number))?;
            let name = entry.name.get();
            let length = entry.length.get();
            if before.is_some_and(|before| name <= before) {
                self.findings.broken(Rule::Xattr, Place::Xattr(number));
                return None;
            }
            before = Some(name);
            let value = self.image.heap(entry.value.get(), u64::from(length));
            let value = self.read(value)?;
            hasher.update(&name.to_le_bytes()).update(&length.to_le_bytes()).update(&value);
        }
        let hash = hasher.finalize();
        hash.as_bytes().first_chunk::<16>().copied()
    }
}
