//! A mount from its making to its end.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use support::image::Image;
use support::program::{
    PROGRAM, fail, microfs, ok, output, refuse, succeed, texts, tool, unmount, when_idle,
};
use support::same::assert_same;
use support::scratch::{Scratch, is_mounted};
use support::server::{Pipe, Server};

#[test]
fn in_the_background_it_answers_when_the_command_returns() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let at = scratch.dir("mount");
    // The output's end is waited for: the server has let go of it.
    assert_eq!(ok(words!["mount", layout, "t", at]), "");
    assert!(is_mounted(&at));
    assert_same(&source, &at);
    unmount(&at);
    assert!(!is_mounted(&at));
    let colon = OsString::from(format!("{}:t", layout.display()));
    ok(words!["mount", colon, at]);
    assert_same(&source, &at);
    unmount(&at);
}

#[test]
fn relative_paths_are_those_of_the_caller() {
    let scratch = Scratch::new();
    let Image { source, .. } = Image::new(&scratch);
    let at = scratch.dir("mount");
    succeed(microfs(words!["mount", "layout", "t", "mount"]).current_dir(scratch.path()));
    assert_same(&source, &at);
    when_idle(|| {
        let mut command = microfs(words!["umount", "mount"]);
        command.current_dir(scratch.path());
        command
    });
}

#[test]
fn signals_unmount_cleanly() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let at = scratch.dir("mount");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let server = Server::start(&scratch, &layout, "t", &at);
        assert_same(&source, &at);
        server.signal(signal);
        assert!(server.wait().success(), "{signal:?}");
        assert!(!is_mounted(&at), "{signal:?}");
    }
}

#[test]
fn a_signal_to_a_mount_in_use_lets_its_users_finish() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let at = scratch.dir("mount");
    let mut server = Server::start(&scratch, &layout, "t", &at);
    let open = std::fs::File::open(at.join("large")).unwrap();
    server.signal(Signal::TERM);
    while is_mounted(&at) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(!server.has_ended());
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut &open, &mut bytes).unwrap();
    assert_eq!(bytes.len() as u64, support::image::LARGE);
    drop(open);
    assert!(server.wait().success());

    // A second signal does not wait.
    let server = Server::start(&scratch, &layout, "t", &at);
    let open = std::fs::File::open(at.join("large")).unwrap();
    server.signal(Signal::TERM);
    while is_mounted(&at) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    server.signal(Signal::TERM);
    assert_eq!(server.wait().code(), Some(1), "it left users behind");
    drop(open);
}

#[test]
fn unmounting_from_outside_ends_the_server() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let at = scratch.dir("mount");
    let ways: [fn(&Path); 4] = [
        unmount,
        |at| drop(ok(words!["umount", "--lazy", at])),
        |at| {
            when_idle(|| {
                let mut command = tool("umount");
                command.arg(at);
                command
            });
        },
        |at| {
            when_idle(|| {
                let mut command = tool("fusermount3");
                command.arg("-u").arg(at);
                command
            });
        },
    ];
    for way in ways {
        let server = Server::start(&scratch, &layout, "t", &at);
        way(&at);
        assert!(server.wait().success());
        assert!(!is_mounted(&at));
    }
}

#[test]
fn a_killed_server_leaves_a_mount_that_can_be_taken_down_or_over() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let (at, other) = (scratch.dir("mount"), scratch.dir("other"));
    ok(words!["mount", layout, "t", other]);
    let server = Server::start(&scratch, &layout, "t", &at);
    server.signal(Signal::KILL);
    server.wait();
    let error = std::fs::metadata(&at).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOTCONN.raw_os_error()));
    refuse(words!["mount", layout, "t", at], &["server has died", "unmount it first"]);
    unmount(&at);
    ok(words!["mount", layout, "t", at]);
    assert_same(&source, &at);
    assert_same(&source, &other);
    unmount(&at);
    unmount(&other);
}

#[test]
fn the_init_pipe_gets_one_byte() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let (at, missing) = (scratch.dir("mount"), scratch.join("missing"));
    for flags in [words!["mount", "-f"], words!["mount"]] {
        let words = |tag: &str, at: &Path| [flags.clone(), words![layout, tag, at]].concat();
        let (byte, server) = Server::with_pipe(&scratch, words("t", &at));
        assert_eq!(byte, b's');
        assert!(is_mounted(&at));
        unmount(&at);
        assert!(server.wait().success());
        for (tag, at) in [("nosuch", &at), ("t", &missing)] {
            let (byte, server) = Server::with_pipe(&scratch, words(tag, at));
            assert_eq!(byte, b'f');
            assert_eq!(server.wait().code(), Some(1));
        }
    }
    let line = ["--init-pipe", missing.to_str().unwrap()];
    let words = [words!["mount", layout, "t", at], line.map(OsString::from).into()].concat();
    refuse(words, &["cannot use init pipe", "missing"]);
    assert!(!is_mounted(&at));
}

/// Runs the program with a FIFO as its file descriptor 7.
fn with_descriptor(pipe: &Pipe, words: Vec<OsString>) -> Command {
    let mut command = tool("sh");
    command.args(["-c", "exec \"$0\" \"$@\" 7>\"$FIFO\""]).arg(PROGRAM).args(words);
    command.env("FIFO", &pipe.path);
    command
}

#[test]
fn the_ready_descriptor_gets_one_byte() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let at = scratch.dir("mount");
    for flags in [words!["mount", "-f"], words!["mount"]] {
        let words =
            |tag: &str| [flags.clone(), words!["--ready-fd", "7", layout, tag, at]].concat();
        let pipe = Pipe::new(&scratch);
        let server = Server::of(&scratch, &mut with_descriptor(&pipe, words("t")));
        assert_eq!(pipe.byte(), b's');
        assert!(is_mounted(&at));
        unmount(&at);
        assert!(server.wait().success());

        let pipe = Pipe::new(&scratch);
        let line = fail(&mut with_descriptor(&pipe, words("nosuch")), 1);
        assert!(line.contains("it has t"), "{line}");
        assert_eq!(pipe.byte(), b'f');
    }
    let words = words!["mount", "--ready-fd", "99", layout, "t", at];
    refuse(words, &["file descriptor 99"]);
}

/// The line of a mount in the mount table.
fn table_line(at: &Path) -> String {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = format!(" {} ", at.display());
    table.lines().find(|line| line.contains(&place)).unwrap().to_owned()
}

#[test]
fn options_are_those_of_mount_8() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let at = scratch.dir("mount");
    let mount = |options: &str| {
        ok(words!["mount", "-o", options, layout, "t", at]);
        let line = table_line(&at);
        when_idle(|| {
            let mut command = tool("umount");
            command.arg(&at);
            command
        });
        line
    };
    let line = mount("ro,default_permissions,x-systemd.automount,nofail,_netdev");
    assert!(line.contains(" ro,"), "{line}");
    assert!(line.contains(&format!("fuse.microfs {}:t ro", layout.display())), "{line}");
    let line = mount("nosuid,nodev,noexec,noatime,fsname=a name,threads=2");
    assert!(line.contains("ro,nosuid,nodev,noexec,noatime"), "{line}");
    assert!(line.contains("fuse.microfs a\\040name ro"), "{line}");
    let line = mount("nosuid,suid,noexec,exec,nodev,dev,subtype=other");
    assert!(
        !line.contains("nosuid") && !line.contains("noexec") && !line.contains("nodev"),
        "{line}"
    );
    assert!(line.contains("fuse.other"), "{line}");
}

#[test]
fn noexec_and_nosuid_hold() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    std::fs::copy("/bin/true", source.join("true")).unwrap();
    let (layout, at) = (scratch.join("layout"), scratch.dir("mount"));
    ok(words!["build", "-q", source, layout, "t"]);
    ok(words!["mount", layout, "t", at]);
    succeed(&mut Command::new(at.join("true")));
    unmount(&at);
    ok(words!["mount", "-o", "noexec", layout, "t", at]);
    let error = Command::new(at.join("true")).status().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    unmount(&at);
}

/// As mount(8) calls it.
fn helper(words: Vec<OsString>) -> Command {
    let mut command = Command::new(PROGRAM);
    command.arg0("/sbin/mount.microfs").args(words);
    command
}

#[test]
fn as_mount_helper_it_takes_what_mount_8_gives() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let at = scratch.dir("mount");
    let image = format!("{}:t", layout.display());
    succeed(&mut helper(words![image, at, "-o", "rw,noatime", "-t", "microfs"]));
    assert_same(&source, &at);
    let line = table_line(&at);
    assert!(line.contains("ro,noatime") && line.contains(&image), "{line}");
    unmount(&at);
    let said = succeed(&mut helper(words![image, at, "-fv", "-o", "rw"]));
    assert!(!is_mounted(&at), "{said}");
    succeed(&mut helper(words![image, at, "-s", "-o", "nosuchoption"]));
    unmount(&at);
}

#[test]
fn as_mount_helper_it_ends_with_the_codes_of_mount_8() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let (at, missing) = (scratch.dir("mount"), scratch.join("missing"));
    let image = format!("{}:t", layout.display());
    let nosuch = format!("{image}-nosuch");
    assert!(succeed(&mut helper(words!["-h"])).starts_with("Usage: mount.microfs "));
    let line = fail(&mut microfs(words!["mount", image, ""]), 2);
    assert!(line.contains("empty word"), "{line}");
    // "1 incorrect invocation or permissions", "32 mount failure".
    let line = fail(&mut helper(words![image, at, "-o", "nosuchoption"]), 1);
    assert!(line.contains("nosuchoption"), "{line}");
    fail(&mut helper(words![image]), 1);
    fail(&mut helper(words![image, at, "-q"]), 1);
    fail(&mut helper(words![nosuch, at]), 32);
    fail(&mut helper(words![image, missing]), 32);
    fail(&mut helper(words![scratch.path(), at]), 32);
    assert!(!is_mounted(&at));
}

#[test]
fn mount_8_and_fstab_find_the_helper() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let (at, image) = (scratch.dir("mount"), format!("{}:t", layout.display()));
    let fstab = format!("{image} {} microfs noauto,ro,nosuid 0 0\n", at.display());
    let fstab = scratch.file("fstab", fstab);
    // In a mount namespace of its own /sbin holds nothing but the helper.
    let script = "
        mount -t tmpfs none \"$(realpath /sbin)\"
        ln -s \"$PROGRAM\" /sbin/mount.microfs
        ln -s \"$PROGRAM\" /sbin/mount.fuse.microfs
        mount -t fuse.microfs \"$IMAGE\" \"$AT\"
        umount \"$AT\"
        mount -t microfs \"$IMAGE\" \"$AT\"
        \"$PROGRAM\" diff \"$IMAGE\" \"$AT\"
        umount \"$AT\"
        mount --fstab \"$FSTAB\" \"$AT\"
        grep -c \"$AT ro,nosuid.*fuse.microfs\" /proc/self/mountinfo
        cat \"$AT/linked\"
        umount \"$AT\"
        mount -t microfs \"$IMAGE-nosuch\" \"$AT\" 2>&1 || echo \"code $?\"
        mount -t microfs -o nosuchoption \"$IMAGE\" \"$AT\" 2>&1 || echo \"code $?\"";
    let mut command = tool("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-e", "-c", script]);
    command.env("PROGRAM", PROGRAM).env("IMAGE", &image).env("AT", &at).env("FSTAB", &fstab);
    let out = succeed(&mut command);
    let linked = std::fs::read_to_string(source.join("linked")).unwrap();
    assert!(out.starts_with(&format!("1\n{linked}")), "{out}");
    assert!(out.contains("\"t-nosuch\""), "mount(8) shows the helper's reason: {out}");
    assert!(out.contains("\ncode 32\n") && out.ends_with("\ncode 1\n"), "{out}");
}

#[test]
fn a_mount_outlives_the_tag_and_the_blobs() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let at = scratch.dir("mount");
    ok(words!["mount", layout, "t", at]);
    ok(words!["untag", layout, "t"]);
    ok(words!["gc", layout]);
    assert_eq!(std::fs::read_dir(layout.join("blobs/sha256")).unwrap().count(), 0);
    assert_same(&source, &at);
    unmount(&at);
}

#[test]
fn a_mount_over_a_mount_is_made_on_request_only() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let at = scratch.dir("mount");
    ok(words!["mount", layout, "t", at]);
    refuse(words!["mount", layout, "t", at], &["already mounted"]);
    ok(words!["mount", "--over", layout, "t", at]);
    assert_same(&source, &at);
    unmount(&at);
    assert!(is_mounted(&at));
    unmount(&at);
    assert!(!is_mounted(&at));
}

#[test]
fn a_mount_is_known_by_whatever_type_it_shows() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let at = scratch.dir("mount");
    for (more, shown) in [(&[][..], "fuse.other"), (&["-w"], "overlay")] {
        let mut words = words!["mount", "-o", "subtype=other,fsname=any"];
        words.extend(more.iter().map(OsString::from));
        words.extend(words![layout, "t", at]);
        ok(words.clone());
        assert_same(&source, &at);
        assert!(table_line(&at).contains("fuse.other any"));
        refuse(words.clone(), &[shown, "already mounted"]);
        refuse(words!["mount", layout, "t", at], &[shown, "already mounted"]);
        unmount(&at);
        assert!(!is_mounted(&at));
        // A dead one as well.
        let words = [words!["mount", "-f"], words[1..].into()].concat();
        let (byte, server) = Server::with_pipe(&scratch, words);
        assert_eq!(byte, b's');
        server.signal(Signal::KILL);
        server.wait();
        unmount(&at);
        assert!(!is_mounted(&at));
    }
}

#[test]
fn what_others_have_mounted_over_a_mount_stays() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let (at, upper, work) = (scratch.dir("mount"), scratch.dir("upper"), scratch.dir("work"));
    ok(words!["mount", layout, "t", at]);
    let [lower, upper, work] = [&at, &upper, &work].map(|path| path.display());
    let data = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    for (fs_type, options) in [("tmpfs", "size=1m"), ("overlay", &data)] {
        succeed(tool("mount").args(["-t", fs_type, "-o", options, fs_type]).arg(&at));
        refuse(words!["umount", at], &[&format!("type {fs_type}, not of FUSE")]);
        succeed(tool("umount").arg(&at));
    }
    unmount(&at);
}

#[test]
fn no_more_threads_than_a_process_can_have() {
    let scratch = Scratch::new();
    let (image, mount) = (Image::new(&scratch), scratch.dir("mount"));
    for words in [["-j", "60000"], ["-o", "threads=1025"], ["-j", "0"]] {
        let mut command = microfs(words!["mount", image.layout, "t", mount]);
        let output = output(command.args(words));
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", texts(&output).1);
        assert!(!is_mounted(&mount));
    }
    ok(words!["mount", "-j", "1024", image.layout, "t", mount]);
    assert_same(&image.source, &mount);
    unmount(&mount);
}
