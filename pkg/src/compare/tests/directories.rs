use std::fs;
use std::os::unix::fs::{PermissionsExt, lchown};

use rustix::fs::FileType;

use super::{differences, strict};
use crate::compare::{CompareOptions, DirectoryView, Side, ViewError, compare};
use crate::scan::tests::fixture::{Fixture, access_list, capability, is_root};
use crate::scan::{ExcludeSet, XattrFilter};

/// Some of everything, the same every time.
pub(super) fn sample() -> Fixture {
    let fixture = Fixture::new();
    fixture.directory("d").file("d/f", b"content").symlink("d/l", b"target");
    fixture.file("x", b"1").xattr("x", "user.a", b"1").xattr("x", "user.b", b"2");
    fixture.node("p", FileType::Fifo, 0, 0).file(b"\xff\n", b"odd");
    fixture.link("x", "d/y").directory("d/e").file("d/e/g", b"");
    fixture.xattr("d", "system.posix_acl_default", &access_list(1000));
    if is_root() {
        fixture.node("c", FileType::CharacterDevice, 0, 0).node("k", FileType::BlockDevice, 300, 9);
        fixture.xattr("d/l", "trusted.t", b"3").xattr("d/f", "security.capability", &capability());
    }
    for name in ["d/f", "d/l", "d/e/g", "x", "p", "d/e", "d"] {
        fixture.times(name, 1_000_000, 5);
    }
    fixture.times("", 1, 0);
    super::odd_times(&fixture);
    fixture
}

#[test]
fn equal_trees_do_not_differ() {
    let (a, b) = (sample(), sample());
    assert_eq!(strict(&a, &b), [""; 0]);
}

#[test]
fn every_attribute_is_compared() {
    type Change = fn(&Fixture);
    let mut cases: Vec<(Change, &[&str])> = vec![
        (|b| fs::remove_file(b.join("d/f")).unwrap(), &["/d/f: missing (regular file)"]),
        (|b| fs::remove_dir_all(b.join("d/e")).unwrap(), &["/d/e: missing (directory)"]),
        (
            |b| {
                b.symlink("d/new", b"x");
            },
            &["/d/new: extra (symbolic link)"],
        ),
        (
            |b| {
                fs::remove_file(b.join("p")).unwrap();
                b.directory("p");
            },
            &["/p: type pipe -> directory"],
        ),
        (
            |b| fs::set_permissions(b.join("d/e"), fs::Permissions::from_mode(0o4755)).unwrap(),
            &["/d/e: permissions 0755 -> 4755"],
        ),
        (
            |b| {
                b.times("d/l", 1_000_000, 6);
            },
            &["/d/l: mtime 1000000+000000005ns -> 1000000+000000006ns"],
        ),
        (
            |b| {
                fs::remove_file(b.join("d/l")).unwrap();
                b.symlink("d/l", b"other\n").times("d/l", 1_000_000, 5);
                if is_root() {
                    b.xattr("d/l", "trusted.t", b"3");
                }
            },
            &["/d/l: target \"target\" -> \"other\\n\""],
        ),
        (
            |b| {
                b.file("d/f", b"CONTENT");
            },
            &["/d/f: content at 0: 0x63 -> 0x43"],
        ),
        (
            |b| {
                b.file("d/f", b"conteNt");
            },
            &["/d/f: content at 5: 0x6e -> 0x4e"],
        ),
        (
            |b| {
                b.file("d/f", b"contents");
            },
            &["/d/f: size 7 -> 8"],
        ),
        (
            |b| {
                b.file(b"\xff\n", b"ODD");
            },
            &["/\\xff\\n: content at 0: 0x6f -> 0x4f"],
        ),
        (
            |b| {
                b.xattr("d", "user.n", b"v\0");
            },
            &["/d: xattr user.n extra (is \"v\\x00\")"],
        ),
        (
            |b| rustix::fs::removexattr(b.join("x"), "user.a").unwrap(),
            &["/d/y: xattr user.a missing (was \"1\")"],
        ),
        (
            |b| {
                b.xattr("x", "user.b", b"3");
            },
            &["/d/y: xattr user.b \"2\" -> \"3\""],
        ),
    ];
    if is_root() {
        cases.push((
            |b| lchown(b.join("d/l"), Some(70_000), None).unwrap(),
            &["/d/l: uid 0 -> 70000"],
        ));
        cases.push((|b| lchown(b.join("d"), None, Some(9)).unwrap(), &["/d: gid 0 -> 9"]));
        cases.push((
            |b| {
                fs::remove_file(b.join("k")).unwrap();
                b.node("k", FileType::BlockDevice, 300, 10).times("k", 1_000_000, 5);
            },
            &["/k: device 300:9 -> 300:10"],
        ));
        cases.push((
            |b| {
                b.xattr(
                    "d/f",
                    "security.capability",
                    &[0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                );
            },
            &["/d/f: xattr security.capability"],
        ));
    }
    for (change, expected) in cases {
        let (a, b) = (sample(), sample());
        change(&b);
        for name in ["d/f", "d/e", "d", "x"] {
            if b.join(name).exists() {
                b.times(name, 1_000_000, 5);
            }
        }
        super::odd_times(&b);
        // Writing a file drops its capability.
        if is_root()
            && expected.iter().any(|text| text.contains("content") || text.contains("size"))
            && b.join("d/f").exists()
        {
            b.xattr("d/f", "security.capability", &capability());
        }
        let found = strict(&a, &b);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found} is not {expected}");
        }
    }
}

#[test]
fn options_leave_things_out() {
    let (a, b) = (Fixture::new(), Fixture::new());
    a.file("f", b"1")
        .times("f", 1, 1)
        .xattr("f", "user.x", b"1")
        .directory("skip")
        .file("skip/1", b"");
    b.file("f", b"1")
        .times("f", 2, 2)
        .xattr("f", "user.y", b"1")
        .directory("skip")
        .file("o.tmp", b"");
    let all = CompareOptions { mtime: false, ..CompareOptions::default() };
    assert_eq!(
        differences(&a, &b, &all),
        [
            "/f: xattr user.x missing (was \"1\")",
            "/f: xattr user.y extra (is \"1\")",
            "/o.tmp: extra (regular file)",
            "/skip/1: missing (regular file)"
        ]
    );
    let some = CompareOptions { max_differences: 2, ..all.clone() };
    assert_eq!(differences(&a, &b, &some).len(), 2);
    let exclude = ExcludeSet::new(["skip/", "*.tmp"]).unwrap();
    let xattrs = XattrFilter { include: true, exclude: vec![b"user.*".to_vec()] };
    let none = CompareOptions { exclude, xattrs, ..all.clone() };
    assert_eq!(differences(&a, &b, &none), [""; 0]);
    let times = CompareOptions { mtime: true, ..none };
    assert!(differences(&a, &b, &times).iter().all(|text| text.contains("mtime")));
    if is_root() {
        lchown(b.join("f"), Some(5), Some(6)).unwrap();
        let exclude = ExcludeSet::new(["skip/", "*.tmp"]).unwrap();
        let owners = CompareOptions { exclude, xattrs: XattrFilter::NONE, ..all };
        assert_eq!(differences(&a, &b, &owners), ["/f: uid 0 -> 5", "/f: gid 0 -> 6"]);
        let ignoring = CompareOptions { owner: false, ..owners };
        assert_eq!(differences(&a, &b, &ignoring), [""; 0]);
    }
}

/// An exclude pattern for directories does not hide that one side has a file.
#[test]
fn exclusion_on_one_side_only() {
    let (a, b) = (Fixture::new(), Fixture::new());
    a.directory("n");
    b.file("n", b"");
    let exclude = ExcludeSet::new(["n/"]).unwrap();
    let options = CompareOptions { exclude, mtime: false, ..CompareOptions::default() };
    assert_eq!(differences(&a, &b, &options), ["/n: extra (regular file)"]);
    assert_eq!(differences(&b, &a, &options), ["/n: missing (regular file)"]);
}

#[test]
fn walks_deeper_than_a_path_can_be() {
    let (a, b) = (Fixture::in_memory(), Fixture::in_memory());
    let options = CompareOptions { mtime: false, ..CompareOptions::default() };
    a.chain(10_000, |level| level == 9_999);
    b.chain(10_000, |level| level == 9_998);
    let found = differences(&a, &b, &options);
    let path = "/d".repeat(9_999);
    assert_eq!(
        found,
        [format!("{path}/d/f: missing (regular file)"), format!("{path}/f: extra (regular file)")]
    );
    a.remove_chain();
    b.remove_chain();
}

#[test]
fn what_cannot_be_read_is_an_error_with_its_side() {
    let (a, b) = (Fixture::new(), Fixture::new());
    for fixture in [&a, &b] {
        fixture.directory("d").file("d/f", b"1").times("d", 1, 0).times("d/f", 1, 0);
    }
    fs::set_permissions(b.join("d"), fs::Permissions::from_mode(0o311)).unwrap();
    fs::set_permissions(a.join("d"), fs::Permissions::from_mode(0o755)).unwrap();
    let options = CompareOptions::default();
    fs::set_permissions(b.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let result = crate::scan::tests::as_ordinary_user(a.path(), || {
        let mut a = DirectoryView::open(a.path()).unwrap();
        let mut b = DirectoryView::open(b.path()).unwrap();
        compare(&mut a, &mut b, &options)
    });
    let error = result.unwrap_err();
    assert_eq!((error.side, error.path.as_slice()), (Side::B, &b"d"[..]));
    assert!(matches!(error.source, ViewError::Io(_)));
    fs::set_permissions(b.join("d"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(DirectoryView::open(&a.join("gone")), Err(ViewError::Root { .. })));
}
