use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use super::fixture::{Fixture, find, is_root, paths};
use crate::scan::{ScanError, Scanned, SourceTable};
use crate::tree::{NodeId, ValidTree};

fn split(scanned: Scanned, path: &str) -> (ValidTree, SourceTable, NodeId) {
    let (node, _) = find(&scanned.tree, path);
    (scanned.tree.validate().unwrap(), scanned.sources, node)
}

#[test]
fn reads_what_is_there() {
    let fixture = Fixture::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    fixture.directory("d").file("d/f", &bytes).file("d/empty", b"");
    let scanned = fixture.scan();
    assert_eq!(scanned.sources.len(), 2);
    let (tree, sources, node) = split(scanned, "d/f");
    let file = sources.open(&tree, node).unwrap();
    assert_eq!(file.size(), 300_000);
    assert_eq!(file.data_segments().unwrap(), [(0, 300_000)]);
    let mut part = vec![0; 1000];
    file.read_exact_at(299_000, &mut part).unwrap();
    assert_eq!(part, bytes[299_000..]);
    let error = file.read_exact_at(299_001, &mut part).unwrap_err();
    assert!(matches!(&error, ScanError::Changed { path } if *path == fixture.join("d/f")));
    file.finish().unwrap();
    assert_eq!(sources.path(&tree, node), fixture.join("d/f"));
    let error = sources.open(&tree, NodeId::ROOT).unwrap_err();
    assert!(matches!(error, ScanError::NotScanned { node: NodeId::ROOT }));
}

#[test]
fn empty_files_have_no_data() {
    let fixture = Fixture::new();
    fixture.file("empty", b"");
    let (tree, sources, node) = split(fixture.scan(), "empty");
    let file = sources.open(&tree, node).unwrap();
    assert!(file.data_segments().unwrap().is_empty());
    assert!(!sources.sparse_suspected(node));
}

#[test]
fn finds_holes_at_every_place() {
    const MIB: u64 = 1 << 20;
    let block = [7u8; 65_536];
    let fixture = Fixture::new();
    fixture.sparse(
        "middle",
        4 * MIB,
        &[(0, &block), (2 * MIB, &block), (4 * MIB - 65_536, &block)],
    );
    fixture.sparse("front", 2 * MIB + 5, &[(2 * MIB, b"tail!")]);
    fixture.sparse("back", 3 * MIB, &[(0, &block), (65_536, &block)]);
    fixture.sparse("only", 123_456_789, &[]);
    let scanned = fixture.scan();
    let found = paths(&scanned.tree);
    let tree = scanned.tree.validate().unwrap();
    let segments = |name: &str| {
        let node = found[name.as_bytes()];
        assert!(scanned.sources.sparse_suspected(node));
        scanned.sources.open(&tree, node).unwrap().data_segments().unwrap()
    };
    let expected = [(0, 65_536), (2 * MIB, 65_536), (4 * MIB - 65_536, 65_536)];
    assert_eq!(segments("middle"), expected);
    assert_eq!(segments("front"), [(2 * MIB, 5)]);
    assert_eq!(segments("back"), [(0, 131_072)]);
    assert_eq!(segments("only"), []);
    let middle = scanned.sources.open(&tree, found[&b"middle"[..]]).unwrap();
    assert_eq!(middle.next_data(MIB).unwrap(), Some(2 * MIB..2 * MIB + 65_536));
    assert_eq!(middle.next_data(2 * MIB + 1).unwrap(), Some(2 * MIB + 1..2 * MIB + 65_536));
    assert_eq!(middle.next_data(4 * MIB).unwrap(), None);
}

#[test]
fn the_largest_file_costs_nothing() {
    const SIZE: u64 = (1 << 63) - 1;
    let fixture = Fixture::in_memory();
    fixture.sparse("huge", SIZE, &[(1 << 62, b"x")]);
    let (tree, sources, node) = split(fixture.scan(), "huge");
    let file = sources.open(&tree, node).unwrap();
    assert_eq!(file.size(), SIZE);
    let segments = file.data_segments().unwrap();
    let [(start, length)] = segments.as_slice() else { panic!("{segments:?}") };
    assert_eq!(*start, 1 << 62);
    assert!(*length <= 1 << 21);
    file.finish().unwrap();
}

#[test]
fn notices_every_change_before_opening() {
    let fixture = Fixture::new();
    let kinds = ["written", "longer", "mode", "replaced", "link", "pipe", "times"];
    for name in kinds.iter().chain(&["gone", "same"]) {
        fixture.file(name, b"1234").times(name, 1_000_000, 0);
    }
    let scanned = fixture.scan();
    let found = paths(&scanned.tree);
    let tree = scanned.tree.validate().unwrap();
    let file = File::options().write(true).open(fixture.join("written")).unwrap();
    file.write_all_at(b"4321", 0).unwrap();
    // Even with the old time put back.
    fixture.times("written", 1_000_000, 0);
    fixture.file("longer", b"12345").times("times", 1_000_000, 1);
    fs::set_permissions(fixture.join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    fixture.file("other", b"1234").times("other", 1_000_000, 0);
    fs::rename(fixture.join("other"), fixture.join("replaced")).unwrap();
    for name in ["link", "pipe", "gone"] {
        fs::remove_file(fixture.join(name)).unwrap();
    }
    fixture.symlink("link", b"same").node("pipe", rustix::fs::FileType::Fifo, 0, 0);
    for name in kinds {
        let error = scanned.sources.open(&tree, found[name.as_bytes()]).unwrap_err();
        let expected = fixture.join(name);
        assert!(matches!(&error, ScanError::Changed { path } if *path == expected), "{error}");
    }
    let error = scanned.sources.open(&tree, found[&b"gone"[..]]).unwrap_err();
    assert!(matches!(error, ScanError::Vanished { .. }), "{error}");
    scanned.sources.open(&tree, found[&b"same"[..]]).unwrap().finish().unwrap();
}

#[test]
fn notices_changes_while_reading() {
    let fixture = Fixture::new();
    fixture.file("f", &[1; 8192]).times("f", 1_000_000, 0);
    let (tree, sources, node) = split(fixture.scan(), "f");
    let file = sources.open(&tree, node).unwrap();
    let mut buffer = [0; 4096];
    file.read_exact_at(0, &mut buffer).unwrap();
    File::options().write(true).open(fixture.join("f")).unwrap().set_len(4096).unwrap();
    assert!(matches!(file.read_exact_at(4096, &mut buffer), Err(ScanError::Changed { .. })));
    assert!(matches!(file.finish(), Err(ScanError::Changed { .. })));
}

#[test]
fn a_parent_that_became_a_link_is_not_followed() {
    let fixture = Fixture::new();
    fixture.directory("d").file("d/f", b"1").directory("e");
    fs::hard_link(fixture.join("d/f"), fixture.join("e/f")).unwrap();
    let (tree, sources, node) = split(fixture.scan(), "d/f");
    fs::rename(fixture.join("d"), fixture.join("moved")).unwrap();
    fixture.symlink("d", b"e");
    let error = sources.open(&tree, node).unwrap_err();
    assert!(matches!(error, ScanError::Changed { .. }), "{error}");
}

#[test]
fn leaves_access_times_alone() {
    let fixture = Fixture::new();
    fixture.directory("d").file("d/f", b"12").symlink("d/l", b"t");
    // Older than the modification time, so that even `relatime` would move them.
    for name in ["d/f", "d/l", "d", ""] {
        fixture.times(name, 1_000, 0);
    }
    let modified = |name: &str| {
        let path = fixture.join(name);
        let file = File::open(&path).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(std::time::SystemTime::now())).unwrap();
    };
    modified("d/f");
    modified("d");
    let (tree, sources, node) = split(fixture.scan(), "d/f");
    let file = sources.open(&tree, node).unwrap();
    file.read_exact_at(0, &mut [0; 2]).unwrap();
    file.finish().unwrap();
    // Reading a link has no way to leave its time alone.
    for name in ["d/f", "d", ""] {
        assert_eq!(fs::symlink_metadata(fixture.join(name)).unwrap().atime(), 1_000, "{name}");
    }
}

#[test]
fn opens_from_many_threads() {
    let fixture = Fixture::new();
    for number in 0..500 {
        fixture.directory(number.to_string());
        fixture.file(format!("{number}/f"), format!("{number:04}").as_bytes());
    }
    let scanned = fixture.scan();
    let files: Vec<_> =
        paths(&scanned.tree).into_iter().filter(|(p, _)| p.ends_with(b"f")).collect();
    let tree = scanned.tree.validate().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (files, tree, sources) = (&files, &tree, &scanned.sources);
            scope.spawn(move || {
                for step in 0..files.len() {
                    let (path, node) = &files[(step * 7 + thread * 100) % files.len()];
                    let file = sources.open(tree, *node).unwrap();
                    let mut content = [0; 4];
                    file.read_exact_at(0, &mut content).unwrap();
                    file.finish().unwrap();
                    let number = String::from_utf8(path[..path.len() - 2].to_vec()).unwrap();
                    assert_eq!(content, format!("{number:0>4}").as_bytes());
                }
            });
        }
    });
    assert_eq!(files.len(), 500);
}

#[test]
fn unreadable_content_is_named() {
    let fixture = Fixture::new();
    fixture.file("secret", b"1");
    fs::set_permissions(fixture.join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    let (tree, sources, node) = split(fixture.scan(), "secret");
    let open = || sources.open(&tree, node).map(|_| ());
    let result = super::trouble::as_ordinary_user(fixture.path(), open);
    let expected = fixture.join("secret");
    assert!(matches!(&result, Err(ScanError::Unreadable { path, .. }) if *path == expected));
    if is_root() {
        open().unwrap();
    }
}
