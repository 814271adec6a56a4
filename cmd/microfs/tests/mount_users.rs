//! Mounts and builds by ordinary users: through fusermount3, and in user
//! namespaces.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::path::Path;
use std::time::Duration;

use support::image::Image;
use support::program::{fail, ok, succeed, tool};
use support::scratch::{Scratch, is_mounted};
use support::users::{NOBODY, as_nobody, home, namespace, owner};

#[test]
fn an_ordinary_user_mounts_through_fusermount3() {
    tool("fusermount3");
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let at = home(&scratch, "at");
    let script = "
        user \"$PROGRAM\" mount \"$LAYOUT\" t at
        user \"$PROGRAM\" diff \"$LAYOUT\" t at
        grep \"$PWD\" /proc/self/mountinfo | grep -o 'nosuid,nodev.*fuse.microfs.*user_id=65534'
        # Without allow_other it is for its user alone, even before root.
        if ls at 2>/dev/null; then exit 9; fi
        if user mkdir at/new 2>/dev/null; then exit 9; fi
        user \"$PROGRAM\" umount at
        if grep \"$PWD.*fuse.microfs\" /proc/self/mountinfo; then exit 9; fi
        user \"$PROGRAM\" mount \"$LAYOUT\" t at
        user fusermount3 -u at";
    let out = succeed(namespace(&scratch, "666", script).env("LAYOUT", &layout));
    assert!(out.starts_with("nosuid,nodev"), "{out}");
    assert!(!is_mounted(&at));
}

#[test]
fn a_device_for_root_alone_is_named() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    home(&scratch, "at");
    let script = "user \"$PROGRAM\" mount \"$LAYOUT\" t at";
    let line = fail(namespace(&scratch, "600", script).env("LAYOUT", &layout), 1);
    assert!(line.contains("no permission to open /dev/fuse"), "{line}");
}

#[test]
fn a_user_shares_a_mount_only_where_the_system_permits_it() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    home(&scratch, "at");
    let script = "
        echo \"$CONFIGURATION\" >fuse.conf
        touch /etc/fuse.conf
        mount --bind fuse.conf /etc/fuse.conf
        user \"$PROGRAM\" mount -o allow_other \"$LAYOUT\" t at
        cat at/linked >/dev/null
        user \"$PROGRAM\" umount at";
    let with = |configuration: &str| {
        let mut command = namespace(&scratch, "666", script);
        command.env("LAYOUT", &layout).env("CONFIGURATION", configuration);
        command
    };
    let line = fail(&mut with("# nothing"), 1);
    assert!(line.contains("user_allow_other"), "{line}");
    succeed(&mut with("user_allow_other"));
}

#[test]
fn a_missing_fusermount3_is_named() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    home(&scratch, "at");
    let script = "
        cp \"$(command -v setpriv)\" setpriv
        mount -t tmpfs none \"$(realpath /usr/local/bin)\"
        mount -t tmpfs none \"$(realpath /bin)\"
        ./setpriv --reuid=65534 --regid=65534 --clear-groups \"$PROGRAM\" mount \"$LAYOUT\" t at";
    let line = fail(namespace(&scratch, "666", script).env("LAYOUT", &layout), 1);
    assert!(line.contains("fusermount3") && line.contains("fuse3"), "{line}");
}

#[test]
fn a_fusermount3_that_may_not_be_run_is_passed_over() {
    tool("fusermount3");
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let at = home(&scratch, "at");
    let script = "
        mkdir shadow
        touch shadow/fusermount3
        user env PATH=\"$PWD/shadow\" \"$PROGRAM\" mount \"$LAYOUT\" t at
        user env PATH=\"$PWD/shadow\" \"$PROGRAM\" umount at";
    succeed(namespace(&scratch, "666", script).env("LAYOUT", &layout));
    assert!(!is_mounted(&at));
}

#[test]
fn a_mount_point_that_is_not_the_users_is_refused() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    scratch.dir("roots");
    let script = "user \"$PROGRAM\" mount \"$LAYOUT\" t roots";
    let line = fail(namespace(&scratch, "666", script).env("LAYOUT", &layout), 1);
    assert!(line.contains("roots"), "{line}");
}

#[test]
fn in_a_user_namespace_it_mounts_by_itself() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    home(&scratch, "at");
    let inside = "
        \"$PROGRAM\" mount \"$LAYOUT\" t at
        \"$PROGRAM\" diff \"$LAYOUT\" t at
        cat at/link | wc -c
        if touch at/new 2>/dev/null; then exit 9; fi
        \"$PROGRAM\" umount at
        if grep \"$PWD.*fuse.microfs\" /proc/self/mountinfo; then exit 9; fi";
    // No fusermount3 could help there.
    let script = "mount --bind /dev/null \"$(command -v fusermount3)\"
        user unshare --user --map-root-user --mount sh -e -c \"$INSIDE\"";
    let mut command = namespace(&scratch, "666", script);
    let out = succeed(command.env("LAYOUT", &layout).env("INSIDE", inside));
    assert_eq!(out, "2000\n");
}

#[test]
fn in_a_user_namespace_it_mounts_writable() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    home(&scratch, "at");
    let temporary = home(&scratch, "temporary");
    let inside = "
        \"$PROGRAM\" mount -w \"$LAYOUT\" t at
        grep \"$PWD\" /proc/self/mountinfo | grep -c ' overlay microfs '
        \"$PROGRAM\" diff \"$LAYOUT\" t at
        echo new >at/directory/new
        rm at/link
        mkdir at/link
        cat at/directory/new
        ls at
        \"$PROGRAM\" umount at
        if grep \"$PWD\" /proc/self/mountinfo | grep -e fuse.microfs -e ' overlay '; then exit 9; fi
        \"$PROGRAM\" mount -w \"$LAYOUT\" t at
        test -L at/link
        \"$PROGRAM\" umount at";
    // Neither of these could help there.
    let script = "
        for program in fusermount3 fuse-overlayfs; do
            mount --bind /dev/null \"$(command -v $program)\"
        done
        user unshare --user --map-root-user --mount sh -e -c \"$INSIDE\"";
    let mut command = namespace(&scratch, "666", script);
    command.env("LAYOUT", &layout).env("INSIDE", inside).env("TMPDIR", &temporary);
    assert_eq!(succeed(&mut command), "1\nnew\ndirectory\nlarge\nlink\nlinked\n");
    assert_empty_soon(&temporary);
}

/// The process that serves a mount goes a moment after the mount.
#[track_caller]
fn assert_empty_soon(directory: &Path) {
    let left = || std::fs::read_dir(directory).unwrap().count();
    for _ in 0..500 {
        if left() == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} things are left", left());
}

#[test]
fn an_ordinary_user_mounts_writable_through_fuse_overlayfs() {
    for needed in ["fusermount3", "fuse-overlayfs"] {
        tool(needed);
    }
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let (at, temporary) = (home(&scratch, "at"), home(&scratch, "temporary"));
    std::fs::copy("/bin/true", source.join("true")).unwrap();
    ok(words!["build", "-q", source, layout, "t"]);
    let script = "
        user \"$PROGRAM\" mount -w \"$LAYOUT\" t at
        # The image itself is out of sight.
        grep \"$PWD\" /proc/self/mountinfo | grep -c ' - fuse'
        grep \"$PWD\" /proc/self/mountinfo | grep -o 'nosuid,nodev.* - fuse.fuse-overlayfs .*user_id=65534'
        if user \"$PROGRAM\" mount \"$LAYOUT\" t at 2>refused; then exit 9; fi
        user at/true
        user cmp at/large \"$SOURCE/large\"
        user sh -e -c 'cd at; echo new >new; rm link; mkdir link; cat new; ls'
        # What is root's stays root's.
        if user sh -c 'echo x >>at/linked' 2>/dev/null; then exit 9; fi
        user \"$PROGRAM\" umount at
        if grep \"$PWD.* - fuse\" /proc/self/mountinfo; then exit 9; fi
        user \"$PROGRAM\" mount -w \"$LAYOUT\" t at
        user test -L at/link
        user fusermount3 -u at
        # Right after one another, and by relative names.
        for round in 1 2 3; do
            user \"$PROGRAM\" mount --persist temporary/kept \"$LAYOUT\" t at
            user sh -c 'echo x >>at/rounds'
            user \"$PROGRAM\" umount at
        done
        cat temporary/kept/upper/rounds
        rm -r temporary/kept";
    let mut command = namespace(&scratch, "666", script);
    command.env("LAYOUT", &layout).env("SOURCE", &source).env("TMPDIR", &temporary);
    let out = succeed(&mut command);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[0], "1");
    assert!(lines[1].starts_with("nosuid,nodev"), "{out}");
    let wanted = ["new", "directory", "large", "link", "linked", "new", "true", "x", "x", "x"];
    assert_eq!(lines[2..], wanted);
    let refused = std::fs::read_to_string(scratch.join("refused")).unwrap();
    assert!(refused.contains("fuse.fuse-overlayfs is already mounted"), "{refused}");
    assert!(!is_mounted(&at));
    assert_empty_soon(&temporary);
}

#[test]
fn a_missing_fuse_overlayfs_is_named() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let (at, temporary) = (home(&scratch, "at"), home(&scratch, "temporary"));
    let script = "user env PATH=/nowhere \"$PROGRAM\" mount -w \"$LAYOUT\" t at";
    let mut command = namespace(&scratch, "666", script);
    let line = fail(command.env("LAYOUT", &layout).env("TMPDIR", &temporary), 1);
    assert!(line.contains("install the package fuse-overlayfs"), "{line}");
    assert!(!is_mounted(&at));
    assert_empty_soon(&temporary);
}

#[test]
fn a_user_with_subordinate_ids_builds_a_tree_of_many_owners() {
    for needed in ["newuidmap", "setfattr"] {
        tool(needed);
    }
    let scratch = Scratch::new();
    let home = home(&scratch, "home");
    let inside = "
        cd home
        mkdir tree at
        echo content >tree/file
        chown 5:6 tree/file
        chmod 4755 tree/file
        setfattr -n user.key -v value tree/file
        ln tree/file tree/other
        mkfifo tree/pipe
        chown 1000:1000 tree/pipe
        \"$PROGRAM\" build -q tree layout t
        \"$PROGRAM\" check layout t >/dev/null
        \"$PROGRAM\" mount layout t at
        \"$PROGRAM\" diff layout t tree
        \"$PROGRAM\" diff layout t at
        stat -c '%u:%g %a %h' at/file at/pipe
        \"$PROGRAM\" umount at
        \"$PROGRAM\" extract -q layout t out
        \"$PROGRAM\" diff layout t out";
    let script = "
        echo nobody:100000:65536 >subids
        for file in /etc/subuid /etc/subgid; do
            touch $file
            mount --bind subids $file
        done
        user unshare --user --map-root-user --map-auto --mount sh -e -c \"$INSIDE\"";
    let out = succeed(namespace(&scratch, "666", script).env("INSIDE", inside));
    assert_eq!(out, "5:6 4755 2\n1000:1000 644 1\n");
    // Seen from outside the image has the owners of the inside.
    let listing = ok(words!["ls", home.join("layout"), "t"]);
    let line = listing.lines().find(|line| line.ends_with(" /file")).unwrap();
    assert!(line.starts_with("-rwsr-xr-x   2     5     6 "), "{line}");
    assert_eq!(owner(&home.join("tree/file")), (100_004, 100_005));
    assert_eq!(owner(&home.join("layout")), (NOBODY, NOBODY));
}

#[test]
fn a_user_builds_and_extracts_what_is_theirs() {
    let scratch = Scratch::new();
    let home = home(&scratch, "home");
    let script =
        "cd home; mkdir -p tree/sub; echo a >tree/sub/a; ln -s sub/a tree/l; mkfifo tree/p";
    let mut shell = tool("setpriv");
    shell.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-e", "-c", script]);
    succeed(shell.current_dir(scratch.path()));
    let (tree, layout, out) = (home.join("tree"), home.join("layout"), home.join("out"));
    succeed(&mut as_nobody(&scratch, words!["build", "-q", tree, layout, "t"]));
    succeed(&mut as_nobody(&scratch, words!["diff", layout, "t", tree]));
    succeed(&mut as_nobody(&scratch, words!["extract", layout, "t", out]));
    ok(words!["diff", layout, "t", out]);
    assert_eq!(owner(&layout.join("index.json")), (NOBODY, NOBODY));
}
