//! Reading one line of a dump.

use std::fmt;

use thiserror::Error;

use super::entry::Entry;
use super::escape::{hex_digit, unescape};
use crate::format::FileType;
use crate::tree::{DeviceNumber, Timestamp};

/// A field of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The first.
    Path,
    /// The second.
    Size,
    /// The third.
    Mode,
    /// The fourth.
    Links,
    /// The fifth.
    Uid,
    /// The sixth.
    Gid,
    /// The seventh.
    Device,
    /// The eighth.
    Mtime,
    /// The ninth.
    Payload,
    /// The tenth.
    Content,
    /// The eleventh.
    Digest,
    /// Those after it.
    Xattr,
}

impl Field {
    /// Its name in the manual.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Path => "PATH",
            Self::Size => "SIZE",
            Self::Mode => "MODE",
            Self::Links => "NLINK",
            Self::Uid => "UID",
            Self::Gid => "GID",
            Self::Device => "RDEV",
            Self::Mtime => "MTIME",
            Self::Payload => "PAYLOAD",
            Self::Content => "CONTENT",
            Self::Digest => "DIGEST",
            Self::Xattr => "xattr",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a line is not a line of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ParseError {
    /// A field is missing.
    #[error("field {0} is missing")]
    Missing(Field),
    /// A field does not hold what it must.
    #[error("field {0} is not valid")]
    Invalid(Field),
    /// The line holds a NUL byte.
    #[error("the line holds a NUL byte")]
    Nul,
    /// CONTENT is not as long as SIZE says.
    #[error("the content is not as long as the size says")]
    ContentLength,
}

/// Reads one line, with or without its newline.
///
/// Of a hard link only PATH, MODE and PAYLOAD are held to anything; a field
/// that cannot be read is taken as 0 or unset.
///
/// # Errors
/// [`ParseError`].
pub fn parse_line(line: &[u8]) -> Result<Entry, ParseError> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    if line.contains(&0) {
        return Err(ParseError::Nul);
    }
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next =
        |field| fields.next().map(|text| (field, text)).ok_or(ParseError::Missing(field));
    let path = next(Field::Path)?;
    let size = next(Field::Size)?;
    let (_, mode) = next(Field::Mode)?;
    let links = next(Field::Links)?;
    let uid = next(Field::Uid)?;
    let gid = next(Field::Gid)?;
    let device = next(Field::Device)?;
    let mtime = next(Field::Mtime)?;
    let payload = next(Field::Payload)?;
    let content = next(Field::Content)?;
    let digest = next(Field::Digest)?;

    let path = bytes(path)?;
    if !path.starts_with(b"/") {
        return Err(ParseError::Invalid(Field::Path));
    }
    let (hard_link, mode) = match mode.strip_prefix(b"@") {
        Some(mode) => (true, mode),
        None => (false, mode),
    };
    let (file_type, permissions) = parse_mode(mode)?;
    let payload = optional(payload)?;
    let target = hard_link || file_type == FileType::Symlink;
    if (target && payload.is_none()) || (hard_link && file_type == FileType::Directory) {
        return Err(ParseError::Invalid(Field::Payload));
    }
    let lenient = Lenient(hard_link);
    let size = lenient.take(number(size))?;
    let content = lenient.take(optional(content))?;
    if !hard_link && content.as_ref().is_some_and(|bytes| wide(bytes) != size) {
        return Err(ParseError::ContentLength);
    }
    let mut xattrs = Vec::new();
    for text in fields.filter(|text| !text.is_empty()) {
        match xattr(text) {
            Err(_) if hard_link => {}
            found => xattrs.push(found?),
        }
    }
    Ok(Entry {
        path,
        size,
        file_type,
        permissions,
        hard_link,
        links: lenient.take(narrow(links))?,
        uid: lenient.take(narrow(uid))?,
        gid: lenient.take(narrow(gid))?,
        device: lenient.take(parse_device(device, file_type))?,
        mtime: lenient.take(parse_mtime(mtime.1))?,
        payload,
        content,
        digest: lenient.take(parse_digest(digest.1))?,
        xattrs,
    })
}

/// Whether what cannot be read is left out.
#[derive(Clone, Copy)]
struct Lenient(bool);

impl Lenient {
    fn take<T: Default>(self, value: Result<T, ParseError>) -> Result<T, ParseError> {
        if self.0 { Ok(value.unwrap_or_default()) } else { value }
    }
}

type Text<'a> = (Field, &'a [u8]);

fn wide(bytes: &[u8]) -> u64 {
    crate::format::wide(bytes.len())
}

fn bytes((field, text): Text<'_>) -> Result<Vec<u8>, ParseError> {
    unescape(text).ok_or(ParseError::Invalid(field))
}

fn optional(text: Text<'_>) -> Result<Option<Vec<u8>>, ParseError> {
    if text.1 == b"-" { Ok(None) } else { bytes(text).map(Some) }
}

/// A number of nothing but digits.
fn digits(text: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(text).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
}

fn number((field, text): Text<'_>) -> Result<u64, ParseError> {
    let value = digits(text).and_then(|text| text.parse().ok());
    value.ok_or(ParseError::Invalid(field))
}

fn narrow(text: Text<'_>) -> Result<u32, ParseError> {
    number(text).and_then(|value| u32::try_from(value).map_err(|_| ParseError::Invalid(text.0)))
}

fn parse_mode(text: &[u8]) -> Result<(FileType, u16), ParseError> {
    let invalid = ParseError::Invalid(Field::Mode);
    let mode = digits(text).and_then(|text| u16::from_str_radix(text, 8).ok()).ok_or(invalid)?;
    let file_type = FileType::from_mode(mode).ok_or(invalid)?;
    Ok((file_type, mode & 0o7777))
}

fn parse_device(text: Text<'_>, file_type: FileType) -> Result<DeviceNumber, ParseError> {
    let device = number(text)?;
    if !matches!(file_type, FileType::CharDevice | FileType::BlockDevice) {
        return Ok(DeviceNumber::default());
    }
    Ok(DeviceNumber { major: rustix::fs::major(device), minor: rustix::fs::minor(device) })
}

fn parse_mtime(text: &[u8]) -> Result<Timestamp, ParseError> {
    let invalid = ParseError::Invalid(Field::Mtime);
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let seconds = parts.next().unwrap_or_default();
    let (sign, magnitude) = match seconds.strip_prefix(b"-") {
        Some(magnitude) => ("-", magnitude),
        None => ("", seconds),
    };
    let magnitude = digits(magnitude).ok_or(invalid)?;
    let seconds = format!("{sign}{magnitude}").parse().map_err(|_| invalid)?;
    let nanoseconds = parts.next().and_then(digits).and_then(|text| text.parse().ok());
    let nanoseconds = nanoseconds.filter(|value| *value < 1_000_000_000).ok_or(invalid)?;
    Ok(Timestamp { seconds, nanoseconds })
}

fn parse_digest(text: &[u8]) -> Result<Option<[u8; 32]>, ParseError> {
    if text == b"-" {
        return Ok(None);
    }
    let mut digest = [0; 32];
    let pairs = text.chunks_exact(2);
    let fits = text.len() == 64;
    for (byte, pair) in digest.iter_mut().zip(pairs) {
        let value = match pair {
            [high, low] => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        let (high, low) = value.ok_or(ParseError::Invalid(Field::Digest))?;
        *byte = (high << 4) | low;
    }
    if fits { Ok(Some(digest)) } else { Err(ParseError::Invalid(Field::Digest)) }
}

fn xattr(text: &[u8]) -> Result<(Vec<u8>, Vec<u8>), ParseError> {
    let invalid = ParseError::Invalid(Field::Xattr);
    let at = text.iter().position(|byte| *byte == b'=').ok_or(invalid)?;
    let (name, value) = text.split_at_checked(at).ok_or(invalid)?;
    let name = unescape(name).filter(|name| !name.is_empty()).ok_or(invalid)?;
    let value = value.split_first().and_then(|(_, value)| unescape(value)).ok_or(invalid)?;
    Ok((name, value))
}
