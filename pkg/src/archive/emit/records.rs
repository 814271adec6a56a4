//! Records of a pax extended header (POSIX.1-2017, "pax Extended Header").

use super::EmitError;
use crate::archive::pax::PAX_MAX;
use crate::format::wide;
use crate::tree::Timestamp;

const NANOSECONDS: u32 = 1_000_000_000;

/// Records in the order in which they are added.
#[derive(Debug, Default)]
pub struct Extended(Vec<u8>);

impl Extended {
    /// All records.
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Adds a record: its length in decimal, which counts its own digits, a
    /// blank, `key=value` and a line feed.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), EmitError> {
        let body = wide(key.len()).saturating_add(wide(value.len())).saturating_add(3);
        let mut length = body;
        loop {
            let counted = body.saturating_add(wide(length.to_string().len()));
            if counted == length {
                break;
            }
            length = counted;
        }
        if wide(self.0.len()).saturating_add(length) > PAX_MAX {
            return Err(EmitError::TooLong { limit: PAX_MAX });
        }
        self.0.extend_from_slice(length.to_string().as_bytes());
        for part in [b" ", key, b"=", value, b"\n"] {
            self.0.extend_from_slice(part);
        }
        Ok(())
    }

    /// A time: seconds with no more digits of a fraction than it has.
    pub fn time(&mut self, key: &[u8], time: Timestamp) -> Result<(), EmitError> {
        let Timestamp { seconds, nanoseconds } = time;
        // A pax time is one decimal number: before 1970 both parts are negative.
        let (sign, whole, fraction) = match (seconds, nanoseconds) {
            (0.., _) => ("", seconds.unsigned_abs(), nanoseconds),
            (_, 0) => ("-", seconds.unsigned_abs(), 0),
            _ => {
                let fraction = NANOSECONDS.saturating_sub(nanoseconds);
                ("-", seconds.unsigned_abs().saturating_sub(1), fraction)
            }
        };
        let mut text = format!("{sign}{whole}");
        if fraction != 0 {
            let digits = format!("{fraction:09}");
            text.push('.');
            text.push_str(digits.trim_end_matches('0'));
        }
        self.add(key, text.as_bytes())
    }

    /// Marks a file with holes, by GNU tar's format 1.0.
    pub fn sparse(&mut self, path: &[u8], size: u64) -> Result<(), EmitError> {
        self.add(b"GNU.sparse.major", b"1")?;
        self.add(b"GNU.sparse.minor", b"0")?;
        self.add(b"GNU.sparse.name", path)?;
        self.add(b"GNU.sparse.realsize", size.to_string().as_bytes())
    }

    /// Extended attributes, in star's form. That one cannot have `=` in a
    /// name; libarchive's can.
    pub fn xattrs(&mut self, xattrs: &[(Vec<u8>, Vec<u8>)]) -> Result<(), EmitError> {
        for (name, value) in xattrs {
            if name.is_empty() || name.contains(&0) {
                return Err(EmitError::Text("the name of an extended attribute"));
            }
            if name.contains(&b'=') {
                let key = [b"LIBARCHIVE.xattr.", percent_encoded(name).as_slice()].concat();
                self.add(&key, &base64(value))?;
            } else {
                self.add(&[b"SCHILY.xattr.", name.as_slice()].concat(), value)?;
            }
        }
        Ok(())
    }
}

/// Escapes what libarchive escapes: all but printable ASCII, `%` and `=`.
fn percent_encoded(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    for byte in name {
        if byte.is_ascii_graphic() && !matches!(byte, b'%' | b'=') {
            out.push(*byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    out
}

/// RFC 4648 without padding, as libarchive writes it.
fn base64(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        for (place, shift) in [18u32, 12, 6, 0].into_iter().enumerate() {
            if place <= group.len() {
                let digit = usize::try_from((bits >> shift) & 63).unwrap_or(0);
                out.extend(DIGITS.get(digit));
            }
        }
    }
    out
}
