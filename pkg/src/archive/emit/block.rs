//! One 512-byte ustar header block (POSIX.1-2017, "ustar Interchange Format").

use super::records::Extended;
use super::{EmitError, Entry, EntryKind};
use crate::archive::header::BLOCK;
use crate::tree::DeviceNumber;

/// Largest number of a field of 8 bytes: 7 octal digits.
const SHORT_MAX: u32 = 0o7_777_777;
/// Largest number of a field of 12 bytes: 11 octal digits.
const LONG_MAX: u64 = 0o77_777_777_777;
/// Bytes of the fields for name and link target.
const NAME: usize = 100;
/// Bytes of the field for what is before the name.
const PREFIX: usize = 155;

/// A header block under construction.
pub struct Block([u8; BLOCK]);

impl Block {
    /// A block with type and fixed fields.
    pub fn new(entry: &Entry<'_>) -> Result<Self, EmitError> {
        if entry.path.contains(&0) {
            return Err(EmitError::Text("its path"));
        }
        let flag = match entry.kind {
            EntryKind::Regular(_) | EntryKind::Sparse(_) => b'0',
            EntryKind::HardLink(_) => b'1',
            EntryKind::Symlink(_) => b'2',
            EntryKind::CharDevice(_) => b'3',
            EntryKind::BlockDevice(_) => b'4',
            EntryKind::Directory => b'5',
            EntryKind::Fifo => b'6',
        };
        Ok(Self::of_type(flag))
    }

    /// The block before `length` bytes of extended header of the member at `path`.
    pub fn extended(path: &[u8], length: u64) -> Self {
        let mut block = Self::of_type(b'x');
        block.set(0, NAME, &[b"PaxHeaders.0/", last_name(path)].concat());
        block.octal(100, 8, 0o644);
        block.octal(108, 8, 0);
        block.octal(116, 8, 0);
        block.octal(124, 12, length);
        block.octal(136, 12, 0);
        block
    }

    fn of_type(flag: u8) -> Self {
        let mut block = Self([0; BLOCK]);
        block.set(156, 1, &[flag]);
        block.set(257, 8, b"ustar\x0000");
        block.octal(329, 8, 0);
        block.octal(337, 8, 0);
        block
    }

    /// As much of the bytes as the field holds.
    fn set(&mut self, start: usize, length: usize, bytes: &[u8]) {
        let field = self.0.get_mut(start..start.saturating_add(length)).unwrap_or_default();
        for (to, from) in field.iter_mut().zip(bytes) {
            *to = *from;
        }
    }

    /// Octal digits with leading zeros, and NUL.
    fn octal(&mut self, start: usize, length: usize, value: u64) {
        let digits = length.saturating_sub(1);
        self.set(start, length, format!("{value:0digits$o}\0").as_bytes());
    }

    /// The path where it fits, else its beginning and a record.
    pub fn set_path(
        &mut self,
        path: &[u8],
        directory: bool,
        extended: &mut Extended,
    ) -> Result<(), EmitError> {
        let mut path = if path.is_empty() { b".".to_vec() } else { path.to_vec() };
        if directory {
            path.push(b'/');
        }
        match split(&path) {
            Some((prefix, name)) => {
                self.set(0, NAME, name);
                self.set(345, PREFIX, prefix);
            }
            None => {
                self.set(0, NAME, &path);
                extended.add(b"path", &path)?;
            }
        }
        Ok(())
    }

    /// The name of a file with holes, for readers that do not know of them and
    /// would take the map for content.
    pub fn set_sparse_name(&mut self, path: &[u8]) {
        self.set(0, NAME, &[b"GNUSparseFile.0/", last_name(path)].concat());
    }

    /// The link target where it fits, else its beginning and a record.
    pub fn set_link(&mut self, target: &[u8], extended: &mut Extended) -> Result<(), EmitError> {
        if target.is_empty() || target.contains(&0) {
            return Err(EmitError::Text("its link target"));
        }
        self.set(157, NAME, target);
        if target.len() > NAME { extended.add(b"linkpath", target) } else { Ok(()) }
    }

    /// All numbers; a record for each that does not fit, and 0 in its field.
    pub fn set_numbers(
        &mut self,
        entry: &Entry<'_>,
        stored: u64,
        extended: &mut Extended,
    ) -> Result<(), EmitError> {
        self.octal(100, 8, u64::from(entry.permissions & 0o7777));
        if stored > LONG_MAX {
            extended.add(b"size", stored.to_string().as_bytes())?;
        }
        self.octal(124, 12, if stored > LONG_MAX { 0 } else { stored });
        self.short(108, entry.uid, b"uid", extended)?;
        self.short(116, entry.gid, b"gid", extended)?;
        let seconds = u64::try_from(entry.mtime.seconds).ok().filter(|at| *at <= LONG_MAX);
        self.octal(136, 12, seconds.unwrap_or(0));
        if seconds.is_none() || entry.mtime.nanoseconds != 0 {
            extended.time(b"mtime", entry.mtime)?;
        }
        if let EntryKind::CharDevice(device) | EntryKind::BlockDevice(device) = entry.kind {
            let DeviceNumber { major, minor } = device;
            self.short(329, major, b"SCHILY.devmajor", extended)?;
            self.short(337, minor, b"SCHILY.devminor", extended)?;
        }
        Ok(())
    }

    fn short(
        &mut self,
        start: usize,
        value: u32,
        key: &[u8],
        extended: &mut Extended,
    ) -> Result<(), EmitError> {
        let fits = value <= SHORT_MAX;
        self.octal(start, 8, if fits { u64::from(value) } else { 0 });
        if fits { Ok(()) } else { extended.add(key, value.to_string().as_bytes()) }
    }

    /// The block with its checksum.
    pub fn finish(&mut self) -> &[u8; BLOCK] {
        self.set(148, 8, b"        ");
        let sum = self.0.iter().fold(0u64, |sum, byte| sum.saturating_add(u64::from(*byte)));
        self.set(148, 8, format!("{sum:06o}\0 ").as_bytes());
        &self.0
    }
}

fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

/// Prefix and name of a path that fits into their fields: all into the name,
/// or else the shortest prefix that leaves a name which fits.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.len() <= NAME {
        return Some((&[], path));
    }
    let least = path.len().checked_sub(NAME.saturating_add(1))?;
    let slash = path.get(least..)?.iter().position(|byte| *byte == b'/')?.saturating_add(least);
    let (prefix, rest) = path.split_at_checked(slash)?;
    let name = rest.get(1..).filter(|name| !name.is_empty())?;
    (!prefix.is_empty() && prefix.len() <= PREFIX).then_some((prefix, name))
}
