//! pax extended headers (POSIX.1-2017, "pax Extended Header").

use super::error::Fault;
use super::number;

/// Bytes of an extended header that are read.
pub const PAX_MAX: u64 = 4 << 20;

/// Values that extended headers set. A per-file header lies over the global one.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// `path`.
    pub path: Option<Vec<u8>>,
    /// `linkpath`.
    pub link: Option<Vec<u8>>,
    /// `size`.
    pub size: Option<u64>,
    /// `uid`.
    pub uid: Option<u32>,
    /// `gid`.
    pub gid: Option<u32>,
    /// `mtime`.
    pub mtime: Option<(i64, u32)>,
    /// `SCHILY.devmajor`.
    pub major: Option<u32>,
    /// `SCHILY.devminor`.
    pub minor: Option<u32>,
    /// `SCHILY.xattr.` and `LIBARCHIVE.xattr.`, the last of a name last.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// `GNU.sparse.*`.
    pub sparse: SparseRecords,
}

/// `GNU.sparse.*` records.
#[derive(Debug, Clone, Default)]
pub struct SparseRecords {
    /// `major`.
    pub major: Option<u64>,
    /// `minor`.
    pub minor: Option<u64>,
    /// `name`.
    pub name: Option<Vec<u8>>,
    /// `size` (0.0, 0.1) or `realsize` (1.0).
    pub real_size: Option<u64>,
    /// Offsets and lengths: `offset`, `numbytes` in turn (0.0) or `map` (0.1).
    pub map: Vec<u64>,
    /// Whether any of them was there.
    pub any: bool,
}

/// Key and value of a record.
type KeyValue<'a> = (&'a [u8], &'a [u8]);

/// Splits a header's data into records.
fn split(mut data: &[u8]) -> Result<Vec<KeyValue<'_>>, Fault> {
    let mut records = Vec::new();
    // Some writers pad with NUL.
    while data.first().is_some_and(|byte| *byte != 0) {
        let blank = data.iter().position(|byte| *byte == b' ').ok_or(Fault::Pax)?;
        let digits = data.get(..blank).unwrap_or_default();
        let length = number::decimal(digits).and_then(|length| usize::try_from(length).ok());
        let length = length.ok_or(Fault::Pax)?;
        let (record, rest) = data.split_at_checked(length).ok_or(Fault::Pax)?;
        let body = record.get(blank.saturating_add(1)..).and_then(|body| body.strip_suffix(b"\n"));
        let body = body.ok_or(Fault::Pax)?;
        let equals = body.iter().position(|byte| *byte == b'=').ok_or(Fault::Pax)?;
        let (key, value) = body.split_at_checked(equals).ok_or(Fault::Pax)?;
        records.push((key, value.get(1..).unwrap_or_default()));
        data = rest;
    }
    Ok(records)
}

impl Records {
    /// Reads a header's data over what is there. An empty value takes a
    /// record away, but an empty xattr is one (as containerd has it).
    pub fn read(&mut self, data: &[u8]) -> Result<(), Fault> {
        for (key, value) in split(data)? {
            self.set(key, value)?;
        }
        Ok(())
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        let bytes = || (!value.is_empty()).then(|| value.to_vec());
        match key {
            b"path" => self.path = bytes(),
            b"linkpath" => self.link = bytes(),
            b"size" => self.size = unsigned(value, "size")?,
            b"uid" => self.uid = narrow(value, "uid")?,
            b"gid" => self.gid = narrow(value, "gid")?,
            b"mtime" if value.is_empty() => self.mtime = None,
            b"mtime" => {
                let time = number::time(value);
                self.mtime = Some(time.ok_or(Fault::Number { field: "mtime" })?);
            }
            b"SCHILY.devmajor" => self.major = narrow(value, "devmajor")?,
            b"SCHILY.devminor" => self.minor = narrow(value, "devminor")?,
            _ => self.set_prefixed(key, value)?,
        }
        if [self.path.as_deref(), self.link.as_deref()]
            .iter()
            .flatten()
            .any(|path| path.contains(&0))
        {
            return Err(Fault::Path);
        }
        Ok(())
    }

    fn set_prefixed(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
            self.xattrs.push((name.to_vec(), value.to_vec()));
        } else if let Some(name) = key.strip_prefix(b"LIBARCHIVE.xattr.") {
            let name = percent_decoded(name).ok_or(Fault::Pax)?;
            let value = base64_decoded(value).ok_or(Fault::Pax)?;
            // Written beside the other form, which is exact: that one counts.
            if !self.xattrs.iter().any(|(known, _)| *known == name) {
                self.xattrs.push((name, value));
            }
        } else if let Some(name) = key.strip_prefix(b"GNU.sparse.") {
            self.sparse.set(name, value)?;
        }
        Ok(())
    }

    /// These records with those of a per-file header over them.
    pub fn over(&self, upper: Self) -> Self {
        let mut xattrs = self.xattrs.clone();
        xattrs.extend(upper.xattrs);
        Self {
            path: upper.path.or_else(|| self.path.clone()),
            link: upper.link.or_else(|| self.link.clone()),
            size: upper.size.or(self.size),
            uid: upper.uid.or(self.uid),
            gid: upper.gid.or(self.gid),
            mtime: upper.mtime.or(self.mtime),
            major: upper.major.or(self.major),
            minor: upper.minor.or(self.minor),
            xattrs,
            sparse: if upper.sparse.any { upper.sparse } else { self.sparse.clone() },
        }
    }
}

impl SparseRecords {
    fn set(&mut self, name: &[u8], value: &[u8]) -> Result<(), Fault> {
        self.any = true;
        match name {
            b"major" => self.major = unsigned(value, "GNU.sparse.major")?,
            b"minor" => self.minor = unsigned(value, "GNU.sparse.minor")?,
            b"name" => self.name = (!value.is_empty()).then(|| value.to_vec()),
            b"size" | b"realsize" => self.real_size = unsigned(value, "GNU.sparse.size")?,
            b"offset" | b"numbytes" => {
                let number = number::decimal(value).ok_or(Fault::Sparse)?;
                let wants_offset = self.map.len().checked_rem(2) == Some(0);
                if wants_offset != (name == b"offset") {
                    return Err(Fault::Sparse);
                }
                self.map.push(number);
            }
            b"map" => {
                self.map.clear();
                for number in value.split(|byte| *byte == b',') {
                    self.map.push(number::decimal(number).ok_or(Fault::Sparse)?);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn unsigned(value: &[u8], field: &'static str) -> Result<Option<u64>, Fault> {
    if value.is_empty() {
        return Ok(None);
    }
    number::decimal(value).map(Some).ok_or(Fault::Number { field })
}

fn narrow(value: &[u8], field: &'static str) -> Result<Option<u32>, Fault> {
    let wide = unsigned(value, field)?;
    wide.map(|number| u32::try_from(number).map_err(|_| Fault::Number { field })).transpose()
}

fn percent_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'%' {
            let high = char::from(*bytes.next()?).to_digit(16)?;
            let low = char::from(*bytes.next()?).to_digit(16)?;
            out.push(u8::try_from(high.checked_mul(16)?.checked_add(low)?).ok()?);
        } else {
            out.push(*byte);
        }
    }
    Some(out)
}

fn base64_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in text.iter().filter(|byte| **byte != b'=') {
        let six = match byte {
            b'A'..=b'Z' => byte.checked_sub(b'A')?,
            b'a'..=b'z' => byte.checked_sub(b'a')?.checked_add(26)?,
            b'0'..=b'9' => byte.checked_sub(b'0')?.checked_add(52)?,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(six);
        held = held.checked_add(6)?;
        if held >= 8 {
            held = held.checked_sub(8)?;
            let [low, ..] = (bits >> held).to_le_bytes();
            out.push(low);
            bits &= (1u32.checked_shl(held)?).checked_sub(1)?;
        }
    }
    Some(out)
}
