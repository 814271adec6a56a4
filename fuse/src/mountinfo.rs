//! The calling process's mounts, from `/proc/self/mountinfo` (proc(5)).

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Major and minor number of a mounted filesystem.
pub(crate) type Device = (u32, u32);

/// A mount, as far as this crate needs to know it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    /// Number of the mount, unique while it lasts.
    pub(crate) id: u64,
    /// Number of the mount that it lies on.
    pub(crate) parent: u64,
    /// The filesystem's device number.
    pub(crate) device: Device,
    /// Where it is seen.
    pub(crate) mount_point: PathBuf,
    /// Type with subtype, for instance `fuse.microfs`.
    pub(crate) fs_type: Vec<u8>,
    /// What was mounted, such as a device; for FUSE and overlays any text.
    pub(crate) source: Vec<u8>,
}

/// All mounts of this process's namespace, older ones first.
///
/// # Errors
/// Those of reading `/proc`.
pub(crate) fn read() -> io::Result<Vec<MountEntry>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// The mount that a path of exactly this name shows: the last one made there.
pub(crate) fn top_at<'a>(mounts: &'a [MountEntry], path: &Path) -> Option<&'a MountEntry> {
    mounts.iter().rfind(|mount| mount.mount_point == path)
}

/// Lines that do not have the fields they should are left out.
fn parse(text: &[u8]) -> Vec<MountEntry> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

fn parse_line(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = number(fields.next()?)?;
    let parent = number(fields.next()?)?;
    let device = fields.next()?;
    let colon = device.iter().position(|byte| *byte == b':')?;
    let (major, minor) = device.split_at_checked(colon)?;
    let device = (number(major)?, number(minor.get(1..)?)?);
    let mount_point = unescape(fields.nth(1)?);
    // Optional fields of any number end with a lone hyphen.
    fields.by_ref().find(|field| *field == b"-")?;
    let fs_type = unescape(fields.next()?);
    let source = unescape(fields.next().unwrap_or_default());
    let mount_point = PathBuf::from(OsString::from_vec(mount_point));
    Some(MountEntry { id, parent, device, mount_point, fs_type, source })
}

fn number<N: std::str::FromStr>(field: &[u8]) -> Option<N> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// Blank, tab, line feed and backslash are written as backslash and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let escaped = tail.get(..3).filter(|_| *first == b'\\').and_then(octal);
        match escaped {
            Some(byte) => {
                plain.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests;
