//! Two directories are the same.

use std::path::Path;

use microfs::compare::{CompareOptions, DirectoryView, compare};

/// Differences between two directories, each with all names of its objects,
/// in every attribute; must be none.
#[track_caller]
pub fn assert_same(a: &Path, b: &Path) {
    assert_same_but(a, b, &CompareOptions::default());
}

/// The same for the attributes that the options name.
#[track_caller]
pub fn assert_same_but(a: &Path, b: &Path, options: &CompareOptions) {
    let options = CompareOptions { max_differences: 20, ..options.clone() };
    let mut left = DirectoryView::open(a).unwrap().closed();
    let mut right = DirectoryView::open(b).unwrap().closed();
    let found = compare(&mut left, &mut right, &options).unwrap_or_else(|error| panic!("{error}"));
    let list: String = found.iter().map(|difference| format!("\n{difference}")).collect();
    assert!(list.is_empty(), "{} and {} differ:{list}", a.display(), b.display());
}
