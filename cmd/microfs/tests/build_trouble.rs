//! Builds that cannot be done: nothing tagged, nothing half-written, one line
//! that names what is in the way.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::content::{Content, Fill};
use support::image::{Image, assert_nothing_written};
use support::program::{fail, microfs, ok, output, refuse, succeed, texts, tool};
use support::scratch::{Scratch, mount_tmpfs};
use support::users::as_nobody;

#[test]
fn a_source_that_is_no_directory_is_named() {
    let scratch = Scratch::new();
    let file = scratch.file("file", "");
    let layout = scratch.join("layout");
    refuse(words!["build", scratch.join("missing"), layout, "t"], &["missing"]);
    refuse(words!["build", file, layout, "t"], &["file", "not a directory"]);
    assert!(!layout.exists(), "nothing was created");
}

#[test]
fn a_build_never_contains_its_own_store() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    scratch.file("source/a", "content");
    let layout = scratch.join("source/store");
    ok(words!["build", "-q", source, layout, "t"]);
    let first = ok(words!["ls", "-1", layout, "t"]);
    assert_eq!(first, "/\n/a\n");
    ok(words!["build", "-q", source, layout, "u"]);
    assert_eq!(ok(words!["ls", "-1", layout, "u"]), first);
    refuse(words!["build", layout, layout, "v"], &["where the output goes"]);
}

/// Takes what a full disk leaves: an error of one line and code 1, after which
/// the same build in the same place works when there is room.
fn assert_room_decides(source: &Path, data: &std::ffi::CStr, room: &str) -> bool {
    let scratch = Scratch::new();
    let disk = scratch.dir("disk");
    mount_tmpfs(&disk, data);
    let layout = disk.join("layout");
    let output = output(&mut microfs(words!["build", "-q", source, layout, "t"]));
    let (_, err) = texts(&output);
    if output.status.success() {
        ok(words!["check", layout, "t"]);
        return true;
    }
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert_eq!(err.lines().count(), 1, "{err}");
    assert!(err.contains("No space left on device"), "{err}");
    assert_nothing_written(&layout);
    let sessions = std::fs::read_dir(layout.join(".microfs/sessions")).map_or(0, Iterator::count);
    assert_eq!(sessions, 0, "the folder of the failed build is left");
    succeed(tool("mount").args(["-o", &format!("remount,{room}")]).arg(&disk));
    ok(words!["build", "-q", source, layout, "t"]);
    ok(words!["check", layout, "t"]);
    false
}

#[test]
fn a_full_disk_leaves_nothing_tagged() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    let content = Content::whole(4 << 20, Fill::Random(1)).bytes();
    scratch.file("source/large", content);
    let layout = scratch.dir("disk");
    mount_tmpfs(&layout, c"size=1m");
    refuse(words!["build", source, layout, "t"], &["No space left on device"]);
    assert_nothing_written(&layout);
    let blobs = std::fs::read_dir(layout.join("blobs/sha256")).map_or(0, Iterator::count);
    assert_eq!(blobs, 0, "no blob is there");
}

#[test]
fn a_disk_that_gets_full_at_any_moment_leaves_a_whole_layout() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    scratch.file("source/file", Content::whole(60_000, Fill::Random(1)).bytes());
    let mut worked = 0;
    for pages in 1..=32u32 {
        let data = std::ffi::CString::new(format!("nr_blocks={pages}")).unwrap();
        worked += u32::from(assert_room_decides(&source, &data, "nr_blocks=1000"));
    }
    assert!((1..32).contains(&worked), "{worked} of 32 sizes were enough");
    let mut worked = 0;
    for inodes in 2..=20u32 {
        let data = std::ffi::CString::new(format!("nr_inodes={inodes}")).unwrap();
        worked += u32::from(assert_room_decides(&source, &data, "nr_inodes=1000"));
    }
    assert!((1..19).contains(&worked), "{worked} of 19 numbers of inodes were enough");
}

#[test]
fn what_a_user_cannot_read_is_named_or_left_out() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    scratch.file("source/readable", "yes");
    let secret = scratch.file("source/secret", "no");
    let closed = scratch.dir("source/closed");
    scratch.file("source/closed/inside", "no");
    let out = scratch.dir("out");
    std::fs::set_permissions(&out, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o600)).unwrap();
    let build = |tag: &str, more: &[&str]| {
        let mut words = words!["build", source, out.join("layout"), tag];
        words.extend(more.iter().map(std::ffi::OsString::from));
        as_nobody(&scratch, words)
    };
    let line = fail(&mut build("t", &[]), 1);
    assert!(line.contains("source/secret") && line.contains("Permission denied"), "{line}");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).unwrap();
    let line = fail(&mut build("t", &["--exclude", "secret"]), 1);
    assert!(line.contains("source/closed") && line.contains("Permission denied"), "{line}");
    assert_nothing_written(&out.join("layout"));

    let output = output(&mut build("u", &["--on-error", "skip"]));
    let (_, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    assert_eq!(err.lines().count(), 2, "one line for each that was left out: {err}");
    assert!(err.contains("left out \"secret\"") && err.contains("left out \"closed\""), "{err}");
    let listing = ok(words!["ls", "-1", out.join("layout"), "u"]);
    assert_eq!(listing, "/\n/readable\n");
    ok(words!["check", out.join("layout"), "u"]);
    let json = succeed(&mut build("v", &["--on-error", "skip", "--json"]));
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["skipped"].as_array().unwrap().len(), 2, "{json}");
}

/// Builds a directory with a file `log` that may grow at any moment, and says
/// whether it was seen to. If not, the image has the file as it once was.
fn build_of_growing(source: &Path, layout: &Path, options: &[&str]) -> bool {
    let mut command = microfs(words!["build", "-q", source, layout, "t"]);
    let output = output(command.args(options));
    let (_, err) = texts(&output);
    let seen = !err.is_empty();
    assert!(err.lines().count() <= 1, "{err}");
    assert!(!seen || (err.contains("\"log\"") || err.contains("/log\"")), "{err}");
    assert!(!seen || err.contains("changed while it was read"), "{err}");
    if seen && options.is_empty() {
        assert_eq!(output.status.code(), Some(1), "{err}");
        assert!(err.contains("snapshot") && err.contains("--on-error skip"), "{err}");
        assert_nothing_written(layout);
        return true;
    }
    assert!(output.status.success(), "{err}");
    ok(words!["check", layout, "t"]);
    if seen {
        assert_eq!(ok(words!["ls", "-1", layout, "t"]), "/\n/a\n");
        // Nothing of what was left out is in the blob.
        let report: serde_json::Value =
            serde_json::from_str(&ok(words!["check", "--json", layout, "t"])).unwrap();
        assert_eq!(report["unused_bytes"], 0, "{report}");
    } else {
        let whole = ok(words!["cat", layout, "t", "/log"]);
        let dots = whole.strip_prefix("first line\n").unwrap();
        assert!(dots.bytes().all(|byte| byte == b'.'), "not what was ever written");
    }
    ok(words!["untag", layout, "t"]);
    ok(words!["gc", layout]);
    seen
}

#[test]
fn a_file_that_always_grows_fails_the_build() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    scratch.file("source/a", Content::whole(2 << 20, Fill::Random(1)).bytes());
    let log = scratch.file("source/log", "first line\n");
    let layout = scratch.join("layout");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::File::options().append(true).open(&log).unwrap();
            // A limit, so that a failing test does not fill the memory.
            for _ in 0..50_000_000 {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                file.write_all(b".").unwrap();
            }
        });
        let done = std::panic::catch_unwind(|| {
            for options in [&[][..], &["--on-error", "skip"]] {
                let caught = (0..100).any(|_| build_of_growing(&source, &layout, options));
                assert!(caught, "the file was never seen to change");
            }
        });
        stop.store(true, Ordering::Relaxed);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
}

/// Where a build of one thread is when it is stopped: `a` is being written,
/// and `z`, which comes after it, has been scanned and not been read yet.
const FIRST_FILE: u64 = 48 << 20;
const STOP_FROM: u64 = 64 << 10;
const STOP_UP_TO: u64 = 16 << 20;

fn temporary_bytes(layout: &Path) -> u64 {
    let sessions = std::fs::read_dir(layout.join(".microfs/sessions")).into_iter().flatten();
    let files = sessions.flatten().flat_map(|session| std::fs::read_dir(session.path()));
    let lengths = files.flatten().flatten().filter_map(|file| {
        let is_blob = file.file_name().as_encoded_bytes().ends_with(b".tmp");
        file.metadata().ok().filter(|_| is_blob).map(|metadata| metadata.len())
    });
    lengths.max().unwrap_or(0)
}

fn stop(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).unwrap();
    // The signal takes effect a moment later.
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        if matches!(state, Some('T' | 'Z')) {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a build, and does something to its source in the middle of it.
fn build_with(
    scratch: &Scratch,
    source: &Path,
    more: &[&str],
    change: impl Fn(),
) -> (std::process::Output, PathBuf) {
    for attempt in 0..20 {
        let layout = scratch.join(&format!("layout-{attempt}"));
        let _ = std::fs::remove_dir_all(&layout);
        let mut command = microfs(words!["build", "-q", "-j", "1", source, layout, "t"]);
        command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut at = 0;
        while at < STOP_FROM && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
            at = temporary_bytes(&layout);
        }
        stop(&child);
        let too_late = temporary_bytes(&layout) > STOP_UP_TO || at < STOP_FROM;
        if !too_late {
            change();
        }
        kill_process(Pid::from_child(&child), Signal::CONT).unwrap();
        let output = child.wait_with_output().unwrap();
        if !too_late {
            return (output, layout);
        }
    }
    panic!("no build could be stopped in the middle");
}

/// What the message says, and what is done to the file.
type Change = (&'static str, fn(&Path));

#[test]
fn a_file_that_is_not_what_it_was_fails_the_build() {
    let changes: [Change; 8] = [
        ("vanished", |z| std::fs::remove_file(z).unwrap()),
        ("changed", |z| {
            std::fs::File::options().append(true).open(z).unwrap().write_all(b"more").unwrap();
        }),
        ("changed", |z| std::fs::File::options().write(true).open(z).unwrap().set_len(5).unwrap()),
        ("changed", |z| {
            // The same bytes and length in another file.
            let bytes = std::fs::read(z).unwrap();
            std::fs::write(z.with_extension("new"), bytes).unwrap();
            std::fs::rename(z.with_extension("new"), z).unwrap();
        }),
        ("changed", |z| {
            std::fs::remove_file(z).unwrap();
            symlink("/etc/passwd", z).unwrap();
        }),
        ("changed", |z| {
            std::fs::remove_file(z).unwrap();
            let mode = rustix::fs::Mode::RUSR;
            rustix::fs::mknodat(rustix::fs::CWD, z, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        }),
        ("changed", |z| {
            std::fs::remove_file(z).unwrap();
            std::fs::create_dir(z).unwrap();
        }),
        ("vanished", |z| std::fs::remove_dir_all(z.parent().unwrap()).unwrap()),
    ];
    let large = Content::whole(FIRST_FILE, Fill::Random(1)).bytes();
    for (number, (word, change)) in changes.into_iter().enumerate() {
        for skip in [false, true] {
            eprintln!("change {number}, skip {skip}");
            let scratch = Scratch::new();
            let source = scratch.dir("source");
            scratch.file("source/a", &large);
            let z = scratch.file("source/directory/z", "what it was");
            let options: &[&str] = if skip { &["--on-error", "skip"] } else { &[] };
            let (output, layout) = build_with(&scratch, &source, options, || change(&z));
            let (_, err) = texts(&output);
            assert_eq!(err.lines().count(), 1, "{err}");
            assert!(err.contains("directory/z") && err.contains(word), "{word} wanted: {err}");
            if skip {
                assert!(output.status.success(), "{err}");
                assert_eq!(ok(words!["ls", "-1", layout, "t"]), "/\n/a\n/directory\n");
                ok(words!["check", layout, "t"]);
                assert!(!err.contains("snapshot"), "it was left out already: {err}");
            } else {
                assert_eq!(output.status.code(), Some(1), "{err}");
                assert!(err.contains("snapshot") && err.contains("--on-error skip"), "{err}");
                assert_nothing_written(&layout);
            }
        }
    }
}

#[test]
fn a_killed_build_leaves_a_layout_that_works() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    scratch.file("source/more", Content::whole(FIRST_FILE, Fill::Random(9)).bytes());
    let mut child = microfs(words!["build", "-q", "-j", "1", source, layout, "u"]).spawn().unwrap();
    while temporary_bytes(&layout) < STOP_FROM && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    ok(words!["check", layout, "t"]);
    refuse(words!["inspect", layout, "u"], &["it has t"]);
    ok(words!["gc", layout]);
    assert_eq!(temporary_bytes(&layout), 0, "gc removes what the killed build left");
    ok(words!["build", "-q", source, layout, "u"]);
    ok(words!["check", layout, "u"]);
}
