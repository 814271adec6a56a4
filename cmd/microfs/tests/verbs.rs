//! What the verbs and options of the program do, beside building and mounting.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;

use serde_json::Value;
use support::content::{Content, Fill};
use support::image::{Image, damage};
use support::kinds::Kind;
use support::plan::{Meta, Plan, ROOT, What};
use support::program::{microfs, ok, output, refuse, succeed, texts, tool};
use support::same::assert_same;
use support::scratch::{Scratch, mount_tmpfs};

/// A file with every attribute set, for tests that change one of them.
fn detailed() -> Plan {
    let xattrs = vec![(b"user.key".to_vec(), b"value".to_vec())];
    let meta = Meta { uid: 7, gid: 8, mtime: (5, 5), xattrs, ..Meta::plain(0o640) };
    let mut plan = Plan::new(Meta::plain(0o755));
    let runs = vec![support::content::Run { offset: 0, length: 8192, fill: Fill::Random(1) }];
    let content = Content { size: 40_000, runs };
    let file = plan.add(ROOT, b"file", What::File(content), meta.clone());
    plan.link(ROOT, b"same", file);
    plan.add(ROOT, b"link", What::Symlink(b"file".to_vec()), Meta::plain(0o777));
    plan.add(ROOT, b"device", What::CharDevice(5, 6), Meta::plain(0o600));
    plan
}

#[test]
fn diff_finds_a_change_of_any_attribute() {
    let changes: [(&str, &str); 14] = [
        ("chmod 641 file", "/file: permissions 0640 -> 0641"),
        ("chown 9 file", "/file: uid 7 -> 9"),
        ("chgrp 9 file", "/file: gid 8 -> 9"),
        ("touch -d @5.000000006 file", "/file: mtime 5+000000005ns -> 5+000000006ns"),
        ("printf X | dd of=file bs=1 seek=5000 conv=notrunc status=none", "/file: content at 5000"),
        ("printf '\\0' | dd of=file bs=1 seek=20000 conv=notrunc status=none", "/file: map at"),
        ("truncate -s 40001 file", "/file: size 40000 -> 40001"),
        ("rm same; cp -a file same", "/same: hard link to"),
        ("ln file more", "/more: extra (regular file)"),
        ("rm same", "/same: missing (regular file)"),
        ("ln -sfn other link", "/link: target \"file\" -> \"other\""),
        ("rm device; mknod -m 600 device c 5 7", "/device: device 5:6 -> 5:7"),
        ("rm device; mkdir device", "/device: type character device -> directory"),
        ("chmod 700 .", "/: permissions 0755 -> 0700"),
    ];
    for (command, line) in changes {
        let scratch = Scratch::new();
        let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
        detailed().make(&source, None);
        ok(words!["build", "-q", source, layout, "t"]);
        assert_eq!(ok(words!["diff", layout, "t", source]), "");
        succeed(tool("sh").args(["-e", "-c", command]).current_dir(&source));
        let output = output(&mut microfs(words!["diff", layout, "t", source]));
        let (out, err) = texts(&output);
        assert_eq!((output.status.code(), err.as_str()), (Some(1), ""), "{command}: {out}");
        assert!(out.lines().any(|found| found.starts_with(line)), "{command}: {line} in\n{out}");
    }
}

#[test]
fn diff_leaves_out_what_it_is_told_to() {
    let scratch = Scratch::new();
    let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
    detailed().make(&source, None);
    ok(words!["build", "-q", source, layout, "t"]);
    let change = "touch file; chown 1:1 link; setfattr -n user.key -v other file; rm device
        touch -d @1700000000 .";
    succeed(tool("sh").args(["-e", "-c", change]).current_dir(&source));
    let options = ["--no-mtime", "--no-owner", "--no-xattrs", "--exclude=device"];
    for without in 0..options.len() {
        let mut words = words!["diff", layout, "t", source];
        let given = options.iter().enumerate().filter(|(index, _)| *index != without);
        words.extend(given.map(|(_, option)| OsString::from(option)));
        let left = output(&mut microfs(words));
        assert_eq!(left.status.code(), Some(1), "without {}", options[without]);
    }
    let mut words = words!["diff", layout, "t", source];
    words.extend(options.map(OsString::from));
    assert_eq!(ok(words), "");
}

fn names(layout: &Path, tag: &str) -> BTreeSet<String> {
    ok(words!["ls", "-1", layout, tag]).lines().map(str::to_owned).collect()
}

#[test]
fn excluded_paths_are_not_in_the_image() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    for file in ["keep.txt", "a.log", "sub/b.log", "sub/keep.log", "cache/x", "sub/cache/y"] {
        scratch.file(&format!("source/{file}"), file);
    }
    let layout = scratch.join("layout");
    let patterns = scratch.file("patterns", "# logs\n*.log\n!keep.log\n");
    ok(words!["build", "-q", "-e", "/cache", "--exclude-from", patterns, source, layout, "t"]);
    let expected = ["/", "/keep.txt", "/sub", "/sub/cache", "/sub/cache/y", "/sub/keep.log"];
    assert_eq!(names(&layout, "t"), expected.map(str::to_owned).into());
}

#[test]
fn attributes_are_stored_as_asked() {
    let scratch = Scratch::new();
    let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
    detailed().make(&source, None);
    succeed(tool("setfattr").args(["-n", "trusted.t", "-v", "1", "file"]).current_dir(&source));
    let stored = |options: &[&str]| {
        let mut words = words!["build", "-q", source, layout, "t"];
        words.extend(options.iter().map(OsString::from));
        ok(words);
        let dump = ok(words!["dump", layout, "t"]);
        let line = dump.lines().find(|line| line.starts_with("/file ")).unwrap().to_owned();
        line.split(' ').skip(11).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(stored(&[]), ["trusted.t=1", "user.key=value"]);
    assert_eq!(stored(&["--exclude-xattr", "user."]), ["trusted.t=1"]);
    assert_eq!(stored(&["--exclude-xattr", "trusted.t"]), ["user.key=value"]);
    assert_eq!(stored(&["--no-xattrs"]), Vec::<String>::new());
    assert_eq!(stored(&["--no-xattrs", "--xattrs"]).len(), 2);
}

#[test]
fn one_file_system_stops_at_mounts() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    scratch.file("source/here", "");
    let other = scratch.dir("source/other");
    mount_tmpfs(&other, c"mode=0711");
    scratch.file("source/other/there", "");
    let layout = scratch.join("layout");
    ok(words!["build", "-q", source, layout, "t"]);
    ok(words!["build", "-q", "-x", source, layout, "x"]);
    let all = ["/", "/here", "/other", "/other/there"].map(str::to_owned);
    assert_eq!(names(&layout, "t"), all.clone().into());
    assert_eq!(names(&layout, "x"), all[..3].iter().cloned().collect());
    let listing = ok(words!["ls", "-d", layout, "x", "/other"]);
    assert!(listing.starts_with("drwx--x--x"), "the mount point shows its root: {listing}");
}

#[test]
fn files_are_listed_and_printed() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let small = std::fs::read_to_string(source.join("linked")).unwrap();
    // Links are followed inside the image, also out of its root.
    for path in ["/linked", "/link", "/directory/small", "/directory/../../../link"] {
        assert_eq!(ok(words!["cat", layout, "t", path]), small, "{path}");
    }
    let colon = OsString::from(format!("{}:t", layout.display()));
    assert_eq!(ok(words!["cat", colon, "/link", "/linked"]), format!("{small}{small}"));
    let one = ok(words!["ls", colon, "/link"]);
    let expected =
        "lrwxrwxrwx   1     0     0           15 1700000000.000000000 /link -> directory/small\n";
    assert_eq!(one, expected);
    let below = ok(words!["ls", "-1", layout, "t", "/directory"]);
    assert_eq!(below, "/directory\n/directory/small\n");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let mut shell = tool("bash");
    shell.args(["-o", "pipefail", "-c", "\"$0\" cat \"$1\" t /large | true"]);
    let printed = succeed(shell.arg(support::program::PROGRAM).arg(&layout));
    assert_eq!(printed, "");
}

#[test]
fn extracting_needs_an_empty_directory_unless_forced() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let target = scratch.dir("target");
    scratch.file("target/large", "in the way");
    std::os::unix::fs::symlink("/etc", target.join("directory")).unwrap();
    refuse(words!["extract", layout, "t", target], &["target"]);
    assert_eq!(std::fs::read(target.join("large")).unwrap(), b"in the way");
    ok(words!["extract", "-q", "--force", layout, "t", target]);
    assert_same(&source, &target);
}

#[test]
fn check_reports_damage_for_programs_too() {
    let scratch = Scratch::new();
    let image = Image::new(&scratch);
    let layout = &image.layout;
    let report: Value = serde_json::from_str(&ok(words!["check", "--json", layout, "t"])).unwrap();
    assert_eq!((&report["sound"], &report["inodes"]), (&true.into(), &5.into()));
    damage(&image.layer(), 1000);
    let output = output(&mut microfs(words!["check", "--json", layout, "t"]));
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["sound"], false);
    let rules: Vec<_> = report["findings"].as_array().unwrap().iter().map(|f| &f["rule"]).collect();
    assert!(rules.contains(&&Value::from("R13")), "{out}");
}

#[test]
fn time_options_win_over_the_environment() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let mut build = microfs(words!["build", "-q", "--mtime", "-9", source, layout, "m"]);
    succeed(build.env("SOURCE_DATE_EPOCH", "5"));
    // Empty is as good as not set.
    let mut build = microfs(words!["build", "-q", "--owner", "1:1", source, layout, "e"]);
    succeed(build.env("SOURCE_DATE_EPOCH", ""));
    let inspected: Value =
        serde_json::from_str(&ok(words!["inspect", "--json", layout, "e"])).unwrap();
    assert_eq!(inspected["created"], Value::Null);
    let listing = ok(words!["ls", layout, "m"]);
    assert!(listing.lines().all(|line| line.contains(" -9.000000000 ")), "{listing}");
}

#[test]
fn tags_come_and_go_and_gc_frees_what_is_left() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    ok(words!["tag", layout, "t", "second"]);
    ok(words!["build", "-q", "--compression", "none", source, layout, "third"]);
    let tags = || {
        let images = ok(words!["images", layout]);
        images.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(tags(), ["t", "second", "third"]);
    ok(words!["untag", layout, "t"]);
    ok(words!["untag", layout, "third"]);
    let dry = ok(words!["gc", "--dry-run", layout]);
    assert!(dry.contains("would remove 3 blobs"), "{dry}");
    let gone = ok(words!["gc", layout]);
    assert!(gone.contains("removed 3 blobs") && gone.contains("kept 3 blobs"), "{gone}");
    assert_eq!(tags(), ["second"]);
    ok(words!["check", layout, "second"]);
}

#[test]
fn the_program_documents_itself() {
    let scratch = Scratch::new();
    let pages = scratch.join("man");
    ok(words!["manual", pages]);
    let main = std::fs::read_to_string(pages.join("microfs.1")).unwrap();
    let help = ok(words!["--help"]);
    let verbs = help.lines().filter_map(|line| line.strip_prefix("  "));
    let verbs: Vec<&str> =
        verbs.filter(|l| l.starts_with(|c: char| c.is_ascii_lowercase())).collect();
    assert!(verbs.len() > 12, "{help}");
    for verb in verbs.iter().filter_map(|line| line.split(' ').next()).filter(|v| *v != "help") {
        assert!(main.contains(verb), "{verb} in microfs.1");
        assert!(pages.join(format!("microfs-{verb}.1")).is_file(), "{verb}");
        assert!(ok(words![verb, "--help"]).contains("Usage: microfs"));
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(ok(words!["completions", shell]).contains("mount"), "{shell}");
    }
}

#[test]
fn generated_trees_have_what_their_kinds_promise() {
    for kind in Kind::ALL {
        let scratch = Scratch::new();
        let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
        let plan = kind.plan(1);
        plan.make(&source, None);
        let report = ok(words!["build", "--json", source, layout, "t"]);
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["inodes"], plan.len(), "{kind:?}");
    }
}
