use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::is_fresh;
use crate::overlay::Writable;

fn dirs(at: &Path) -> Writable {
    Writable { upper: at.join("deep/upper"), work: at.join("work") }
}

#[test]
fn only_what_no_overlay_has_used_is_fresh() {
    let directory = tempfile::tempdir().unwrap();
    let dirs = dirs(directory.path());
    assert!(is_fresh(&dirs).unwrap());
    assert!(dirs.upper.is_dir());
    // Empty, and not used yet.
    assert!(is_fresh(&dirs).unwrap());
    fs::write(dirs.upper.join("file"), "").unwrap();
    assert!(!is_fresh(&dirs).unwrap());
    // An overlay whose only change is to the root leaves it empty.
    fs::remove_file(dirs.upper.join("file")).unwrap();
    fs::create_dir(&dirs.work).unwrap();
    fs::set_permissions(&dirs.upper, PermissionsExt::from_mode(0o711)).unwrap();
    assert!(!is_fresh(&dirs).unwrap());
}
