//! The system's log, for a process whose standard error nobody reads.
//!
//! A line goes to the local syslog daemon in the form of RFC 3164, without
//! time and host name, which the daemon adds (section 4.3); where none listens,
//! to the kernel's log (`/dev/kmsg`), if that may be written; else nowhere.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use rustix::fs::OFlags;

/// Where syslog daemons, journald among them, listen for datagrams.
const SOCKET: &str = "/dev/log";
/// Each write to it is a record.
const KERNEL: &str = "/dev/kmsg";
/// Facility 3 (system daemons) times 8, plus severity 3 (error).
const PRIORITY: u8 = 3 * 8 + 3;
/// Longest record in bytes that the kernel's log takes, with room for what it adds.
const RECORD_MAX: usize = 960;

/// A way to the system's log.
#[derive(Debug)]
pub(crate) struct SystemLog {
    socket: Option<UnixDatagram>,
    daemon: PathBuf,
    kernel: PathBuf,
}

impl SystemLog {
    /// The one of this machine.
    pub(crate) fn new() -> Self {
        Self::at(SOCKET.into(), KERNEL.into())
    }

    fn at(daemon: PathBuf, kernel: PathBuf) -> Self {
        // Never waits: a daemon that is stopped, or that itself reads from
        // the mount, must not hold up a request.
        let socket = UnixDatagram::unbound();
        let socket = socket.and_then(|socket| socket.set_nonblocking(true).map(|()| socket)).ok();
        Self { socket, daemon, kernel }
    }

    /// Best effort. The daemon is looked for each time, as it may be started later or anew.
    pub(crate) fn line(&self, line: &str) {
        let line = record(line);
        if self.to_daemon(&line).is_err() {
            let _ = self.to_kernel(&line);
        }
    }

    fn to_daemon(&self, record: &str) -> io::Result<()> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        socket.send_to(record.as_bytes(), &self.daemon).map(|_| ())
    }

    fn to_kernel(&self, record: &str) -> io::Result<()> {
        let mut end = record.len().min(RECORD_MAX);
        while !record.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        let record = record.get(..end).unwrap_or_default();
        // In some containers it is a terminal.
        let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits().cast_signed();
        let mut kernel = File::options().append(true).custom_flags(flags).open(&self.kernel)?;
        kernel.write_all(format!("{record}\n").as_bytes())
    }
}

/// Priority, program and process, and the line with nothing in it that could begin another.
fn record(line: &str) -> String {
    let mut record = format!("<{PRIORITY}>microfs[{}]: ", std::process::id());
    for character in line.chars() {
        if character.is_control() {
            record.extend(character.escape_default());
        } else {
            record.push(character);
        }
    }
    record
}

#[cfg(test)]
mod tests;
