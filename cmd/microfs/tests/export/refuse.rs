//! What is refused, and leaves nothing.

use std::ffi::OsString;
use std::fs::File;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::content::{Content, Fill};
use crate::support::image::{Image, assert_nothing_written, damage};
use crate::support::plan::{Meta, Plan, ROOT, What};
use crate::support::program::{fail, microfs, ok, output, refuse, succeed, texts, tool};
use crate::support::scratch::{Scratch, mount_tmpfs};
use crate::support::tars::{named, shell};
use crate::{with, words};

#[test]
fn damage_is_never_exported() {
    let scratch = Scratch::new();
    let image = Image::new(&scratch);
    damage(&image.layer(), 100_000);
    let given = scratch.join("given");
    for squash in [false, true] {
        let mut words = words!["export", image.layout, "t", given];
        words.extend(squash.then(|| "--squash".into()));
        refuse(words, &["cannot read \"large\"", "block"]);
        assert_nothing_written(&given);
    }
}

#[test]
fn names_of_whiteouts_are_refused() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    with(b".wh.f", What::File(Content::text("x"))).make(&source, None);
    let (layout, given) = (scratch.join("layout"), scratch.join("given"));
    ok(words!["build", "-q", source, layout, "t"]);
    let parts = ["layer 0 (sha256:", "\".wh.f-again\"", "whiteout"];
    refuse(words!["export", layout, "t", given], &parts);
    refuse(words!["export", "--squash", layout, "t", given], &parts[1..]);
    assert_nothing_written(&given);
    refuse(words!["export", layout, "t", "--tar", scratch.join("x.tar")], &parts[1..]);
}

#[test]
fn sockets_are_refused_or_left_out() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    with(b"s", What::Socket).make(&source, None);
    let (layout, given) = (scratch.join("layout"), scratch.join("given"));
    ok(words!["build", "-q", source, layout, "t"]);
    let parts = ["layer 0 (sha256:", "\"s-again\" is a socket", "--skip-sockets"];
    refuse(words!["export", layout, "t", given], &parts);
    assert_nothing_written(&given);
    let output = output(&mut microfs(words!["export", "-q", "--skip-sockets", layout, "t", given]));
    assert!(output.status.success());
    let said = "microfs: left out \"s-again\": it is a socket\nmicrofs: left out \"d/s\": it is a socket\n";
    assert_eq!(texts(&output), (String::new(), said.to_owned()));
    let words = words!["export", "--json", "--skip-sockets", layout, "t", given];
    let report: Value = serde_json::from_str(&ok(words)).unwrap();
    assert_eq!(report["skipped_sockets"], 2);
    assert_eq!(report["first_skipped_sockets"], json!(["s-again", "d/s"]));
    ok(words!["convert", "-q", named(&given, "t"), layout, "again"]);
    std::fs::remove_file(source.join("d/s")).unwrap();
    std::fs::remove_file(source.join("s-again")).unwrap();
    succeed(tool("touch").args(["-d", "@1700000000"]).arg(source.join("d")).arg(&source));
    assert_eq!(ok(words!["diff", layout, "again", source]), "");
}

#[test]
fn wrong_command_lines_are_usage_errors() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let usage = |words: Vec<OsString>, part: &str| {
        let line = fail(&mut microfs(words), 2);
        assert!(line.contains(part), "{line}");
    };
    usage(words!["export", layout], "destination is missing");
    usage(words!["export", layout, "t", "-", "tag"], "no tag");
    usage(words!["export", "--json", layout, "t", "-"], "--json");
    for codec in ["gzip:0", "gzip:10", "zstd:23", "zstd:x", "bzip2", "none:1", ""] {
        let output = output(&mut microfs(words!["export", "-c", codec, layout, "t", "x"]));
        assert_eq!(output.status.code(), Some(2), "{codec}");
    }
}

#[test]
fn a_full_disk_leaves_nothing() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let small = scratch.dir("small");
    mount_tmpfs(&small, c"mode=0755,size=128k");
    let (given, file) = (small.join("given"), small.join("out.tar"));
    refuse(words!["export", "-c", "none", layout, "t", given], &["No space left"]);
    assert_nothing_written(&given);
    refuse(words!["export", layout, "t", "--tar", file], &["No space left"]);
    assert_eq!(shell(&small, "find . -type f -size +4k"), "");
    assert!(!file.exists());
    let full = File::options().write(true).open("/dev/full").unwrap();
    let line = fail(microfs(words!["export", layout, "t", "-"]).stdout(full), 1);
    assert!(line.contains("No space left"), "{line}");
}

/// Wherever it is killed, what is there is whole, and the next one succeeds.
#[test]
fn killed_exports_and_squashes_leave_layouts_that_work() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    let mut plan = Plan::new(Meta::plain(0o755));
    for number in 0..8u64 {
        let content = Content::whole(400_000, Fill::Random(number));
        plan.add(ROOT, format!("f{number}").as_bytes(), What::File(content), Meta::plain(0o644));
    }
    plan.make(&source, None);
    let (layout, given) = (scratch.join("layout"), scratch.join("given"));
    ok(words!["build", "-q", source, layout, "t"]);
    for step in 0..24u64 {
        for (words, to) in [
            (words!["export", "-q", layout, "t", given], &given),
            (words!["squash", "-q", "-c", "zstd:19", layout, "t", "one"], &layout),
        ] {
            let mut child = microfs(words).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(step * step));
            // It may have ended already.
            let _ = child.kill();
            child.wait().unwrap();
            if to.join("oci-layout").exists() {
                ok(words!["images", to]);
                ok(words!["gc", to]);
            }
        }
        ok(words!["check", "-q", layout, "t"]);
    }
    ok(words!["export", "-q", layout, "t", given]);
    ok(words!["squash", "-q", layout, "t", "one"]);
    ok(words!["convert", "-q", named(&given, "t"), layout, "again"]);
    for tag in ["one", "again"] {
        ok(words!["check", "-q", layout, tag]);
        assert_eq!(ok(words!["diff", layout, tag, source]), "");
    }
    for layout in [&layout, &given] {
        ok(words!["gc", layout]);
        let sessions = std::fs::read_dir(layout.join(".microfs/sessions")).unwrap();
        assert_eq!(sessions.count(), 0);
    }
}
