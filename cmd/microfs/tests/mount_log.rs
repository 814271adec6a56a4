//! Where a mount in the background reports damage.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use support::image::{Image, LARGE, damage};
use support::program::{PROGRAM, ok, succeed, tool};
use support::scratch::Scratch;

/// An image with damage in the file `large`; gives its layout.
fn damaged(scratch: &Scratch) -> PathBuf {
    let image = Image::new(scratch);
    damage(&image.layer(), LARGE / 2);
    image.layout
}

/// Mounts the image in a mount namespace of its own where `/dev` holds nothing
/// but the FUSE device, `null` and what the commands `more` add; reads the
/// damaged file there, and unmounts.
fn read_damage(scratch: &Scratch, layout: &std::path::Path, more: &str, mount: &str) -> Command {
    let script = format!(
        "mount -t tmpfs none /dev
        mknod -m 666 /dev/null c 1 3
        mknod -m 666 /dev/fuse c 10 229
        {more}
        {mount}
        if cat at/large >/dev/null 2>&1; then exit 9; fi
        \"$PROGRAM\" umount at"
    );
    let mut command = tool("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-e", "-c", &script]);
    scratch.dir("at");
    command.current_dir(scratch.path()).env("PROGRAM", PROGRAM).env("LAYOUT", layout);
    command
}

const MOUNT: &str = "\"$PROGRAM\" mount \"$LAYOUT\" t at";

/// What each report holds: image, mount point, request, file, place and rule.
#[track_caller]
fn assert_report(scratch: &Scratch, line: &str) {
    // Facility "daemon" (3), severity "error" (3), tag and process, as RFC 3164 has them.
    let text = line.strip_prefix("<27>microfs[").unwrap_or_else(|| panic!("{line}"));
    let (process, text) = text.split_once("]: ").unwrap();
    assert!(process.parse::<u32>().is_ok(), "{line}");
    let root = scratch.path().display();
    let start = format!("{root}/layout:t on {root}/at: read of /large: ");
    assert!(text.starts_with(&start), "{start:?} wanted in: {line}");
    assert!(text.contains("layer 0") && text.contains("block ") && text.contains("R13"), "{line}");
}

#[test]
fn the_syslog_daemon_gets_reports() {
    let scratch = Scratch::new();
    let layout = damaged(&scratch);
    let daemon = UnixDatagram::bind(scratch.join("socket")).unwrap();
    daemon.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let helper = "ln -s \"$PROGRAM\" mount.microfs; ./mount.microfs \"$LAYOUT:t\" at";
    for mount in [MOUNT, helper] {
        // With a kernel's log beside it, which then gets nothing.
        let more = "ln -s \"$PWD/socket\" /dev/log; touch kmsg; ln -s \"$PWD/kmsg\" /dev/kmsg";
        succeed(&mut read_damage(&scratch, &layout, more, mount));
        let mut bytes = [0; 8192];
        let length = daemon.recv(&mut bytes).unwrap();
        assert_report(&scratch, std::str::from_utf8(&bytes[..length]).unwrap());
        assert_eq!(std::fs::read_to_string(scratch.join("kmsg")).unwrap(), "");
        daemon.set_nonblocking(true).unwrap();
        while daemon.recv(&mut bytes).is_ok() {}
        daemon.set_nonblocking(false).unwrap();
    }
}

#[test]
fn without_a_daemon_the_kernels_log_gets_them() {
    let scratch = Scratch::new();
    let layout = damaged(&scratch);
    scratch.file("kmsg", "");
    let more = "ln -s \"$PWD/kmsg\" /dev/kmsg";
    succeed(&mut read_damage(&scratch, &layout, more, MOUNT));
    let text = std::fs::read_to_string(scratch.join("kmsg")).unwrap();
    assert!(!text.is_empty());
    for line in text.lines() {
        assert_report(&scratch, line);
    }
    // With neither, reading fails all the same, and nothing is made.
    let script = format!("{MOUNT}; ls /dev");
    assert_eq!(succeed(&mut read_damage(&scratch, &layout, "", &script)), "fuse\nnull\n");
}

#[test]
fn a_file_that_is_named_gets_them_alone() {
    let scratch = Scratch::new();
    let layout = damaged(&scratch);
    let more = "touch kmsg; ln -s \"$PWD/kmsg\" /dev/kmsg";
    let mount = "\"$PROGRAM\" mount --log log \"$LAYOUT\" t at";
    succeed(&mut read_damage(&scratch, &layout, more, mount));
    let text = std::fs::read_to_string(scratch.join("log")).unwrap();
    assert!(text.starts_with("microfs: read of /large: "), "{text}");
    assert_eq!(std::fs::read_to_string(scratch.join("kmsg")).unwrap(), "");
}

#[test]
fn help_says_where_reports_go() {
    let help = ok(words!["mount", "--help"]);
    let (_, log) = help.split_once("--log <FILE>").unwrap();
    let (log, _) = log.split_once("\n  -").unwrap_or((log, ""));
    for part in ["/dev/log", "/dev/kmsg", "standard error"] {
        assert!(log.contains(part), "{part} in: {log}");
    }
}
