//! The setuid program that mounts and unmounts for ordinary users (package fuse3).

use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command, Stdio};

/// Tried in this order; the paths serve a caller without a usable `PATH`.
const PROGRAMS: [&str; 4] =
    ["fusermount3", "/usr/bin/fusermount3", "/bin/fusermount3", "/usr/local/bin/fusermount3"];

/// Starts it with standard error as a pipe and messages in English.
///
/// # Errors
/// `NotFound` when it is not installed, and those of starting a process.
pub(crate) fn start<A: AsRef<OsStr>>(
    arguments: &[A],
    environment: Option<(&str, &str)>,
) -> io::Result<Child> {
    start_first(&PROGRAMS, arguments, environment)
}

/// Starts the first of these programs that is there and may be run. Errors of
/// places where it is not, or not for this user, count only when there is no
/// other; that it may not be run says more than that it is nowhere.
fn start_first<P: AsRef<OsStr>, A: AsRef<OsStr>>(
    programs: &[P],
    arguments: &[A],
    environment: Option<(&str, &str)>,
) -> io::Result<Child> {
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for program in programs {
        let mut command = Command::new(program);
        command.args(arguments).env("LC_ALL", "C").envs(environment);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        match command.spawn() {
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {}
                io::ErrorKind::PermissionDenied => refused = error,
                _ => return Err(error),
            },
            started => return started,
        }
    }
    Err(refused)
}

/// What it wrote, as one line without its name for itself at the front twice.
pub(crate) fn message(stderr: &[u8]) -> Vec<u8> {
    let mut lines = stderr.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut message = lines.next().unwrap_or(b"fusermount3 failed").to_vec();
    for line in lines {
        message.extend_from_slice(b"; ");
        message.extend_from_slice(line.strip_prefix(b"fusermount3: ").unwrap_or(line));
    }
    message
}

/// Whether its message speaks of `what`.
pub(crate) fn mentions(message: &[u8], what: &str) -> bool {
    message.windows(what.len()).any(|window| window == what.as_bytes())
}

#[cfg(test)]
mod tests;
