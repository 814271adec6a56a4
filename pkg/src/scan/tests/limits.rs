use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::fixture::{Fixture, paths};
use crate::scan::{ScanOptions, ScanProgress};
use crate::tree::{NodeKind, Target};

#[test]
fn names_of_any_bytes() {
    let fixture = Fixture::new();
    let mut names = vec![vec![b'x'; 255], b"\xff\xfe\x80".to_vec(), b"new\nline \x1b[31m".to_vec()];
    names.push("ü".repeat(127).into_bytes());
    names.push(b" ".to_vec());
    names.push(b"...".to_vec());
    for name in &names {
        fixture.file(name, name);
    }
    let scanned = fixture.scan();
    let found = paths(&scanned.tree);
    names.push(Vec::new());
    names.sort();
    assert_eq!(found.keys().cloned().collect::<Vec<_>>(), names);
    let tree = scanned.tree.validate().unwrap();
    for (path, node) in found.iter().skip(1) {
        let file = scanned.sources.open(&tree, *node).unwrap();
        let mut content = vec![0; path.len()];
        file.read_exact_at(0, &mut content).unwrap();
        assert_eq!(content, *path);
    }
}

#[test]
fn longest_link_target() {
    let fixture = Fixture::new();
    for length in [1, 255, 256, 257, 1023, 4095] {
        fixture.symlink(length.to_string(), &vec![b't'; length]);
    }
    let scanned = fixture.scan();
    for (path, node) in paths(&scanned.tree).into_iter().skip(1) {
        let NodeKind::Symlink { target } = scanned.tree.node(node).kind else {
            panic!("{path:?} is not a link")
        };
        let length: usize = String::from_utf8(path).unwrap().parse().unwrap();
        assert_eq!(scanned.tree.bytes(target), vec![b't'; length]);
    }
}

/// Counts the descriptors of the process now and then. Other tests run
/// beside this one, but none of them opens many.
#[derive(Default)]
struct Descriptors {
    calls: AtomicU64,
    most: AtomicUsize,
}

impl ScanProgress for Descriptors {
    fn entries(&self, _: u64) -> ControlFlow<()> {
        if self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(1000) {
            let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
            self.most.fetch_max(open, Ordering::Relaxed);
        }
        ControlFlow::Continue(())
    }
}

#[test]
fn depth_of_100_000() {
    const DEPTH: usize = 100_000;
    let fixture = Fixture::in_memory();
    fixture.chain(DEPTH, |level| level % 1000 == 999);
    let progress = Arc::new(Descriptors::default());
    let options =
        ScanOptions { progress: Some(Arc::clone(&progress) as _), ..ScanOptions::default() };
    let scanned = fixture.scan_with(&options);
    assert_eq!(scanned.tree.node_count(), 1 + DEPTH + DEPTH / 1000);
    assert!(progress.most.load(Ordering::Relaxed) < 400);
    let tree = scanned.tree.validate().unwrap();
    let files: Vec<_> = tree
        .order()
        .iter()
        .filter(|node| matches!(tree.node(**node).kind, NodeKind::Regular { .. }))
        .collect();
    assert_eq!(files.len(), DEPTH / 1000);
    // From the top and from the bottom.
    for (position, node) in files.iter().enumerate().chain(files.iter().enumerate().rev()) {
        let expected = (position * 1000 + 999).to_string();
        let mut content = vec![0; expected.len()];
        let file = scanned.sources.open(&tree, **node).unwrap();
        file.read_exact_at(0, &mut content).unwrap();
        assert_eq!(content, expected.as_bytes());
        file.finish().unwrap();
    }
    fixture.remove_chain();
}

/// On the way up, directories that were closed are reached by `..`.
#[test]
fn siblings_on_the_way_up() {
    let fixture = Fixture::new();
    let mut path = String::new();
    for level in 0..300 {
        path.push_str("d/");
        fixture.directory(&path).directory(format!("{path}e"));
        fixture.file(format!("{path}e/f"), level.to_string().as_bytes());
    }
    let scanned = fixture.scan();
    let found = paths(&scanned.tree);
    assert_eq!(found.len(), 1 + 3 * 300);
    let tree = scanned.tree.validate().unwrap();
    for (path, node) in found.iter().filter(|(path, _)| path.ends_with(b"/f")) {
        let expected = (path.len() / 2 - 2).to_string();
        let mut content = vec![0; expected.len()];
        let file = scanned.sources.open(&tree, *node).unwrap();
        file.read_exact_at(0, &mut content).unwrap();
        assert_eq!(content, expected.as_bytes());
    }
}

#[test]
fn a_wide_directory_comes_in_order_and_reports() {
    #[derive(Default)]
    struct Reports(AtomicU64);
    impl ScanProgress for Reports {
        fn entries(&self, entries: u64) -> ControlFlow<()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            assert!(entries <= 10_000);
            ControlFlow::Continue(())
        }
    }
    let fixture = Fixture::new();
    for number in 0..10_000 {
        fixture.symlink(format!("{number:05}"), b"t");
    }
    let reports = Arc::new(Reports::default());
    let options =
        ScanOptions { progress: Some(Arc::clone(&reports) as _), ..ScanOptions::default() };
    let scanned = fixture.scan_with(&options);
    let tree = &scanned.tree;
    assert_eq!(tree.dentries().len(), 10_000);
    for (number, dentry) in tree.dentries().iter().enumerate() {
        assert_eq!(tree.bytes(dentry.name), format!("{number:05}").as_bytes());
        assert!(matches!(dentry.target, Target::Node(node) if node.0 as usize == number + 1));
    }
    assert_eq!(reports.0.load(Ordering::Relaxed), 10);
}
