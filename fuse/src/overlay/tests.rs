use std::path::{Path, PathBuf};

use super::{escaped, overlay_at};
use crate::mountinfo::MountEntry;

fn mount(id: u64, parent: u64, fs_type: &str, source: &str) -> MountEntry {
    let (fs_type, source) = (fs_type.into(), source.into());
    MountEntry { id, parent, device: (0, 40), mount_point: PathBuf::from("/m"), fs_type, source }
}

fn is_ours(below: MountEntry, top: MountEntry) -> bool {
    overlay_at(&[below, top], Path::new("/m")).is_some()
}

#[test]
fn an_overlay_of_ours_is_told_from_others() {
    let fuse = |subtype: &str| mount(5, 1, subtype, "image");
    assert!(is_ours(fuse("fuse.microfs"), mount(6, 5, "overlay", "microfs")));
    assert!(is_ours(fuse("fuse.other"), mount(6, 5, "overlay", "microfs")));
    assert!(is_ours(fuse("fuse.microfs"), mount(6, 5, "fuse.fuse-overlayfs", "fuse-overlayfs")));
    // Somebody else's, or over something else, or not over what is below.
    assert!(!is_ours(fuse("fuse.microfs"), mount(6, 5, "overlay", "overlay")));
    assert!(!is_ours(fuse("ext4"), mount(6, 5, "overlay", "microfs")));
    assert!(!is_ours(fuse("fuse.other"), mount(6, 5, "fuse.fuse-overlayfs", "fuse-overlayfs")));
    assert!(!is_ours(fuse("fuse.microfs"), mount(6, 4, "overlay", "microfs")));
    assert!(!is_ours(fuse("fuse.microfs"), mount(6, 5, "tmpfs", "microfs")));
    assert!(overlay_at(&[mount(6, 5, "overlay", "microfs")], Path::new("/m")).is_none());
}

#[test]
fn separators_in_paths_are_escaped() {
    // As overlayfs unescapes them: a backslash keeps the next byte as it is.
    assert_eq!(escaped(Path::new(r"/a,b:c\d e")), r"/a\,b\:c\\d e");
}
