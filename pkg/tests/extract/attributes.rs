//! Types, owners, times and attributes, by root and by others.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use microfs::extract::{ExtractError, ExtractOptions, Silent, What, extract};
use microfs::tree::NodeId;

use crate::support::{Builder, metadata, noise, pool};
use crate::{assert_metadata, built, is_root, mine, place, root, run, xattrs};

#[test]
fn restores_every_type() {
    let mut builder = root();
    let directory_metadata = mine(0o1501, -77, 999_999_999);
    let directory = builder.directory(NodeId::ROOT, b"dir", directory_metadata);
    let secret = mine(0o000, 5, 6);
    builder.file(directory, b"secret", secret, b"nobody reads this");
    builder.file(directory, b"empty", mine(0o644, 7, 0), b"");
    let big = noise(9, 3 * 4096 + 17);
    let big_node = builder.file(directory, b"big", mine(0o6755, 1 << 31, 1), &big);
    builder.link(NodeId::ROOT, b"a-name", big_node);
    builder.link(NodeId::ROOT, b"z-name", big_node);
    let link = mine(0o777, 11, 12);
    let link_node = builder.symlink(NodeId::ROOT, b"link", link, b"/no/such/place");
    builder.link(directory, b"same-link", link_node);
    let fifo = mine(0o640, 13, 14);
    builder.fifo(NodeId::ROOT, b"fifo", fifo);
    let socket = mine(0o751, 15, 16);
    builder.socket(NodeId::ROOT, b"socket", socket);
    builder.directory(NodeId::ROOT, b"hollow", mine(0o2700, 17, 0));
    let odd = b"\xff\n \x01name";
    builder.file(NodeId::ROOT, odd, mine(0o600, 1, 1), b"x");
    let stack = built(builder);

    let (_keep, target) = place();
    let report = run(&stack, &target, ExtractOptions::default());
    assert!(report.is_complete(), "{report:?}");
    assert_eq!((report.directories, report.files, report.symlinks), (3, 4, 1));
    assert_eq!((report.fifos, report.sockets, report.devices), (1, 1, 0));
    assert_eq!(report.hard_links, 3);
    assert_eq!(report.bytes, 17 + u64::try_from(big.len()).unwrap() + 1);

    assert_metadata(&target, mine(0o755, 1, 2));
    assert_metadata(&target.join("dir"), directory_metadata);
    assert_metadata(&target.join("hollow"), mine(0o2700, 17, 0));
    assert_metadata(&target.join("dir/secret"), secret);
    assert_metadata(&target.join("dir/big"), mine(0o6755, 1 << 31, 1));
    assert_metadata(&target.join("fifo"), fifo);
    assert_metadata(&target.join("socket"), socket);
    assert_metadata(&target.join("link"), link);
    assert_eq!(fs::read(target.join("dir/big")).unwrap(), big);
    assert_eq!(fs::read(target.join("dir/empty")).unwrap(), b"");
    assert_eq!(fs::read(target.join(std::ffi::OsStr::from_bytes(odd))).unwrap(), b"x");
    assert_eq!(fs::read_link(target.join("link")).unwrap(), Path::new("/no/such/place"));
    let kind = |name: &str| fs::symlink_metadata(target.join(name)).unwrap().file_type();
    assert!(kind("fifo").is_fifo() && kind("socket").is_socket());
    let inode = |name: &str| {
        let found = fs::symlink_metadata(target.join(name)).unwrap();
        (found.ino(), found.nlink())
    };
    assert_eq!(inode("a-name"), inode("dir/big"));
    assert_eq!(inode("z-name"), inode("dir/big"));
    assert_eq!(inode("dir/big").1, 3);
    assert_eq!(inode("link"), inode("dir/same-link"));
    assert_eq!(inode("link").1, 2);
}

#[test]
fn restores_owners_devices_and_attributes_as_root() {
    if !is_root() {
        return eprintln!("skipped: needs root");
    }
    let mut builder = Builder::new(metadata(0o755, 3, 4, 5, 6));
    // A capability, which a later change of owner or content would take away:
    // cap_net_raw, version 2, effective.
    let capability = *b"\x01\0\0\x02\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    let acl = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x02\0\x04\0\xd2\x04\0\0\x04\0\x04\0\xff\xff\xff\xff\x10\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
    let sets: [(&str, &[u8]); 5] = [
        ("security.capability", &capability),
        ("security.other", b"\0label"),
        ("system.posix_acl_access", acl),
        ("trusted.overlay.opaque", b"y"),
        ("user.note", b""),
    ];
    let owned = builder.xattrs(metadata(0o6640, 70_000, 80_000, 9, 10), &sets);
    builder.file(NodeId::ROOT, b"file", owned, b"content");
    let on_link = builder.xattrs(metadata(0o777, 7, 8, 9, 10), &[("trusted.t", b"1")]);
    builder.symlink(NodeId::ROOT, b"link", on_link, b"nowhere");
    let with_default =
        builder.xattrs(metadata(0o2771, 1, 2, 3, 4), &[("system.posix_acl_default", acl)]);
    let directory = builder.directory(NodeId::ROOT, b"dir", with_default);
    builder.file(directory, b"inside", metadata(0o600, 0, 0, 0, 0), b"");
    let device = metadata(0o4666, 5, 6, 7, 8);
    let node = builder.device(NodeId::ROOT, b"chr", device, false, 400, 70_000);
    builder.link(directory, b"again", node);
    builder.device(NodeId::ROOT, b"blk", device, true, 8, 1);
    let stack = built(builder);

    let (_keep, target) = place();
    let report = run(&stack, &target, ExtractOptions { sync: true, ..ExtractOptions::default() });
    assert!(report.is_complete(), "{report:?}");
    assert_metadata(&target, metadata(0o755, 3, 4, 5, 6));
    assert_metadata(&target.join("file"), owned);
    assert_metadata(&target.join("link"), on_link);
    assert_metadata(&target.join("dir"), with_default);
    assert_metadata(&target.join("chr"), device);
    let expected = sets.map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec()));
    assert_eq!(xattrs(&target.join("file")), BTreeMap::from(expected));
    assert_eq!(xattrs(&target.join("link")).keys().next().unwrap(), b"trusted.t");
    assert_eq!(xattrs(&target.join("dir")).len(), 1);
    // Made before its directory had a default ACL.
    assert!(xattrs(&target.join("dir/inside")).is_empty());
    let chr = fs::symlink_metadata(target.join("chr")).unwrap();
    assert!(chr.file_type().is_char_device());
    assert_eq!(chr.rdev(), rustix::fs::makedev(400, 70_000));
    assert_eq!(chr.ino(), fs::symlink_metadata(target.join("dir/again")).unwrap().ino());
    let blk = fs::symlink_metadata(target.join("blk")).unwrap();
    assert!(blk.file_type().is_block_device());
    assert_eq!((report.devices, report.hard_links), (2, 1));
}

#[test]
fn an_unusual_time_is_kept_or_reported() {
    let mut builder = root();
    let times = [i64::MAX, i64::from(u32::MAX) * 100, -(1 << 31), -(1 << 40), 0];
    for (number, time) in times.iter().enumerate() {
        builder.file(NodeId::ROOT, number.to_string().as_bytes(), mine(0o644, *time, 0), b"");
    }
    let stack = built(builder);
    let (_keep, target) = place();
    let report = run(&stack, &target, ExtractOptions::default());
    for (number, time) in times.iter().enumerate() {
        let path = PathBuf::from(number.to_string());
        let kept = fs::metadata(target.join(&path)).unwrap().mtime() == *time;
        let reported =
            report.unrestored.iter().any(|case| case.path == path && case.what == What::Time);
        assert_ne!(kept, reported, "{time}");
    }
    assert_eq!(report.times_lost, report.lost());
}

/// Runs `work` as an ordinary user, on a thread of its own and a pool that
/// inherits the user from it.
fn as_nobody<T: Send>(work: impl FnOnce(&rayon::ThreadPool) -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (uid, gid) = (rustix::fs::Uid::from_raw(65_534), rustix::fs::Gid::from_raw(65_534));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_gid(gid).unwrap();
            rustix::thread::set_thread_uid(uid).unwrap();
            work(&pool(2))
        });
        thread.join().unwrap()
    })
}

#[test]
fn an_ordinary_user_learns_what_is_missing() {
    if !is_root() {
        return eprintln!("skipped: needs root to become somebody else");
    }
    let mut builder = Builder::new(metadata(0o755, 0, 0, 5, 6));
    let strange = builder.xattrs(
        metadata(0o4444, 0, 0, 9, 10),
        &[("security.capability", b"x"), ("trusted.t", b"1"), ("user.u", b"kept")],
    );
    builder.file(NodeId::ROOT, b"strange", strange, b"content");
    builder.file(NodeId::ROOT, b"own", metadata(0o6751, 65_534, 65_534, 1, 2), b"own");
    let device = builder.device(NodeId::ROOT, b"dev", metadata(0o666, 0, 0, 1, 1), false, 1, 3);
    builder.link(NodeId::ROOT, b"dev2", device);
    let stack = built(builder);
    let (keep, target) = place();
    fs::set_permissions(keep.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let options = ExtractOptions::default();
    let report = as_nobody(|pool| extract(&stack, &target, &options, pool, &Silent).unwrap());
    assert_eq!((report.owners_lost, report.set_ids_lost), (2, 1));
    assert_eq!((report.devices_lost, report.xattrs_lost, report.times_lost), (2, 2, 0));
    let listed: Vec<_> = report
        .unrestored
        .iter()
        .map(|case| format!("{} of {:?}", case.what, case.path.to_str().unwrap()))
        .collect();
    let expected = [
        r#"the owner of """#,
        r#"the device node of "dev""#,
        r#"the device node of "dev2""#,
        r#"the owner of "strange""#,
        r#"xattr security.capability of "strange""#,
        r#"xattr trusted.t of "strange""#,
        r#"setuid or setgid of "strange""#,
    ];
    assert_eq!(listed, expected);
    let file = target.join("strange");
    let kept = BTreeMap::from([(b"user.u".to_vec(), b"kept".to_vec())]);
    assert_eq!(xattrs(&file), kept);
    assert_metadata(&file, metadata(0o444, 65_534, 65_534, 9, 10));
    assert_metadata(&target.join("own"), metadata(0o6751, 65_534, 65_534, 1, 2));
    assert_eq!(fs::read(&file).unwrap(), b"content");

    let strict = ExtractOptions { strict: true, ..ExtractOptions::default() };
    let target = keep.path().join("strict");
    let error = as_nobody(|pool| extract(&stack, &target, &strict, pool, &Silent).unwrap_err());
    assert!(matches!(error, ExtractError::Strict { .. }), "{error:?}");
}
