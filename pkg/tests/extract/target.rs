//! What is in the way at the target.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use microfs::extract::{Action, ExtractError, ExtractOptions};
use microfs::tree::NodeId;

use crate::{assert_metadata, built, fail, mine, place, root, run};

#[test]
fn the_target_must_be_empty_unless_forced() {
    let mut builder = root();
    let directory = builder.directory(NodeId::ROOT, b"dir", mine(0o750, 1, 1));
    let file = builder.file(directory, b"file", mine(0o640, 1, 1), b"new");
    builder.link(directory, b"second", file);
    builder.directory(NodeId::ROOT, b"was-link", mine(0o750, 1, 1));
    builder.symlink(NodeId::ROOT, b"link", mine(0o777, 1, 1), b"new");
    let stack = built(builder);
    let (keep, target) = place();
    let outside = keep.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::create_dir_all(target.join("dir")).unwrap();
    fs::write(target.join("dir/file"), "old, and longer").unwrap();
    fs::write(target.join("dir/second"), "old").unwrap();
    fs::write(target.join("dir/other"), "stays").unwrap();
    fs::write(target.join("link"), "old").unwrap();
    std::os::unix::fs::symlink(&outside, target.join("was-link")).unwrap();
    let error = fail(&stack, &target, ExtractOptions::default());
    assert!(matches!(error, ExtractError::NotEmpty { path } if path == target));
    assert_eq!(fs::read(target.join("dir/file")).unwrap(), b"old, and longer");

    run(&stack, &target, ExtractOptions { force: true, ..ExtractOptions::default() });
    assert_eq!(fs::read(target.join("dir/file")).unwrap(), b"new");
    assert_eq!(fs::read(target.join("dir/second")).unwrap(), b"new");
    assert_eq!(fs::read(target.join("dir/other")).unwrap(), b"stays");
    assert_metadata(&target.join("dir"), mine(0o750, 1, 1));
    assert!(fs::symlink_metadata(target.join("was-link")).unwrap().is_dir());
    assert!(fs::symlink_metadata(target.join("link")).unwrap().is_symlink());
    let outside = fs::symlink_metadata(&outside).unwrap();
    assert_ne!(outside.permissions().mode() & 0o777, 0o750, "a link was followed");
}

#[test]
fn a_directory_is_not_replaced_by_a_file() {
    let mut builder = root();
    builder.file(NodeId::ROOT, b"x", mine(0o644, 1, 1), b"new");
    let stack = built(builder);
    let (_keep, target) = place();
    fs::create_dir_all(target.join("x")).unwrap();
    let error = fail(&stack, &target, ExtractOptions { force: true, ..ExtractOptions::default() });
    let ExtractError::System { action, path, .. } = error else { panic!("{error:?}") };
    assert_eq!((action, path), (Action::Replace, target.join("x")));
}

#[test]
fn a_missing_parent_is_an_error() {
    let (keep, _) = place();
    let target = keep.path().join("no/such");
    let error = fail(&built(root()), &target, ExtractOptions::default());
    let ExtractError::System { action, path, .. } = error else { panic!("{error:?}") };
    assert_eq!((action, path), (Action::Create, target));
}
