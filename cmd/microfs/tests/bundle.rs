//! `bundle` and its removal, which must never delete what is not its own.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use support::image::Image;
use support::program::{ok, refuse, succeed, tool};
use support::scratch::{Scratch, is_mounted};

#[test]
fn a_bundle_comes_and_goes() {
    let scratch = Scratch::new();
    let (image, bundle) = (Image::new(&scratch), scratch.join("a bundle"));
    for _ in 0..2 {
        ok(words!["bundle", image.layout, "t", bundle]);
        assert!(is_mounted(&bundle.join("rootfs")));
        std::fs::write(bundle.join("rootfs/new"), "content").unwrap();
        ok(words!["bundle", "--remove", bundle]);
        assert!(!bundle.exists());
    }
    // A directory that is there is taken if it is empty.
    std::fs::create_dir(&bundle).unwrap();
    ok(words!["bundle", image.layout, "t", bundle]);
    refuse(words!["bundle", image.layout, "t", bundle], &["is there already, and not empty"]);
    ok(words!["bundle", "--remove", bundle]);
}

#[test]
fn only_what_microfs_made_is_removed() {
    let scratch = Scratch::new();
    scratch.file("project/config.json", "{}");
    let code = scratch.file("project/src/main", "code");
    refuse(words!["bundle", "--remove", scratch.join("project")], &["not a bundle", "project"]);
    refuse(words!["bundle", "--remove", scratch.join("none")], &["none", "No such file"]);
    assert_eq!(std::fs::read_to_string(code).unwrap(), "code");

    let (image, bundle) = (Image::new(&scratch), scratch.join("bundle"));
    ok(words!["bundle", image.layout, "t", bundle]);
    std::fs::write(bundle.join("notes"), "mine").unwrap();
    refuse(words!["bundle", "--remove", bundle], &["notes", "not part of the bundle"]);
    assert!(is_mounted(&bundle.join("rootfs")), "nothing was touched");
    std::fs::remove_file(bundle.join("notes")).unwrap();

    // Another mount, also of the same filesystem, is never gone into.
    let other = scratch.dir("other");
    scratch.file("other/keep", "precious");
    for below in ["changes/inner", "rootfs/inner"] {
        let point = bundle.join(below);
        std::fs::create_dir_all(&point).unwrap();
        succeed(tool("mount").arg("--bind").arg(&other).arg(&point));
        refuse(words!["bundle", "--remove", bundle], &["inner", "mount point"]);
        assert!(is_mounted(&bundle.join("rootfs")));
        succeed(tool("umount").arg(&point));
    }
    assert_eq!(std::fs::read_to_string(other.join("keep")).unwrap(), "precious");

    // A link in the place of its mount leads to a mount of somebody else.
    let (fake, mount) = (scratch.dir("fake"), scratch.dir("mount"));
    std::fs::copy(bundle.join(".microfs-bundle"), fake.join(".microfs-bundle")).unwrap();
    std::os::unix::fs::symlink(&mount, fake.join("rootfs")).unwrap();
    ok(words!["mount", image.layout, "t", mount]);
    refuse(words!["bundle", "--remove", fake], &["fake/rootfs", "not a directory"]);
    assert!(is_mounted(&mount));
    ok(words!["bundle", "--remove", bundle]);
    assert!(!bundle.exists());
}
