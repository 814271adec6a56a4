//! Tests against real directories, and of the merged tree of a stack.

mod directories;
mod files;
mod links;
mod stack;

use super::{CompareOptions, Difference, DirectoryView, compare};
use crate::scan::tests::fixture::Fixture;

/// The differences between two directories, as text.
fn differences(a: &Fixture, b: &Fixture, options: &CompareOptions) -> Vec<String> {
    let mut a = DirectoryView::open(a.path()).unwrap();
    let mut b = DirectoryView::open(b.path()).unwrap();
    let found = compare(&mut a, &mut b, options).unwrap();
    found.iter().map(Difference::to_string).collect()
}

/// Gives both roots the same time, and then compares everything.
fn strict(a: &Fixture, b: &Fixture) -> Vec<String> {
    a.times("", 1, 0);
    b.times("", 1, 0);
    differences(a, b, &CompareOptions::default())
}

/// Names of a fixture that its other helpers do not give a fixed time.
fn odd_times(fixture: &Fixture) {
    for name in [&b"c"[..], b"k", b"\xff\n", b"d/y"] {
        let path = fixture.join(name);
        if std::fs::symlink_metadata(&path).is_ok() {
            crate::scan::tests::fixture::set_times(&path, 1_000_000, 5);
        }
    }
}
