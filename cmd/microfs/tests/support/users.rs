//! Ordinary users, and namespaces to try things in.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use super::program::{PROGRAM, tool};
use super::scratch::Scratch;

/// Debian's user `nobody`, and its group.
pub const NOBODY: u32 = 65_534;

/// A copy of the program that every user can reach.
pub fn program(scratch: &Scratch) -> std::path::PathBuf {
    let program = scratch.join("microfs");
    if !program.exists() {
        // By another process: what is started here meanwhile would inherit a
        // file that is open for writing, and a program in that state cannot run.
        super::program::succeed(tool("cp").arg(PROGRAM).arg(&program));
    }
    program
}

/// Runs the program as an ordinary user.
pub fn as_nobody(scratch: &Scratch, words: Vec<OsString>) -> Command {
    let mut command = tool("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
    command.arg(program(scratch)).args(words).env_remove("SOURCE_DATE_EPOCH");
    command
}

/// A directory that belongs to an ordinary user.
pub fn home(scratch: &Scratch, name: &str) -> std::path::PathBuf {
    let path = scratch.dir(name);
    std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    path
}

/// Runs shell commands as root in a mount namespace of its own. There,
/// `/dev/fuse` has the given mode, and these words may be used: `$PROGRAM`,
/// and `user`, which runs a command as an ordinary user.
pub fn namespace(scratch: &Scratch, device_mode: &str, script: &str) -> Command {
    let device = scratch.join(&format!("fuse-{device_mode}"));
    if !device.exists() {
        let mut mknod = tool("mknod");
        mknod.arg("-m").arg(device_mode).arg(&device).args(["c", "10", "229"]);
        super::program::succeed(&mut mknod);
    }
    let before = "mount --bind \"$DEVICE\" /dev/fuse
        user() { setpriv --reuid=65534 --regid=65534 --clear-groups -- \"$@\"; }";
    let mut command = tool("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-e", "-c"]);
    command.arg(format!("{before}\n{script}"));
    command.env("DEVICE", &device).env("PROGRAM", program(scratch));
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env_remove("SOURCE_DATE_EPOCH").current_dir(scratch.path());
    command
}

/// Numeric owner and group of a file.
pub fn owner(path: &Path) -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    let stat = std::fs::symlink_metadata(path).unwrap();
    (stat.uid(), stat.gid())
}
