use std::fs;
use std::ops::ControlFlow;
use std::sync::Arc;

use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use super::fixture::{Fixture, find, is_root, names};
use crate::scan::{
    ExcludeSet, ObjectId, Scan, ScanError, ScanOptions, ScanProgress, SkipReason, XattrFilter,
};

fn excluding(patterns: &[&str]) -> ScanOptions {
    ScanOptions { exclude: ExcludeSet::new(patterns).unwrap(), ..ScanOptions::default() }
}

#[test]
fn excludes_as_gitignore_does() {
    let fixture = Fixture::new();
    fixture.directory("a").file("a/x.o", b"").file("a/keep.o", b"").file("a/x.c", b"");
    fixture.directory("build").file("build/y", b"").directory("a/build").file("a/build/z", b"");
    fixture.file("a/top", b"").file("top", b"").file(b"\xff.o", b"");
    let run = |patterns: &[&str]| {
        let scanned = fixture.scan_with(&excluding(patterns));
        let excluded = scanned.statistics.excluded;
        assert!(scanned.skipped.is_empty());
        let names = super::fixture::paths(&scanned.tree).into_keys().skip(1);
        (names.map(|name| name.escape_ascii().to_string()).collect::<Vec<_>>(), excluded)
    };
    let (all, none) = run(&["", "# comment"]);
    assert_eq!((all.len(), none), (11, 0));
    let (left, excluded) = run(&["*.o", "!keep.o", "/top", "build/"]);
    assert_eq!(left, ["a", "a/keep.o", "a/top", "a/x.c"]);
    assert_eq!(excluded, 5);
    let (left, _) = run(&["/build/", "a/**", "!a/build", "*.o"]);
    assert_eq!(left, ["a", "a/build", "top"]);
}

#[test]
fn bad_pattern_is_named() {
    let error = ExcludeSet::new(["fine", "{a", "x"]).unwrap_err();
    assert_eq!(error.number, 2);
}

#[test]
fn never_takes_its_own_output() {
    let fixture = Fixture::new();
    fixture.directory("store").file("store/blob", b"x").file("log", b"y").file("kept", b"z");
    let id = |name: &str| ObjectId::from(&fs::symlink_metadata(fixture.join(name)).unwrap());
    let exclude_ids = vec![id("store"), id("log")];
    let options = ScanOptions { exclude_ids, ..ScanOptions::default() };
    let scanned = fixture.scan_with(&options);
    assert_eq!(names(&scanned.tree), ["", "kept"]);
    let skipped: Vec<_> = scanned.skipped.iter().map(|skipped| skipped.path.as_slice()).collect();
    assert_eq!(skipped, [&b"log"[..], b"store"]);
    assert!(scanned.skipped.iter().all(|skipped| matches!(skipped.reason, SkipReason::Output)));
    let error = Scan::run(&fixture.join("store"), &options).unwrap_err();
    assert!(matches!(error, ScanError::OutputIsSource { .. }), "{error}");
}

struct Mounted(std::path::PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[test]
fn one_file_system_stops_at_mounts() {
    let fixture = Fixture::new();
    fixture.directory("mnt").directory("plain").file("plain/f", b"1").file("bound", b"2");
    let here = ScanOptions { one_file_system: true, ..ScanOptions::default() };
    let everything = ["", "bound", "mnt", "plain", "plain/f"];
    assert_eq!(names(&fixture.scan_with(&here).tree), everything);
    if !is_root() {
        return;
    }
    let mnt = fixture.join("mnt");
    mount("none", &mnt, "tmpfs", MountFlags::empty(), c"mode=0711").unwrap();
    let _mounted = Mounted(mnt);
    fixture.file("mnt/inside", b"3").xattr("mnt", "trusted.root", b"of the mount");
    mount_bind(fixture.join("mnt/inside"), fixture.join("bound")).unwrap();
    let _bound = Mounted(fixture.join("bound"));
    let all = fixture.scan();
    assert_eq!(names(&all.tree), ["", "bound", "mnt", "mnt/inside", "plain", "plain/f"]);
    let scanned = fixture.scan_with(&here);
    assert_eq!(names(&scanned.tree), ["", "mnt", "plain", "plain/f"]);
    let metadata = find(&scanned.tree, "mnt").1.metadata;
    assert_eq!(metadata.permissions, 0o711);
    let xattrs = scanned.tree.xattrs().set(metadata.xattrs);
    assert!(xattrs.contains(&(b"trusted.root".to_vec(), b"of the mount".to_vec())));
    let [skipped] = scanned.skipped.as_slice() else { panic!("{:?}", scanned.skipped) };
    assert_eq!(skipped.path, b"bound");
    assert!(matches!(skipped.reason, SkipReason::OtherFilesystem));
    scanned.tree.validate().unwrap();
}

#[test]
fn the_root_may_be_a_link_but_nothing_below_is_followed() {
    let fixture = Fixture::new();
    fixture.directory("real").directory("real/d").file("real/d/f", b"");
    fixture.symlink("alias", b"real").symlink("real/loop", b".");
    let scanned = Scan::run(&fixture.join("alias"), &ScanOptions::default()).unwrap();
    assert_eq!(names(&scanned.tree), ["", "d", "d/f", "loop"]);
}

#[test]
fn roots_that_are_none() {
    let fixture = Fixture::new();
    fixture.file("file", b"");
    let run = |name: &str| Scan::run(&fixture.join(name), &ScanOptions::default()).unwrap_err();
    assert!(matches!(run("file"), ScanError::NotADirectory { .. }));
    let gone = run("gone");
    assert!(matches!(&gone, ScanError::Vanished { path } if *path == fixture.join("gone")));
}

#[test]
fn can_be_cancelled() {
    struct Stop;
    impl ScanProgress for Stop {
        fn entries(&self, entries: u64) -> ControlFlow<()> {
            if entries >= 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let fixture = Fixture::new();
    fixture.directory("a").directory("b").directory("c");
    let options = ScanOptions { progress: Some(Arc::new(Stop)), ..ScanOptions::default() };
    assert!(matches!(Scan::run(fixture.path(), &options), Err(ScanError::Cancelled)));
}

#[test]
fn two_scans_are_the_same() {
    let fixture = Fixture::new();
    for name in ["z", "m", "a"] {
        fixture.directory(name);
        for file in ["9", "1", "5"] {
            fixture.file(format!("{name}/{file}"), file.as_bytes());
            fixture.xattr(&format!("{name}/{file}"), "user.v", file.as_bytes());
        }
    }
    let (one, two) = (fixture.scan().tree, fixture.scan().tree);
    assert_eq!(one.nodes(), two.nodes());
    assert_eq!(one.dentries(), two.dentries());
    let order = super::fixture::paths(&one);
    assert_eq!(order[&b"a/1"[..]].0 + 1, order[&b"a/5"[..]].0);
    let without = ScanOptions { xattrs: XattrFilter::NONE, ..ScanOptions::default() };
    assert!(fixture.scan_with(&without).tree.xattrs().is_empty());
}
