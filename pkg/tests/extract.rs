//! Extracting, compared with lstat and the bytes on disk.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use microfs::extract::{
    Action, ExtractError, ExtractOptions, ExtractReport, Silent, What, extract,
};
use microfs::stack::Stack;
use microfs::tree::{Metadata, NodeId, Timestamp};
use tempfile::TempDir;

use support::{Builder, metadata, noise, plain_options, pool, stack};

mod support;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn run(stack: &Stack, target: &Path, options: ExtractOptions) -> ExtractReport {
    extract(stack, target, &options, &pool(3), &Silent).unwrap()
}

fn fail(stack: &Stack, target: &Path, options: ExtractOptions) -> ExtractError {
    extract(stack, target, &options, &pool(1), &Silent).unwrap_err()
}

/// Metadata that anybody may give to a file.
fn mine(permissions: u16, seconds: i64, nanoseconds: u32) -> Metadata {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    metadata(permissions, uid.as_raw(), gid.as_raw(), seconds, nanoseconds)
}

fn root() -> Builder {
    Builder::new(mine(0o755, 1, 2))
}

fn built(builder: Builder) -> Stack {
    stack(vec![builder.build(&plain_options())])
}

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    (directory, target)
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 65_536];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 65_536];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(length);
        value
    };
    names.map(|name| (name.to_vec(), value(name))).collect()
}

#[track_caller]
fn assert_metadata(path: &Path, wanted: Metadata) {
    let found = fs::symlink_metadata(path).unwrap();
    if !found.is_symlink() {
        let mode = found.mode() & 0o7777;
        assert_eq!(mode, u32::from(wanted.permissions), "mode {mode:o} of {path:?}");
    }
    assert_eq!((found.uid(), found.gid()), (wanted.uid, wanted.gid), "owner of {path:?}");
    let Timestamp { seconds, nanoseconds } = wanted.mtime;
    let time = (found.mtime(), found.mtime_nsec());
    assert_eq!(time, (seconds, i64::from(nanoseconds)), "time of {path:?}");
}

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
fn keeps_holes() {
    let mut builder = root();
    let block = 1 << 20;
    let data = vec![(0, noise(1, 4096)), (block, noise(2, 9000)), (30 * block + 5, noise(3, 7))];
    let size = 64 * block;
    builder.sparse(NodeId::ROOT, b"sparse", mine(0o644, 1, 1), size, data.clone());
    builder.sparse(NodeId::ROOT, b"hole", mine(0o644, 1, 1), 5 * block, Vec::new());
    let stack = built(builder);
    let (_keep, target) = place();
    let report = run(&stack, &target, ExtractOptions::default());
    assert_eq!(report.bytes, 4096 + 9000 + 7);
    let file = fs::File::open(target.join("sparse")).unwrap();
    assert_eq!(file.metadata().unwrap().len(), size);
    assert!(file.metadata().unwrap().blocks() * 512 < 64 << 10, "holes were filled");
    let mut at = 0;
    for (offset, bytes) in data {
        let mut found = vec![0; bytes.len()];
        file.read_exact_at(&mut found, offset).unwrap();
        assert_eq!(found, bytes);
        let mut gap = vec![1; usize::try_from(offset - at).unwrap()];
        file.read_exact_at(&mut gap, at).unwrap();
        assert!(gap.iter().all(|byte| *byte == 0));
        at = offset + u64::try_from(bytes.len()).unwrap();
    }
    let hole = fs::metadata(target.join("hole")).unwrap();
    assert_eq!((hole.len(), hole.blocks()), (5 * block, 0));
}

#[test]
fn writes_a_large_file_in_parts() {
    let mut builder = root();
    let bytes = noise(5, (20 << 20) + 12_345);
    builder.file(NodeId::ROOT, b"large", mine(0o444, 1, 1), &bytes);
    let stack = built(builder);
    for threads in [1, 4] {
        let (_keep, target) = place();
        let options = ExtractOptions::default();
        extract(&stack, &target, &options, &pool(threads), &Silent).unwrap();
        assert!(fs::read(target.join("large")).unwrap() == bytes);
        assert_metadata(&target.join("large"), mine(0o444, 1, 1));
    }
}

#[test]
fn the_largest_file_fits_where_the_filesystem_lets_it() {
    let mut builder = root();
    let size = u64::MAX >> 1;
    builder.sparse(NodeId::ROOT, b"vast", mine(0o644, 1, 1), size, vec![(1 << 40, vec![5])]);
    let stack = built(builder);
    let shm = Path::new("/dev/shm");
    if let Ok(directory) = tempfile::tempdir_in(shm) {
        let target = directory.path().join("target");
        run(&stack, &target, ExtractOptions::default());
        let file = fs::File::open(target.join("vast")).unwrap();
        assert_eq!(file.metadata().unwrap().len(), size);
        let mut byte = [0];
        file.read_exact_at(&mut byte, 1 << 40).unwrap();
        assert_eq!(byte, [5]);
    }
    let (_keep, target) = place();
    match extract(&stack, &target, &ExtractOptions::default(), &pool(1), &Silent) {
        Ok(_) => assert_eq!(fs::metadata(target.join("vast")).unwrap().len(), size),
        Err(error) => {
            let ExtractError::System { action, path, .. } = error else { panic!("{error:?}") };
            assert_eq!(action, Action::SetLength(size));
            assert_eq!(path, target.join("vast"));
            assert!(!path.exists(), "a file that could not be written was left");
        }
    }
}

#[test]
fn goes_deeper_than_any_path() {
    let mut builder = root();
    let name = [b'd'; 200];
    let mut at = NodeId::ROOT;
    let depth = 150;
    for level in 0..depth {
        at = builder.directory(at, &name, mine(0o700, level, 0));
        builder.file(at, b"file", mine(0o600, level, 1), level.to_string().as_bytes());
        // A sibling that is visited when the walk comes back up.
        builder.directory(at, b"a", mine(0o711, level, 2));
    }
    let stack = built(builder);
    let (_keep, target) = place();
    run(&stack, &target, ExtractOptions::default());
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
    let mut directory = rustix::fs::open(&target, flags, rustix::fs::Mode::empty()).unwrap();
    for level in 0..depth {
        let next =
            rustix::fs::openat(&directory, &name[..], flags, rustix::fs::Mode::empty()).unwrap();
        directory = next;
        assert_eq!(rustix::fs::fstat(&directory).unwrap().st_mtime, level);
        let none = rustix::fs::AtFlags::empty();
        let file = rustix::fs::statat(&directory, "file", none).unwrap();
        let length = i64::try_from(level.to_string().len()).unwrap();
        assert_eq!((file.st_mtime, file.st_size), (level, length));
        let beside = rustix::fs::statat(&directory, "a", none).unwrap();
        assert_eq!((beside.st_mtime, beside.st_mode & 0o7777), (level, 0o711));
    }
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
fn a_damaged_file_is_named_and_not_left() {
    let mut builder = root();
    let directory = builder.directory(NodeId::ROOT, b"dir", mine(0o755, 1, 1));
    builder.file(directory, b"bad", mine(0o644, 1, 1), &noise(1, 20 << 12));
    let mut blob = builder.build(&plain_options());
    blob[64 + 10 * 4096] ^= 1;
    let (_keep, target) = place();
    let error = fail(&stack(vec![blob]), &target, ExtractOptions::default());
    let ExtractError::Read { path, .. } = error else { panic!("{error:?}") };
    assert_eq!(path, target.join("dir/bad"));
    assert!(!path.exists());
}

#[test]
fn a_missing_parent_is_an_error() {
    let (keep, _) = place();
    let target = keep.path().join("no/such");
    let error = fail(&built(root()), &target, ExtractOptions::default());
    let ExtractError::System { action, path, .. } = error else { panic!("{error:?}") };
    assert_eq!((action, path), (Action::Create, target));
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

#[test]
fn unpacks_the_merged_tree() {
    let owned = mine(0o644, 1, 1);
    let mut lower = root();
    let directory = lower.directory(NodeId::ROOT, b"dir", mine(0o700, 1, 1));
    lower.file(directory, b"gone", owned, b"1");
    lower.file(directory, b"kept", owned, b"2");
    let mut upper = root();
    let directory = upper.directory(NodeId::ROOT, b"dir", mine(0o750, 2, 2));
    upper.whiteout(directory, b"gone");
    upper.file(directory, b"new", owned, b"3");
    upper.link_below(NodeId::ROOT, b"linked", b"dir/kept");
    let stack = stack(vec![lower.build(&plain_options()), upper.build(&plain_options())]);
    let (_keep, target) = place();
    let report = run(&stack, &target, ExtractOptions::default());
    assert!(!target.join("dir/gone").exists());
    assert_eq!(fs::read(target.join("dir/new")).unwrap(), b"3");
    assert_metadata(&target.join("dir"), mine(0o750, 2, 2));
    let inode = |name: &str| fs::metadata(target.join(name)).unwrap().ino();
    assert_eq!(inode("linked"), inode("dir/kept"));
    assert_eq!((report.files, report.hard_links, report.directories), (2, 1, 2));
}

#[test]
fn many_files_in_many_directories() {
    let mut builder = root();
    let mut expected = Vec::new();
    for number in 0..150u32 {
        let name = format!("d{number}");
        let directory = builder.directory(NodeId::ROOT, name.as_bytes(), mine(0o755, 1, 1));
        for file in 0..20u32 {
            let bytes = noise(u64::from(number * 100 + file), 50 + 300 * usize::from(file == 7));
            let name = format!("f{file}");
            builder.file(directory, name.as_bytes(), mine(0o644, 3, 4), &bytes);
            expected.push((format!("d{number}/{name}"), bytes));
        }
    }
    let stack = built(builder);
    let (_keep, target) = place();
    let report = run(&stack, &target, ExtractOptions::default());
    assert_eq!((report.files, report.directories), (3000, 151));
    for (path, bytes) in expected {
        assert_eq!(fs::read(target.join(&path)).unwrap(), bytes, "{path}");
    }
    assert_metadata(&target.join("d149"), mine(0o755, 1, 1));
}
