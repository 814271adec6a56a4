use std::path::Path;

use super::{parse, top_at, unescape};

/// The first line is the example of proc(5), the others were read from a running system.
const TEXT: &[u8] = b"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
29 1 254:0 / / rw,relatime - ext4 /dev/vda rw
120 29 0:61 / /tmp/a\\040b\\134c\\011d\\012 ro,relatime shared:3 master:2 - fuse.microfs oci:tag\\040x ro,user_id=0
121 120 0:62 / /tmp/a\\040b\\134c\\011d\\012 ro - tmpfs tmpfs rw
broken line
";

#[test]
fn lines_are_taken_apart() {
    let mounts = parse(TEXT);
    assert_eq!(mounts.len(), 4);
    assert_eq!((mounts[0].id, mounts[0].parent, mounts[0].device), (36, 35, (98, 0)));
    assert_eq!(mounts[0].mount_point, Path::new("/mnt2"));
    assert_eq!(mounts[0].fs_type, b"ext3");
    assert_eq!(mounts[2].mount_point, Path::new("/tmp/a b\\c\td\n"));
    assert_eq!(mounts[2].fs_type, b"fuse.microfs");
    assert_eq!(mounts[2].source, b"oci:tag x");
}

#[test]
fn the_last_mount_at_a_path_is_on_top() {
    let mounts = parse(TEXT);
    assert_eq!(top_at(&mounts, Path::new("/tmp/a b\\c\td\n")).unwrap().id, 121);
    assert_eq!(top_at(&mounts, Path::new("/")).unwrap().id, 29);
    assert!(top_at(&mounts, Path::new("/tmp")).is_none());
}

#[test]
fn only_octal_escapes_are_decoded() {
    assert_eq!(unescape(b"a\\0"), b"a\\0");
    assert_eq!(unescape(b"\\999\\101\\"), b"\\999A\\");
    assert_eq!(unescape(b"\\777"), b"\\777");
}

#[test]
fn the_running_systems_mounts_can_be_read() {
    let mounts = super::read().unwrap();
    assert!(top_at(&mounts, Path::new("/proc")).is_some());
}
