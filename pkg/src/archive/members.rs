//! Taking an archive apart, member by member.

use std::io::{self, Read};

use super::error::{ArchiveError, Fault};
use super::header::{BLOCK, GnuSparse, Header, sparse_entries};
use super::member::{Member, MemberKind, Segment};
use super::number;
use super::pax::{PAX_MAX, Records};
use super::sparse::{self, SEGMENTS_MAX};
use crate::format::{index64, wide};
use crate::tree::{DeviceNumber, Timestamp};

/// Bytes of a GNU long name or link that are read.
const LONG_NAME_MAX: u64 = 1 << 20;

/// The members of an uncompressed archive. After [`Members::next_member`] the
/// member's data are read with [`Members::read_data`]; what is not read is
/// skipped.
#[derive(Debug)]
pub struct Members<R> {
    reader: R,
    /// Bytes taken from the reader.
    position: u64,
    /// Data of the current member that were not read.
    left: u64,
    /// Zeros behind the data, up to a full block.
    padding: u64,
    global: Records,
    /// For messages: the member being read.
    path: Vec<u8>,
    header_at: u64,
}

/// Headers that came before a member's own.
#[derive(Debug, Default)]
struct Extensions {
    records: Option<Records>,
    long_path: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    start: Option<u64>,
}

impl Extensions {
    fn is_empty(&self) -> bool {
        self.start.is_none()
    }
}

impl<R: Read> Members<R> {
    /// Starts at the first byte of an archive.
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            position: 0,
            left: 0,
            padding: 0,
            global: Records::default(),
            path: Vec::new(),
            header_at: 0,
        }
    }

    /// The reader, which is then behind the end of the archive's members.
    pub fn into_inner(self) -> R {
        self.reader
    }

    /// An error about the current member.
    pub fn error(&self, fault: Fault) -> ArchiveError {
        ArchiveError { member: self.path.clone(), offset: self.header_at, fault }
    }

    /// The next member; `None` at the end of the archive: two blocks of zeros,
    /// or no more bytes. What may follow is left in the reader.
    ///
    /// # Errors
    /// [`ArchiveError`].
    pub fn next_member(&mut self) -> Result<Option<Member>, ArchiveError> {
        self.path.clear();
        self.next_of_any_kind().map_err(|fault| self.error(fault))
    }

    fn next_of_any_kind(&mut self) -> Result<Option<Member>, Fault> {
        let mut extensions = Extensions::default();
        loop {
            self.skip_data()?;
            self.header_at = self.position;
            let Some(block) = self.header_block(&extensions)? else { return Ok(None) };
            let header = Header::parse(&block)?;
            let start = *extensions.start.get_or_insert(self.header_at);
            match header.type_flag() {
                b'x' | b'X' => {
                    let data = self.extension(&header, PAX_MAX, "pax header")?;
                    extensions.records.get_or_insert_default().read(&data)?;
                }
                b'g' => {
                    let data = self.extension(&header, PAX_MAX, "pax header")?;
                    self.global.read(&data)?;
                    // It announces no member.
                    if extensions.records.is_none() && extensions.long_path.is_none() {
                        extensions.start = None;
                    }
                }
                b'L' => {
                    let data = self.extension(&header, LONG_NAME_MAX, "long name")?;
                    extensions.long_path = Some(until_nul(data));
                }
                b'K' => {
                    let data = self.extension(&header, LONG_NAME_MAX, "long link")?;
                    extensions.long_link = Some(until_nul(data));
                }
                // A volume label is no member.
                b'V' if extensions.is_empty() || extensions.records.is_none() => {
                    self.left = header.size()?;
                    self.pad();
                    extensions = Extensions::default();
                }
                flag => return self.member(&header, flag, extensions, start).map(Some),
            }
        }
    }

    /// A header block; `None` at the end.
    fn header_block(&mut self, extensions: &Extensions) -> Result<Option<[u8; BLOCK]>, Fault> {
        let Some(block) = self.block()? else {
            return if extensions.is_empty() { Ok(None) } else { Err(Fault::NothingExtended) };
        };
        if block.iter().any(|byte| *byte != 0) {
            return Ok(Some(block));
        }
        if !extensions.is_empty() {
            return Err(Fault::NothingExtended);
        }
        match self.block()? {
            Some(second) if second.iter().any(|byte| *byte != 0) => Err(Fault::LoneZeroBlock),
            _ => Ok(None),
        }
    }

    /// A whole block; `None` when there are no more bytes, or only the
    /// beginning of a block of zeros.
    fn block(&mut self) -> Result<Option<[u8; BLOCK]>, Fault> {
        let mut block = [0; BLOCK];
        let mut filled = 0;
        while let Some(rest) = block.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let read = self.read_some(rest)?;
            if read == 0 {
                break;
            }
            filled = filled.saturating_add(read);
        }
        match filled {
            BLOCK => Ok(Some(block)),
            _ if block.iter().all(|byte| *byte == 0) => Ok(None),
            _ => Err(Fault::Truncated),
        }
    }

    fn read_some(&mut self, buffer: &mut [u8]) -> Result<usize, Fault> {
        loop {
            match self.reader.read(buffer) {
                Ok(read) => {
                    self.position = self.position.saturating_add(wide(read));
                    return Ok(read);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::Read(error)),
            }
        }
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), Fault> {
        let mut rest = buffer;
        while !rest.is_empty() {
            let read = self.read_some(rest)?;
            if read == 0 {
                return Err(Fault::Truncated);
            }
            rest = rest.get_mut(read..).unwrap_or_default();
        }
        Ok(())
    }

    fn pad(&mut self) {
        let unit = wide(BLOCK);
        let over = self.left.checked_rem(unit).unwrap_or(0);
        self.padding = if over == 0 { 0 } else { unit.saturating_sub(over) };
    }

    /// Skips what was not read of the current member. Its data must be there;
    /// the padding behind them may be missing at the end of an archive.
    fn skip_data(&mut self) -> Result<(), Fault> {
        let mut scratch = [0; 16 << 10];
        while self.left > 0 {
            let take = index64(self.left).min(scratch.len());
            let part = scratch.get_mut(..take).unwrap_or_default();
            self.read_exact(part)?;
            self.left = self.left.saturating_sub(wide(take));
        }
        while self.padding > 0 {
            let take = index64(self.padding).min(scratch.len());
            let read = self.read_some(scratch.get_mut(..take).unwrap_or_default())?;
            if read == 0 {
                break;
            }
            self.padding = self.padding.saturating_sub(wide(read));
        }
        self.padding = 0;
        Ok(())
    }

    fn extension(
        &mut self,
        header: &Header<'_>,
        limit: u64,
        what: &'static str,
    ) -> Result<Vec<u8>, Fault> {
        let size = header.size()?;
        if size > limit {
            return Err(Fault::TooLong { what, limit });
        }
        self.left = size;
        self.pad();
        let mut data = vec![0; index64(size)];
        self.read_exact(&mut data)?;
        self.left = 0;
        Ok(data)
    }

    fn member(
        &mut self,
        header: &Header<'_>,
        flag: u8,
        extensions: Extensions,
        start: u64,
    ) -> Result<Member, Fault> {
        let records = self.global.over(extensions.records.unwrap_or_default());
        let sparse_name = records.sparse.name.clone();
        let path = sparse_name.or(records.path.clone()).or(extensions.long_path);
        self.path = path.unwrap_or_else(|| header.path());
        let path = self.path.clone();
        let link = records.link.clone().or(extensions.long_link);
        let link = link.unwrap_or_else(|| header.link());
        let device = |header: &Header<'_>| {
            let (major, minor) = header.device()?;
            let (major, minor) = (records.major.unwrap_or(major), records.minor.unwrap_or(minor));
            Ok::<_, Fault>(DeviceNumber { major, minor })
        };
        let kind = match flag {
            // Before POSIX a directory was a file with a slash behind its name.
            b'0' | 0 | b'7' if path.ends_with(b"/") && flag != b'7' => MemberKind::Directory,
            b'0' | 0 | b'7' => self.regular(header, &records)?,
            b'S' => self.old_gnu_sparse(header)?,
            b'1' => MemberKind::HardLink(link),
            b'2' => MemberKind::Symlink(link),
            b'3' => MemberKind::CharDevice(device(header)?),
            b'4' => MemberKind::BlockDevice(device(header)?),
            b'5' => MemberKind::Directory,
            b'6' => MemberKind::Fifo,
            other => return Err(Fault::Type(other)),
        };
        let (seconds, nanoseconds) = match records.mtime {
            Some(time) => time,
            None => (header.mtime()?, 0),
        };
        Ok(Member {
            offset: start,
            path,
            kind,
            permissions: header.permissions()?,
            uid: records.uid.map_or_else(|| header.uid(), Ok)?,
            gid: records.gid.map_or_else(|| header.gid(), Ok)?,
            mtime: Timestamp { seconds, nanoseconds },
            xattrs: records.xattrs,
        })
    }

    fn regular(&mut self, header: &Header<'_>, records: &Records) -> Result<MemberKind, Fault> {
        let stored = records.size.map_or_else(|| header.size(), Ok)?;
        self.left = stored;
        self.pad();
        let map = &records.sparse;
        if !map.any {
            if i64::try_from(stored).is_err() {
                return Err(Fault::Number { field: "size" });
            }
            let whole = Segment { offset: 0, length: stored };
            let data = if stored == 0 { Vec::new() } else { vec![whole] };
            return Ok(MemberKind::Regular { size: stored, data });
        }
        let size = map.real_size.ok_or(Fault::Sparse)?;
        let pairs = match (map.major, map.minor) {
            (Some(1), Some(0)) => self.sparse_1_0()?,
            (None | Some(0), _) => sparse::pairs(&map.map)?,
            _ => return Err(Fault::Sparse),
        };
        let data = sparse::checked(pairs, size, self.left)?;
        Ok(MemberKind::Regular { size, data })
    }

    /// The map at the head of the data: decimal lines, padded to a block.
    fn sparse_1_0(&mut self) -> Result<Vec<(u64, u64)>, Fault> {
        let mut line = Vec::new();
        let mut numbers = Vec::new();
        let mut expected = None;
        while expected.is_none_or(|expected| numbers.len() < expected) {
            let mut block = [0; BLOCK];
            self.left = self.left.checked_sub(wide(BLOCK)).ok_or(Fault::Sparse)?;
            self.read_exact(&mut block)?;
            for byte in block {
                if expected.is_some_and(|expected| numbers.len() == expected) {
                    break;
                }
                if byte != b'\n' {
                    if line.len() >= 20 {
                        return Err(Fault::Sparse);
                    }
                    line.push(byte);
                    continue;
                }
                let number = number::decimal(&line).ok_or(Fault::Sparse)?;
                line.clear();
                if expected.is_some() {
                    numbers.push(number);
                } else {
                    let count = usize::try_from(number).ok().filter(|n| *n <= SEGMENTS_MAX);
                    expected = Some(count.ok_or(Fault::Sparse)?.saturating_mul(2));
                }
            }
        }
        sparse::pairs(&numbers)
    }

    fn old_gnu_sparse(&mut self, header: &Header<'_>) -> Result<MemberKind, Fault> {
        let stored = header.size()?;
        let GnuSparse { entries: mut map, mut more, real_size: size } = header.gnu_sparse()?;
        while more {
            let block = self.block()?.ok_or(Fault::Truncated)?;
            map.extend(sparse_entries(block.get(..504).unwrap_or_default())?);
            more = block.get(504).is_some_and(|flag| *flag != 0 && *flag != b'0');
            if map.len() > SEGMENTS_MAX {
                return Err(Fault::Sparse);
            }
        }
        self.left = stored;
        self.pad();
        let data = sparse::checked(map, size, stored)?;
        Ok(MemberKind::Regular { size, data })
    }

    /// Fills a buffer with the next bytes of the current member's data.
    ///
    /// # Errors
    /// [`Fault::Truncated`] when the archive or the member ends before.
    pub fn read_data(&mut self, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        let length = wide(buffer.len());
        if length > self.left {
            return Err(self.error(Fault::Truncated));
        }
        self.left = self.left.saturating_sub(length);
        self.read_exact(buffer).map_err(|fault| self.error(fault))
    }
}

fn until_nul(mut data: Vec<u8>) -> Vec<u8> {
    if let Some(end) = data.iter().position(|byte| *byte == 0) {
        data.truncate(end);
    }
    data
}
