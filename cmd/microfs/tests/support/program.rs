//! The program under test, as others run it.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// The built binary.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_microfs");

/// The program with the environment that tests need.
pub fn microfs(words: Vec<OsString>) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(words).env_remove("SOURCE_DATE_EPOCH").stdin(Stdio::null());
    command
}

/// Runs a command and returns what it printed; it must succeed.
#[track_caller]
pub fn succeed(command: &mut Command) -> String {
    let output = output(command);
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out
}

/// Runs the program; it must succeed.
#[track_caller]
pub fn ok(words: Vec<OsString>) -> String {
    succeed(&mut microfs(words))
}

/// Takes a mount down.
#[track_caller]
pub fn unmount(at: &Path) {
    let out = when_idle(|| microfs(words!["umount", at]));
    assert_eq!(out, "");
}

/// Runs a command that takes a mount down. What another test starts has copies
/// of this one's open files for a moment, and anything on the machine may look
/// into a mount, so a busy one is tried again.
#[track_caller]
pub fn when_idle(command: impl Fn() -> Command) -> String {
    for _ in 0..500 {
        let output = output(&mut command());
        let (out, err) = texts(&output);
        if output.status.success() {
            return out;
        }
        assert!(err.contains("busy"), "{err}");
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{:?}: it stays busy", command());
}

/// Runs a command that must fail with this exit code and exactly one line on
/// standard error, which is returned.
#[track_caller]
pub fn fail(command: &mut Command, code: i32) -> String {
    let output = output(command);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(code), "{command:?}\n{out}{err}");
    assert_eq!(err.lines().count(), 1, "{command:?}: one line wanted:\n{err}");
    assert!(err.starts_with("microfs: "), "{command:?}: {err}");
    assert_eq!(out, "", "{command:?}: nothing wanted on standard output");
    err
}

/// As [`fail`] with code 1, and the line must hold all of these.
#[track_caller]
pub fn refuse(words: Vec<OsString>, parts: &[&str]) -> String {
    let line = fail(&mut microfs(words), 1);
    for part in parts {
        assert!(line.contains(part), "{part:?} wanted in: {line}");
    }
    line
}

#[track_caller]
pub fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"))
}

pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// A tool that the tests need; `make setup` installs all of them.
#[track_caller]
pub fn tool(name: &str) -> Command {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()));
    assert!(found, "{name} is not installed: run `make setup`");
    Command::new(name)
}
