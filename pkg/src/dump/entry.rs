//! One line of a dump.

use std::io::Write;

use super::escape::{Escape, escape, hex_text};
use crate::format::FileType;
use crate::tree::{DeviceNumber, Timestamp};

/// What one line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Absolute path; the root is `/`.
    pub path: Vec<u8>,
    /// Bytes of a file or link target; ignored for directories.
    pub size: u64,
    /// Type.
    pub file_type: FileType,
    /// Permission bits with setuid, setgid and sticky, 0 to 0o7777.
    pub permissions: u16,
    /// Whether this is one more name of the object at `payload`. Everything
    /// but the payload then only repeats what that object's line says.
    pub hard_link: bool,
    /// Link count.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number; 0:0 for anything but devices.
    pub device: DeviceNumber,
    /// Modification time.
    pub mtime: Timestamp,
    /// Target of a symbolic or hard link, or a backing file's relative path.
    pub payload: Option<Vec<u8>>,
    /// All bytes of a file.
    pub content: Option<Vec<u8>>,
    /// fs-verity digest (SHA-256) of a file.
    pub digest: Option<[u8; 32]>,
    /// Name and value of each extended attribute.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Entry {
    /// Appends the line, newline included, to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        escape(&self.path, Escape::Plain, out);
        let mark = if self.hard_link { "@" } else { "" };
        let mode = u32::from(self.file_type.mode_bits() | self.permissions);
        let device = rustix::fs::makedev(self.device.major, self.device.minor);
        let Timestamp { seconds, nanoseconds } = self.mtime;
        // Writing to memory does not fail.
        let _ = write!(
            out,
            " {} {mark}{mode:o} {} {} {} {device} {seconds}.{nanoseconds} ",
            self.size, self.links, self.uid, self.gid
        );
        optional(self.payload.as_deref(), out);
        out.push(b' ');
        optional(self.content.as_deref(), out);
        out.push(b' ');
        match &self.digest {
            Some(digest) => hex_text(digest, out),
            None => out.push(b'-'),
        }
        for (name, value) in &self.xattrs {
            out.push(b' ');
            escape(name, Escape::Equal, out);
            out.push(b'=');
            escape(value, Escape::Equal, out);
        }
        out.push(b'\n');
    }
}

fn optional(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        Some(value) => escape(value, Escape::LoneDash, out),
        None => out.push(b'-'),
    }
}
