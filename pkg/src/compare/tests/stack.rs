use std::sync::Arc;

use crate::build::write_directory;
use crate::compare::{CompareOptions, Difference, DirectoryView, StackView, compare};
use crate::scan::tests::fixture::Fixture;
use crate::scan::{OnError, Scan, ScanOptions};
use crate::stack::{LayerSource, Stack, StackOptions};
use crate::writer::{Options, Progress, Silent};

/// A stack of one layer that holds a directory.
fn built(fixture: &Fixture) -> Stack {
    let scanned = Scan::run(fixture.path(), &ScanOptions::default()).unwrap();
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
    let options = Options { block_log: 12, ..Options::default() };
    let progress: Arc<dyn Progress> = Arc::new(Silent);
    let sink = &mut || Ok(Vec::new());
    let built = write_directory(sink, scanned, OnError::Fail, &options, &pool, &progress).unwrap();
    let layer = LayerSource { source: Box::new(built.sink), sha256: None };
    Stack::open(vec![layer], &StackOptions::default()).unwrap()
}

fn differences(fixture: &Fixture, stack: &Stack) -> Vec<String> {
    let mut disk = DirectoryView::open(fixture.path()).unwrap();
    let mut view = StackView::new(stack);
    let found = compare(&mut disk, &mut view, &CompareOptions::default()).unwrap();
    found.iter().map(Difference::to_string).collect()
}

#[test]
fn a_layer_is_the_directory_that_it_was_built_from() {
    let fixture = super::directories::sample();
    let random: Vec<u8> = (0u32..9000).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
    fixture.file("d/large", &random).file("d/copy", &random).file("d/empty", b"");
    fixture.sparse("holes", 1 << 20, &[(8192, &random), (900_000, b"x")]);
    let stack = built(&fixture);
    assert_eq!(differences(&fixture, &stack), [""; 0]);
    fixture.times("d/empty", 7, 0).file("d/more", b"");
    let found = differences(&fixture, &stack);
    assert_eq!(found.iter().filter(|text| text.starts_with("/d/empty: mtime 7+0")).count(), 1);
    assert!(found.contains(&"/d/more: missing (regular file)".to_owned()), "{found:?}");
}

#[test]
fn sparse_files_of_any_size() {
    let fixture = Fixture::in_memory();
    fixture.sparse("huge", (1 << 63) - 1, &[(1 << 40, b"1"), (1 << 62, &[5; 70_000])]);
    fixture.sparse("hollow", 1 << 50, &[]);
    assert_eq!(differences(&fixture, &built(&fixture)), [""; 0]);
}

/// Names outside the directory are no business of the layer's.
#[test]
fn link_counts_are_those_of_the_layer() {
    let (fixture, outside) = (Fixture::new(), Fixture::new());
    fixture.file("a", b"1").link("a", "b").file("c", b"2");
    std::fs::hard_link(fixture.join("a"), outside.join("a")).unwrap();
    std::fs::hard_link(fixture.join("c"), outside.join("c")).unwrap();
    assert_eq!(differences(&fixture, &built(&fixture)), [""; 0]);
}

#[test]
fn deeper_than_a_path_can_be() {
    let fixture = Fixture::in_memory();
    fixture.chain(3000, |level| level % 100 == 0);
    assert_eq!(differences(&fixture, &built(&fixture)), [""; 0]);
    fixture.remove_chain();
}
