use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};

use rustix::fs::{FileType, major, minor};

use super::fixture::{Fixture, access_list, capability, find, is_root, paths};
use crate::scan::{MtimePolicy, OwnerPolicy, ScanOptions, XattrFilter};
use crate::tree::{NodeKind, Timestamp};

fn every_type() -> Fixture {
    let fixture = Fixture::new();
    fixture.directory("directory").file("directory/file", b"content").file("empty", b"");
    fixture.directory("hollow").symlink("link", b"nowhere/at/all").symlink("up", b"..");
    fixture.node("pipe", FileType::Fifo, 0, 0).socket("socket").link("directory/file", "again");
    fs::set_permissions(fixture.join("empty"), fs::Permissions::from_mode(0o6751)).unwrap();
    fs::set_permissions(fixture.join("hollow"), fs::Permissions::from_mode(0o1777)).unwrap();
    if is_root() {
        fixture.node("null", FileType::CharacterDevice, 1, 3);
        fixture.node("zero", FileType::CharacterDevice, 0, 0);
        fixture.node("wide", FileType::BlockDevice, 0xfff, 0xf_ffff);
        chown(fixture.join("directory"), Some(u32::MAX - 1), Some(70_000)).unwrap();
        lchown(fixture.join("link"), Some(1), Some(2)).unwrap();
    }
    fixture.times("empty", -5, 123_456_789).times("link", 15_000_000_000, 999_999_999);
    fixture.times("directory", 0, 1);
    fixture
}

/// `std` and `stat` are the other implementation.
#[test]
fn every_type_with_every_attribute() {
    let fixture = every_type();
    let scanned = fixture.scan();
    let found = paths(&scanned.tree);
    assert_eq!(found.len(), if is_root() { 13 } else { 10 });
    for (path, id) in &found {
        let node = scanned.tree.node(*id);
        let expected = fs::symlink_metadata(fixture.join(path)).unwrap();
        let metadata = node.metadata;
        assert_eq!(u32::from(metadata.permissions), expected.mode() & 0o7777, "{path:?}");
        assert_eq!((metadata.uid, metadata.gid), (expected.uid(), expected.gid()));
        let nanoseconds = u32::try_from(expected.mtime_nsec()).unwrap();
        assert_eq!(metadata.mtime, Timestamp { seconds: expected.mtime(), nanoseconds });
        let type_bits = match node.kind {
            NodeKind::Directory { opaque, implied } => {
                assert!(!opaque && !implied);
                0o040_000
            }
            NodeKind::Regular { size } => {
                assert_eq!(size, expected.len());
                0o100_000
            }
            NodeKind::Symlink { target } => {
                let link = fs::read_link(fixture.join(path)).unwrap();
                assert_eq!(scanned.tree.bytes(target), link.as_os_str().as_bytes());
                0o120_000
            }
            NodeKind::CharDevice(device) => {
                let rdev = expected.rdev();
                assert_eq!((device.major, device.minor), (major(rdev), minor(rdev)));
                0o020_000
            }
            NodeKind::BlockDevice(device) => {
                assert_eq!((device.major, device.minor), (0xfff, 0xf_ffff));
                0o060_000
            }
            NodeKind::Fifo => 0o010_000,
            NodeKind::Socket => 0o140_000,
            NodeKind::LinkBelow { .. } => panic!("no such thing on disk"),
        };
        assert_eq!(type_bits, expected.mode() & 0o170_000);
    }
    let before_epoch = find(&scanned.tree, "empty").1.metadata.mtime;
    assert_eq!(before_epoch, Timestamp { seconds: -5, nanoseconds: 123_456_789 });
    let statistics = scanned.statistics;
    assert_eq!(statistics.entries, u64::try_from(found.len()).unwrap() - 1);
    assert_eq!((statistics.directories, statistics.regular_files), (3, 2));
    assert_eq!((statistics.symlinks, statistics.hard_links), (2, 1));
    assert_eq!(statistics.special_files, if is_root() { 5 } else { 2 });
    assert_eq!(statistics.content_bytes, 7);
    assert!(scanned.skipped.is_empty());
    scanned.tree.validate().unwrap();
}

#[test]
fn links_outside_the_tree_do_not_count() {
    let fixture = Fixture::new();
    fixture.directory("outside").file("outside/x", b"1");
    fixture.directory("in").directory("in/deep").link("outside/x", "in/b");
    fixture.link("outside/x", "in/deep/a").symlink("outside/s", b"t").link("outside/s", "in/s");
    fixture.file("in/alone", b"1");
    let scanned = crate::scan::Scan::run(&fixture.join("in"), &ScanOptions::default()).unwrap();
    let found = paths(&scanned.tree);
    assert_eq!(found[&b"b"[..]], found[&b"deep/a"[..]]);
    assert_ne!(found[&b"b"[..]], found[&b"alone"[..]]);
    let tree = scanned.tree.validate().unwrap();
    let links = |path: &[u8]| tree.links(tree.inode_index(found[path]));
    assert_eq!((links(b"b"), links(b"s"), links(b"alone")), (2, 1, 1));
}

#[test]
fn xattrs_of_every_namespace_and_type() {
    let fixture = every_type();
    let long = vec![b'v'; 3000];
    fixture.xattr("empty", "user.one", b"1").xattr("empty", "user.two", b"");
    fixture.xattr("directory", "user.long", &long);
    fixture.xattr("directory", "system.posix_acl_access", &access_list(70_001));
    fixture.xattr("directory", "system.posix_acl_default", &access_list(1));
    if is_root() {
        fixture.xattr("link", "trusted.on.link", b"\0binary\xff");
        fixture.xattr("pipe", "trusted.on.pipe", b"p").xattr("null", "security.test", b"s");
        fixture.xattr("empty", "security.capability", &capability());
    }
    let scanned = fixture.scan();
    let set = |path: &str| {
        let xattrs = find(&scanned.tree, path).1.metadata.xattrs;
        let set = scanned.tree.xattrs().set(xattrs).to_vec();
        // A security module may add a label to everything.
        set.into_iter().filter(|(name, _)| name != b"security.selinux").collect::<Vec<_>>()
    };
    let pair = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
    let mut on_empty = vec![pair("user.one", b"1"), pair("user.two", b"")];
    if is_root() {
        on_empty.insert(0, pair("security.capability", &capability()));
        assert_eq!(set("link"), [pair("trusted.on.link", b"\0binary\xff")]);
        assert_eq!(set("pipe"), [pair("trusted.on.pipe", b"p")]);
        assert_eq!(set("null"), [pair("security.test", b"s")]);
    }
    assert_eq!(set("empty"), on_empty);
    assert_eq!(set("hollow"), []);
    let lists = [
        pair("system.posix_acl_access", &access_list(70_001)),
        pair("system.posix_acl_default", &access_list(1)),
        pair("user.long", &long),
    ];
    assert_eq!(set("directory"), lists);
}

#[test]
fn the_root_has_attributes_too() {
    let fixture = Fixture::new();
    fixture.xattr("", "user.root", b"yes").times("", 77, 7);
    fs::set_permissions(fixture.path(), fs::Permissions::from_mode(0o2710)).unwrap();
    let scanned = fixture.scan();
    let (_, root) = find(&scanned.tree, "");
    assert_eq!(root.metadata.permissions, 0o2710);
    assert_eq!(root.metadata.mtime, Timestamp { seconds: 77, nanoseconds: 7 });
    let xattrs = scanned.tree.xattrs().set(root.metadata.xattrs);
    assert!(xattrs.contains(&(b"user.root".to_vec(), b"yes".to_vec())));
}

#[test]
fn xattr_filters() {
    let fixture = Fixture::new();
    fixture.file("f", b"").xattr("f", "user.keep", b"1").xattr("f", "user.drop", b"2");
    fixture.xattr("f", "user.overlay.x", b"3");
    let kept = |xattrs: XattrFilter| {
        let scanned = fixture.scan_with(&ScanOptions { xattrs, ..ScanOptions::default() });
        let set = find(&scanned.tree, "f").1.metadata.xattrs;
        let set = scanned.tree.xattrs().set(set).iter();
        set.filter(|(name, _)| name.starts_with(b"user."))
            .map(|(name, _)| String::from_utf8(name.clone()).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(kept(XattrFilter::default()), ["user.drop", "user.keep", "user.overlay.x"]);
    assert!(kept(XattrFilter::NONE).is_empty());
    let exclude = vec![b"user.drop".to_vec(), b"user.overlay.*".to_vec()];
    assert_eq!(kept(XattrFilter { include: true, exclude }), ["user.keep"]);
}

#[test]
fn owner_and_time_policies() {
    let fixture = Fixture::new();
    fixture.file("old", b"").times("old", 100, 5).file("new", b"").times("new", 1000, 1);
    fixture.file("just", b"").times("just", 500, 1);
    let scan = |mtime, owner| {
        let options = ScanOptions { mtime, owner, ..ScanOptions::default() };
        let scanned = fixture.scan_with(&options);
        ["old", "new", "just", ""].map(|path| {
            let metadata = find(&scanned.tree, path).1.metadata;
            (metadata.mtime.seconds, metadata.mtime.nanoseconds, metadata.uid, metadata.gid)
        })
    };
    let clamped = scan(MtimePolicy::Clamp(500), OwnerPolicy::ALL_ROOT);
    assert_eq!(clamped, [(100, 5, 0, 0), (500, 0, 0, 0), (500, 0, 0, 0), (500, 0, 0, 0)]);
    let set = scan(MtimePolicy::Set(-1), OwnerPolicy { uid: Some(7), gid: Some(u32::MAX) });
    assert_eq!(set, [(-1, 0, 7, u32::MAX); 4]);
}
