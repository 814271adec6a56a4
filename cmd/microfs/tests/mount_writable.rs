//! Writable mounts: what they show before anything is changed, and to whom.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;
use support::content::{Content, Fill};
use support::image::Image;
use support::plan::{Meta, Plan, ROOT, What};
use support::program::{microfs, ok, output, refuse, succeed, texts, tool, unmount};
use support::same::assert_same;
use support::scratch::{Scratch, mounts_below};
use support::server::Server;

/// An image whose root is like no new directory; gives source and layout.
fn image(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let pair = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
    let xattrs = vec![pair("trusted.key", b""), pair("user.key", b"value")];
    let root = Meta { uid: 7, gid: 8, mtime: (-5, 123_456_789), xattrs, ..Meta::plain(0o3751) };
    let mut plan = Plan::new(root);
    let small = What::File(Content::whole(2000, Fill::Words(1)));
    plan.add(ROOT, b"file", small, Meta::plain(0o640));
    let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
    plan.make(&source, None);
    ok(words!["build", "-q", source, layout, "t"]);
    (source, layout)
}

/// What coreutils and getfattr say of a directory.
#[track_caller]
fn described(path: &Path) -> String {
    let stat = succeed(tool("stat").args(["-c", "%F %a %u %g %y"]).arg(path));
    let mut attributes = tool("getfattr");
    attributes.args(["--absolute-names", "--dump", "--match=^(user|trusted).key"]).arg(path);
    let attributes = succeed(&mut attributes);
    let attributes: Vec<_> = attributes.lines().filter(|line| !line.starts_with('#')).collect();
    stat + &attributes.join("\n")
}

fn mount_with(layout: &Path, at: &Path, options: &[&str], temporary: &Path) -> Command {
    let mut words = words!["mount"];
    words.extend(options.iter().map(OsString::from));
    words.extend(words![layout, "t", at]);
    let mut command = microfs(words);
    command.env("TMPDIR", temporary);
    command
}

#[test]
fn the_root_is_the_images_until_it_is_changed() {
    let scratch = Scratch::new();
    let (source, layout) = image(&scratch);
    let (at, temporary) = (scratch.dir("mount"), scratch.dir("temporary"));
    let [new, empty, kept] = ["new", "empty", "kept"].map(|name| scratch.join(name));
    std::fs::create_dir(&empty).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let wanted = described(&source);
    assert!(wanted.contains("directory 3751 7 8 1969-12-31 23:59:55.123456789"), "{wanted}");
    assert!(wanted.contains("user.key=\"value\""), "{wanted}");
    let ways = [
        vec!["-w".to_owned()],
        vec!["--upper".to_owned(), text(&new)],
        vec!["--upper".to_owned(), text(&empty)],
        vec!["--persist".to_owned(), text(&kept)],
    ];
    for way in &ways {
        let options: Vec<&str> = way.iter().map(String::as_str).collect();
        let mount = || drop(succeed(&mut mount_with(&layout, &at, &options, &temporary)));
        mount();
        assert_eq!(described(&at), wanted, "{way:?}");
        assert_same(&source, &at);
        succeed(tool("sh").current_dir(&at).args([
            "-e",
            "-c",
            "chmod 00700 .; chown 1:1 .; setfattr -x user.key .; touch -d @5 .",
        ]));
        unmount(&at);
        // The change of the root is a change as any other.
        mount();
        let now = described(&at);
        if options == ["-w"] {
            assert_eq!(now, wanted);
        } else {
            assert!(now.contains(" 700 1 1 1970-01-01 00:00:05.0"), "{way:?}: {now}");
            assert!(!now.contains("user.key"), "{way:?}: {now}");
        }
        unmount(&at);
    }
}

#[test]
fn an_upper_directory_in_use_keeps_its_attributes() {
    let scratch = Scratch::new();
    let (_, layout) = image(&scratch);
    let (at, temporary) = (scratch.dir("mount"), scratch.dir("temporary"));
    let upper = scratch.dir("upper");
    scratch.file("upper/mine", "content");
    let before = described(&upper);
    let options = ["--upper", upper.to_str().unwrap()];
    succeed(&mut mount_with(&layout, &at, &options, &temporary));
    assert_eq!(described(&at), before);
    unmount(&at);
}

/// An image whose files are for others, too, in part; gives source and layout.
fn shared_image(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let source = scratch.dir("source");
    let plain = Content::whole(2000, Fill::Words(1));
    let mut plan = Plan::new(Meta::plain(0o755));
    let bin = plan.add(ROOT, b"bin", What::Directory, Meta::plain(0o755));
    // One attribute that is no ACL: the kernel asks for ACLs then, and must not
    // take the answer for a refusal.
    let xattrs = vec![(b"user.key".to_vec(), b"value".to_vec())];
    let meta = Meta { xattrs, ..Meta::plain(0o644) };
    plan.add(ROOT, b"file", What::File(plain.clone()), meta);
    plan.add(ROOT, b"secret", What::File(plain.clone()), Meta::plain(0o600));
    plan.add(ROOT, b"tmp", What::Directory, Meta::plain(0o1777));
    let mine = Meta { uid: 4321, ..Meta::plain(0o600) };
    plan.add(bin, b"mine", What::File(plain.clone()), mine);
    plan.add(bin, b"other", What::File(plain), Meta::plain(0o644));
    plan.make(&source, None);
    std::fs::copy("/bin/true", source.join("bin/true")).unwrap();
    let layout = scratch.join("layout");
    ok(words!["build", "-q", source, layout, "t"]);
    (source, layout)
}

/// Runs commands in a directory as an ordinary user, some to succeed, some not.
#[track_caller]
fn other_user(at: &Path, allowed: &[&str], refused: &[&[&str]]) {
    let run = |words: &[&str]| {
        let mut command = tool("setpriv");
        command.args(["--reuid=4321", "--regid=4321", "--clear-groups", "--"]).args(words);
        output(command.current_dir(at))
    };
    let done = run(allowed);
    assert!(done.status.success(), "{allowed:?}: {:?}", texts(&done));
    for words in refused {
        let (_, err) = texts(&run(words));
        assert!(err.contains("Permission denied"), "{words:?}: {err}");
    }
}

/// What the first to look at a fresh mount does there.
const FIRSTS: [&[&str]; 4] =
    [&["./bin/true"], &["cmp", "file", "bin/other"], &["cat", "bin/mine"], &["ls", "-l", "."]];

#[test]
fn other_users_read_run_and_write_what_they_may() {
    let scratch = Scratch::new();
    let (_, layout) = shared_image(&scratch);
    let at = scratch.dir("mount");
    let write: &[&str] = &["sh", "-c", "echo x >tmp/new && cat tmp/new"];
    for first in FIRSTS.into_iter().chain([write]) {
        ok(words!["mount", "-w", layout, "t", at]);
        other_user(&at, first, &[&["cat", "secret"], &["touch", "new"]]);
        unmount(&at);
    }
}

/// An overlay keeps the permissions that the kernel has of a lower root when it
/// is made: without a look at it before, none, and all but root were refused.
#[test]
fn an_overlay_that_others_make_of_a_fresh_mount_lets_users_in() {
    let scratch = Scratch::new();
    let (_, layout) = shared_image(&scratch);
    let (at, merged) = (scratch.dir("mount"), scratch.dir("merged"));
    let below = scratch.dir("below");
    let lower = format!("lowerdir={}:{}", at.display(), below.display());
    for first in FIRSTS {
        ok(words!["mount", layout, "t", at]);
        succeed(tool("mount").args(["-t", "overlay", "-o", &lower, "overlay"]).arg(&merged));
        other_user(&merged, first, &[&["cat", "secret"]]);
        succeed(tool("umount").arg(&merged));
        unmount(&at);
    }
}

#[test]
fn restrictions_hold_for_what_is_seen() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    std::fs::copy("/bin/true", source.join("true")).unwrap();
    let (layout, at) = (scratch.join("layout"), scratch.dir("mount"));
    ok(words!["build", "-q", source, layout, "t"]);
    ok(words!["mount", "-w", "-o", "nosuid,nodev,noexec", layout, "t", at]);
    let error = Command::new(at.join("true")).status().unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    let shown = succeed(tool("findmnt").args(["-n", "-t", "overlay", "-o", "OPTIONS"]).arg(&at));
    for option in ["nosuid", "nodev", "noexec"] {
        assert!(shown.contains(option), "{shown}");
    }
    unmount(&at);
    ok(words!["mount", "-w", layout, "t", at]);
    succeed(&mut Command::new(at.join("true")));
    unmount(&at);
}

#[test]
fn a_signal_takes_image_and_overlay_down() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let (at, temporary) = (scratch.dir("mount"), scratch.dir("temporary"));
    for is_in_use in [false, true] {
        let words = words!["mount", "-f", "--persist", scratch.join("kept"), layout, "t", at];
        let (byte, server) = Server::with_pipe(&scratch, words);
        assert_eq!(byte, b's');
        let open = is_in_use.then(|| std::fs::File::open(at.join("large")).unwrap());
        server.signal(Signal::TERM);
        while !mounts_below(&at).is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        drop(open);
        assert!(server.wait().success());
    }
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

/// overlayfs removes what it finds in its working directory.
#[test]
fn what_others_have_put_there_is_not_taken_for_our_own() {
    let scratch = Scratch::new();
    let (_, layout) = image(&scratch);
    let at = scratch.dir("mount");
    // overlayfs itself makes a folder of this name in its own.
    let precious = |folder: &str| {
        let inner = format!("{folder}/work");
        scratch.dir(&inner);
        scratch.file(&format!("{inner}/file"), "precious")
    };
    let files = [precious("kept/work"), precious(".upper.work")];
    let (kept, upper) = (scratch.join("kept"), scratch.dir("upper"));
    refuse(words!["mount", "--persist", kept, layout, "t", at], &["kept is not empty"]);
    refuse(words!["mount", "--upper", upper, layout, "t", at], &[".upper.work", "not put there"]);
    for file in files {
        assert_eq!(std::fs::read(file).unwrap(), b"precious");
    }
    refuse(words!["mount", "--persist", layout, layout, "t", at], &["layout is not empty"]);
    assert!(std::fs::read_dir(&at).unwrap().next().is_none());
}

#[test]
fn changes_belong_to_one_mount_at_a_time() {
    let scratch = Scratch::new();
    let (_, layout) = image(&scratch);
    let (at, other, temporary) =
        (scratch.dir("mount"), scratch.dir("other"), scratch.dir("temporary"));
    for option in ["--persist", "--upper"] {
        let changes = scratch.join(option);
        let options = [option, changes.to_str().unwrap()];
        succeed(&mut mount_with(&layout, &at, &options, &temporary));
        std::fs::write(at.join("new"), "content").unwrap();
        refuse(
            words!["mount", option, changes, layout, "t", other],
            &["belong to a mount that is still there"],
        );
        assert!(std::fs::read_dir(&other).unwrap().next().is_none());
        unmount(&at);
        succeed(&mut mount_with(&layout, &other, &options, &temporary));
        assert_eq!(std::fs::read(other.join("new")).unwrap(), b"content");
        unmount(&other);
    }
}

#[test]
fn a_mount_that_fails_leaves_no_directories_for_changes() {
    let scratch = Scratch::new();
    let (_, layout) = image(&scratch);
    let (at, upper) = (scratch.dir("mount"), scratch.join("upper"));
    let nowhere = at.join("none");
    refuse(words!["mount", "--upper", upper, layout, "t", nowhere], &["none"]);
    // In the mount itself, which is read-only.
    ok(words!["mount", layout, "t", at]);
    let inside = at.join("upper");
    let other = scratch.dir("other");
    refuse(words!["mount", "--upper", inside, layout, "t", other], &["upper for changes"]);
    unmount(&at);
    assert!(!upper.exists() && !scratch.join(".upper.work").exists());
}
