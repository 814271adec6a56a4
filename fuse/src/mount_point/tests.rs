use std::os::unix::fs::symlink;

use super::{check, mounted_at, resolve, resolve_dead};
use crate::error::{MountError, UnmountError};

#[test]
fn a_mount_point_must_be_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    std::fs::write(root.join("file"), b"").unwrap();
    std::fs::create_dir(root.join("directory")).unwrap();
    symlink("directory", root.join("link")).unwrap();
    assert_eq!(check(&root.join("link"), false).unwrap(), root.join("directory"));
    let error = check(&root.join("missing"), false).unwrap_err();
    assert!(matches!(error, MountError::NoMountPoint { .. }));
    let error = check(&root.join("file"), false).unwrap_err();
    assert!(matches!(error, MountError::NotADirectory { .. }));
    let error = check(&root.join("file/below"), false).unwrap_err();
    assert!(matches!(error, MountError::NotADirectory { .. }));
}

#[test]
fn only_fuse_mounts_are_taken_down() {
    let directory = tempfile::tempdir().unwrap();
    let path = resolve(directory.path()).unwrap();
    assert!(matches!(mounted_at(&path), Err(UnmountError::NotMounted { .. })));
    let error = mounted_at("/proc".as_ref()).unwrap_err();
    assert_eq!(error.to_string(), "/proc is a mount of type proc, not of FUSE");
    let error = resolve(&directory.path().join("missing")).unwrap_err();
    assert!(matches!(error, UnmountError::Missing { .. }));
}

#[test]
fn a_dead_mount_is_resolved_without_looking_at_it() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("real")).unwrap();
    symlink("real/dead", root.join("one")).unwrap();
    symlink(root.join("one"), root.join("two")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    assert_eq!(resolve_dead(&root.join("two")).unwrap(), root.join("real/dead"));
    assert_eq!(resolve_dead(&root.join("real/dead/")).unwrap(), root.join("real/dead"));
    assert!(resolve_dead(&root.join("loop")).is_err());
}
