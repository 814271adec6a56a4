//! Layouts that are broken, cannot be reached, or came to nothing.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use support::image::Image;
use support::program::{fail, microfs, ok, output, refuse, succeed, texts, tool};
use support::scratch::{Scratch, mount_tmpfs};
use support::users::{as_nobody, program};

fn names(folder: &Path) -> Vec<OsString> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

fn with_tag(layout: &Path, tag: &str) -> OsString {
    OsString::from(format!("{}:{tag}", layout.display()))
}

#[test]
fn what_cannot_be_reached_has_the_systems_reason() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    program(&scratch);
    let private = scratch.dir("private");
    let inside = private.join("layout");
    std::fs::rename(&layout, &inside).unwrap();
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o700)).unwrap();
    for words in [words!["ls", with_tag(&inside, "t")], words!["ls", inside, "t"]] {
        let line = fail(&mut as_nobody(&scratch, words), 1);
        assert!(line.contains("Permission denied"), "{line}");
        assert!(line.contains(inside.to_str().unwrap()), "{line}");
    }
    let around = scratch.join("loop");
    std::os::unix::fs::symlink("loop", &around).unwrap();
    refuse(words!["ls", with_tag(&around, "t")], &["loop", "Too many levels of symbolic links"]);
    let missing = scratch.join("missing");
    refuse(words!["ls", with_tag(&missing, "t")], &["missing", "No such file or directory"]);
    let wrong = OsString::from(format!("{}@sha256:1234", inside.display()));
    refuse(words!["ls", wrong], &["\"sha256:1234\" is not a digest"]);
}

#[test]
fn a_broken_entry_is_named_replaced_and_removed() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    ok(words!["tag", layout, "t", "good"]);
    let index = layout.join("index.json");
    let mut document: Value = serde_json::from_slice(&std::fs::read(&index).unwrap()).unwrap();
    document["manifests"][0]["size"] = json!(-1);
    let broken = document.to_string();
    std::fs::write(&index, &broken).unwrap();
    refuse(words!["ls", layout, "t"], &["index.json", "entry 0", "\"t\"", "\"size\"", "-1"]);
    refuse(words!["gc", layout], &["nothing was removed", "entry 0", "\"size\"", "untag"]);
    ok(words!["ls", layout, "good"]);
    let images = output(&mut microfs(words!["images", layout]));
    let (out, err) = texts(&images);
    assert_eq!(images.status.code(), Some(1), "{out}{err}");
    assert!(out.starts_with("good\t") && out.lines().count() == 1, "{out}");
    assert!(err.contains("\"size\"") && err.lines().count() == 1, "{err}");

    ok(words!["untag", layout, "t"]);
    ok(words!["gc", layout]);
    std::fs::write(&index, &broken).unwrap();
    ok(words!["build", "-q", source, layout, "t"]);
    assert_eq!(ok(words!["images", layout]).lines().count(), 2);
    ok(words!["gc", layout]);

    document.as_object_mut().unwrap().remove("manifests");
    std::fs::write(&index, document.to_string()).unwrap();
    for verb in ["images", "gc", "ls"] {
        refuse(words![verb, layout], &["index.json", "manifests"]);
    }
    ok(words!["build", "-q", source, layout, "t"]);
    assert_eq!(ok(words!["images", layout]).lines().count(), 1);
}

#[test]
fn what_fails_leaves_no_new_layout() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    let place = scratch.dir("place");
    let new = place.join("a/b");
    // A base that the new layout cannot have.
    refuse(words!["build", "--base", "none", source, new, "t"], &["none"]);
    assert_eq!(names(&place), [""; 0]);
    // A layer that is no tar.
    let layer = scratch.file("layer.tar", [1; 4096]);
    refuse(words!["convert", layer, new, "t"], &["layer.tar"]);
    assert_eq!(names(&place), [""; 0]);
    // A socket, which tar does not have.
    std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    ok(words!["build", "-q", source, scratch.join("layout"), "t"]);
    refuse(words!["export", scratch.join("layout"), "t", new, "t"], &["socket"]);
    assert_eq!(names(&place), [""; 0]);
    // A folder that was there stays, and so does a layout.
    let empty = scratch.dir("empty");
    refuse(words!["build", "--base", "none", source, empty, "t"], &["none"]);
    assert_eq!(names(&empty), [""; 0]);
    refuse(words!["build", "--base", "none", source, scratch.join("layout"), "u"], &["none"]);
    assert_eq!(ok(words!["images", scratch.join("layout")]).lines().count(), 1);
}

#[test]
fn what_is_no_archive_is_refused_before_it_fills_a_disk() {
    let scratch = Scratch::new();
    let new = scratch.join("new");
    refuse(words!["convert", "/dev/zero", new, "t"], &["/dev/zero", "archive"]);
    let mut command = microfs(words!["convert", "-", new, "t"]);
    let line = fail(command.stdin(std::fs::File::open("/dev/urandom").unwrap()), 1);
    assert!(line.contains("standard input"), "{line}");

    // An archive from a pipe, larger than the folder for temporary files.
    let small = scratch.dir("small");
    mount_tmpfs(&small, c"size=64k");
    let content = scratch.file("files/content", vec![7; 1 << 20]);
    let archive = scratch.join("layer.tar");
    succeed(tool("tar").arg("-cf").arg(&archive).arg("-C").arg(content.parent().unwrap()).arg("."));
    let mut command = microfs(words!["convert", "-q", "-", new, "t"]);
    command.env("TMPDIR", &small).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It stops reading when the disk is full.
    let _ = child.stdin.take().unwrap().write_all(&std::fs::read(&archive).unwrap());
    let (_, err) = texts(&child.wait_with_output().unwrap());
    assert!(err.contains("TMPDIR") && err.contains(small.to_str().unwrap()), "{err}");
    // An empty archive is one all the same: `tar` itself writes it.
    let empty = scratch.join("empty.tar");
    succeed(tool("tar").arg("-cf").arg(&empty).args(["-T", "/dev/null"]));
    let mut sh = tool("sh");
    sh.args(["-c", "cat \"$1\" | \"$2\" convert -q - \"$3\" t", "sh"]).arg(&empty);
    succeed(sh.arg(support::program::PROGRAM).arg(&new));
}

#[test]
fn a_file_of_patterns_has_a_limit() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    let new = scratch.join("new");
    let words = words!["build", "--exclude-from", "/dev/zero", source, new, "t"];
    refuse(words, &["/dev/zero", "16.0 MiB"]);
    assert!(!new.exists());
}

#[test]
fn a_killed_export_leaves_no_file() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let place = scratch.dir("place");
    let file = place.join("tree.tar");
    // The limit ends it by a signal in the middle of the large file.
    let mut sh = tool("sh");
    sh.args(["-c", "ulimit -f 64; exec \"$@\"", "sh", support::program::PROGRAM]);
    sh.args(words!["export", "-q", layout, "t", "--tar", file]);
    assert!(!output(&mut sh).status.success());
    assert_eq!(names(&place), [""; 0]);
    for content in [None, Some("old")] {
        if let Some(content) = content {
            std::fs::write(&file, content).unwrap();
        }
        ok(words!["export", "-q", layout, "t", "--tar", file]);
        assert_eq!(names(&place), ["tree.tar"]);
        assert!(succeed(tool("tar").arg("-tf").arg(&file)).contains("directory/small"));
    }
}

#[test]
fn writing_verbs_name_a_read_only_layout() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let at = scratch.dir("at");
    succeed(tool("mount").arg("--bind").arg(&layout).arg(&at));
    succeed(tool("mount").args(["-o", "remount,bind,ro"]).arg(&at));
    for words in [
        words!["gc", at],
        words!["tag", at, "t", "u"],
        words!["untag", at, "t"],
        words!["squash", at, "t", "u"],
        words!["build", source, at, "t"],
        words!["export", at, "t", at, "u"],
    ] {
        let verb = format!("{} has to write", words[0].to_str().unwrap());
        refuse(words, &[&verb, at.to_str().unwrap(), "Read-only file system"]);
    }
    ok(words!["ls", at, "t"]);
}

#[test]
fn a_new_layout_below_a_path_with_a_colon() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    scratch.dir("we:ird");
    let layout = scratch.join("we:ird/lay");
    ok(words!["build", "-q", source, with_tag(&layout, "tag")]);
    assert!(ok(words!["images", layout]).starts_with("tag\t"));
    assert!(!scratch.join("we").exists());
}
