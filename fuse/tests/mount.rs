//! Real mounts: needs `/dev/fuse`, and root rights or fusermount3.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use microfs_fuse::{
    Capability, End, MountError, MountOptions, Request, Unmount, UnmountError, mount, unmount,
};
use rustix::fs::{Dir, Mode, OFlags, SeekFrom, XattrFlags, seek};
use rustix::io::Errno;

use self::support::{Fixture, LARGE, SPARSE, blob, make_tree, noise, open};

mod support;

fn tree_blob() -> Vec<u8> {
    let source = tempfile::tempdir().unwrap();
    make_tree(source.path());
    blob(source.path())
}

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

fn code(errno: Errno) -> Option<i32> {
    Some(errno.raw_os_error())
}

/// What [`make_tree`] made, seen through a mount.
fn assert_tree(fixture: &Fixture) {
    assert_eq!(fs::read(fixture.path("small")).unwrap(), b"content");
    assert_eq!(fs::read(fixture.path("empty")).unwrap(), b"");
    assert_eq!(fs::read(fixture.path("large")).unwrap(), noise(LARGE));
    assert_eq!(fs::read(fixture.path("link")).unwrap(), b"in a directory");
    assert_eq!(fs::read_link(fixture.path("link")).unwrap(), Path::new("directory/file"));
    let (one, two) = (fixture.path("small"), fixture.path("name two"));
    let (one, two) = (one.metadata().unwrap(), two.metadata().unwrap());
    assert_eq!((one.ino(), one.nlink(), two.nlink()), (two.ino(), 2, 2));
    let root = fixture.path("").metadata().unwrap();
    assert_eq!((root.ino(), root.nlink()), (1, 3));
    let mut names: Vec<_> = fs::read_dir(fixture.path("")).unwrap().map(Result::unwrap).collect();
    names.sort_by_key(fs::DirEntry::file_name);
    let names: Vec<_> = names.iter().map(|entry| entry.file_name()).collect();
    let expected = ["directory", "empty", "large", "link", "name two", "small", "sparse"];
    assert_eq!(names, expected);
    assert_eq!(errno(fixture.path("missing").metadata()), code(Errno::NOENT));
    assert_eq!(errno(fixture.path("small/below").metadata()), code(Errno::NOTDIR));
    assert_eq!(errno(fs::read_link(fixture.path("small"))), code(Errno::INVAL));
}

#[test]
fn a_tree_reads_back() {
    let fixture = Fixture::new(tree_blob(), &[]);
    assert_tree(&fixture);
    assert_tree(&fixture);
    // The kernel asked once and opens by itself ever after; it never asks for
    // the value of an extended attribute again either.
    let statistics = fixture.mounted().statistics();
    assert_eq!(statistics.requests(Request::Open), 1);
    assert_eq!(statistics.requests(Request::OpenDir), 1);
    assert_eq!(statistics.requests(Request::ReadDir), 0);
    assert!(statistics.requests(Request::GetXattr) <= 1);
    assert_eq!((statistics.errors(), statistics.panics()), (0, 0));
    assert_eq!(*fixture.log.lock().unwrap(), [""; 0]);
}

#[test]
fn a_tree_reads_back_without_the_kernels_newer_features() {
    let blob = tree_blob();
    for capability in Capability::ALL {
        assert_tree(&Fixture::new(blob.clone(), &[capability]));
    }
    let fixture = Fixture::new(blob, &Capability::ALL);
    assert_tree(&fixture);
    assert_tree(&fixture);
    let statistics = fixture.mounted().statistics();
    assert!(statistics.requests(Request::Open) > 4);
    assert!(statistics.requests(Request::OpenDir) > 1);
    assert_eq!(statistics.requests(Request::ReadDirPlus), 0);
}

#[test]
fn parts_of_a_file_and_direct_reads_are_exact() {
    let fixture = Fixture::new(tree_blob(), &[]);
    let expected = noise(LARGE);
    let file = File::open(fixture.path("large")).unwrap();
    for (offset, length) in
        [(0, 1), (4095, 2), (131_071, 131_075), (LARGE - 1, 10), (LARGE, 5), (LARGE + 5000, 5)]
    {
        let mut buffer = vec![0; length];
        let read = file.read_at(&mut buffer, offset as u64).unwrap();
        let end = LARGE.min(offset + length);
        assert_eq!(&buffer[..read], expected.get(offset..end).unwrap_or_default());
    }
    let direct = File::options()
        .read(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(fixture.path("large"))
        .unwrap();
    let mut buffer = vec![0; 8192];
    let read = direct.read_at(&mut buffer, 4096).unwrap();
    assert_eq!(buffer[..read], expected[4096..4096 + read]);
    assert!(read > 0);
}

#[test]
fn holes_are_found_where_they_are() {
    let fixture = Fixture::new(tree_blob(), &[]);
    let file = File::open(fixture.path("sparse")).unwrap();
    let find = |from| seek(&file, from);
    assert_eq!(find(SeekFrom::Data(0)), Ok(65_536));
    assert_eq!(find(SeekFrom::Data(70_000)), Ok(70_000));
    assert_eq!(find(SeekFrom::Hole(0)), Ok(0));
    assert_eq!(find(SeekFrom::Hole(65_536)), Ok(131_072));
    assert_eq!(find(SeekFrom::Data(131_072)), Err(Errno::NXIO));
    assert_eq!(find(SeekFrom::Data(SPARSE)), Err(Errno::NXIO));
    assert_eq!(find(SeekFrom::Hole(SPARSE)), Err(Errno::NXIO));
    let file = File::open(fixture.path("large")).unwrap();
    assert_eq!(seek(&file, SeekFrom::Hole(5)), Ok(LARGE as u64));
    assert_eq!(fixture.path("sparse").metadata().unwrap().blocks(), 128);
}

#[test]
fn nothing_can_be_changed() {
    let fixture = Fixture::new(tree_blob(), &[]);
    let (file, new) = (fixture.path("small"), fixture.path("new"));
    let everybody = fs::Permissions::from_mode(0o777);
    let results = [
        errno(fs::write(&file, b"other")),
        errno(fs::write(&new, b"other")),
        errno(fs::create_dir(&new)),
        errno(fs::remove_file(&file)),
        errno(fs::rename(&file, &new)),
        errno(fs::hard_link(&file, &new)),
        errno(fs::set_permissions(&file, everybody)),
    ];
    assert_eq!(results, [code(Errno::ROFS); 7]);
}

#[test]
fn positions_in_a_large_directory_stay_valid() {
    let source = tempfile::tempdir().unwrap();
    for number in 0..3000 {
        File::create(source.path().join(format!("entry-{number:04}"))).unwrap();
    }
    for masked in [&[][..], &[Capability::ReadDirPlus, Capability::NoOpenDir]] {
        let fixture = Fixture::new(blob(source.path()), masked);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let opened = rustix::fs::open(fixture.path(""), flags, Mode::empty()).unwrap();
        let mut directory = Dir::new(opened).unwrap();
        let mut entries = Vec::new();
        while let Some(entry) = directory.read() {
            let entry = entry.unwrap();
            entries.push((entry.file_name().to_owned(), entry.ino(), entry.offset()));
        }
        assert_eq!(entries.len(), 3002);
        assert_eq!((entries[0].0.to_bytes(), entries[1].0.to_bytes()), (&b"."[..], &b".."[..]));
        for index in [2999, 0, 1, 2, 1500, 700, 3000] {
            directory.seek(entries[index].2).unwrap();
            let next = directory.read().unwrap().unwrap();
            let (name, inode, _) = &entries[index + 1];
            assert_eq!((next.file_name(), next.ino()), (name.as_c_str(), *inode));
            if index > 0 {
                let name = name.to_str().unwrap();
                assert_eq!(fixture.path(name).symlink_metadata().unwrap().ino(), *inode);
            }
        }
    }
}

#[test]
fn without_attributes_lists_are_empty_and_values_are_asked_for_once() {
    let fixture = Fixture::new(tree_blob(), &[]);
    for name in ["small", "large", "directory", ""] {
        // What the kernel makes of ENOSYS, and remembers.
        let value = rustix::fs::getxattr_query(fixture.path(name), "user.one");
        assert_eq!(value, Err(Errno::OPNOTSUPP));
        // As on a filesystem that knows attributes, of an object without any.
        assert_eq!(rustix::fs::listxattr_query(fixture.path(name)), Ok(0));
        assert_eq!(rustix::fs::listxattr(fixture.path(name), &mut [0u8; 64][..]), Ok(0));
        assert_eq!(rustix::fs::listxattr(fixture.path(name), &mut [0u8; 1][..]), Ok(0));
    }
    let statistics = fixture.mounted().statistics();
    assert_eq!(statistics.requests(Request::GetXattr), 1);
    assert_eq!(statistics.requests(Request::ListXattr), 12);
}

#[test]
fn attributes_are_served_by_size() {
    let source = tempfile::tempdir().unwrap();
    make_tree(source.path());
    let none = XattrFlags::empty();
    rustix::fs::setxattr(source.path().join("small"), "user.one", b"value", none).unwrap();
    rustix::fs::setxattr(source.path().join("small"), "user.two", b"", none).unwrap();
    let fixture = Fixture::new(blob(source.path()), &[]);
    let get = |name: &str, attribute: &str, room: usize| {
        let mut buffer = vec![0; room];
        rustix::fs::getxattr(fixture.path(name), attribute, &mut buffer[..]).map(|length| {
            buffer.truncate(length);
            buffer
        })
    };
    assert_eq!(rustix::fs::getxattr_query(fixture.path("small"), "user.one"), Ok(5));
    assert_eq!(get("small", "user.one", 5).unwrap(), b"value");
    assert_eq!(get("small", "user.one", 4), Err(Errno::RANGE));
    assert_eq!(get("small", "user.two", 9).unwrap(), b"");
    assert_eq!(get("small", "user.three", 9), Err(Errno::NODATA));
    assert_eq!(get("large", "user.one", 9), Err(Errno::NODATA));
    let mut names = [0; 18];
    assert_eq!(rustix::fs::listxattr(fixture.path("small"), &mut names[..]), Ok(18));
    assert_eq!(&names, b"user.one\0user.two\0");
    assert_eq!(rustix::fs::listxattr(fixture.path("small"), &mut names[..17]), Err(Errno::RANGE));
    assert_eq!(rustix::fs::listxattr_query(fixture.path("large")), Ok(0));
}

#[test]
fn damage_is_an_error_that_names_the_file_and_nothing_else() {
    let source = tempfile::tempdir().unwrap();
    make_tree(source.path());
    let mut damaged = blob(source.path());
    let noise = noise(LARGE);
    let place = damaged.windows(64).position(|bytes| *bytes == noise[1000..1064]).unwrap();
    damaged[place] ^= 1;
    let fixture = Fixture::new(damaged, &[]);
    for _ in 0..10 {
        let mut buffer = [0; 4096];
        let file = File::open(fixture.path("large")).unwrap();
        assert_eq!(errno(file.read_exact_at(&mut buffer, 0)), code(Errno::IO));
    }
    assert_eq!(fs::read(fixture.path("link")).unwrap(), b"in a directory");
    assert!(fixture.mounted().statistics().errors() >= 10);
    assert!(fixture.log.lock().unwrap()[0].starts_with("read of /large: "));
}

#[test]
fn a_mount_ends_when_it_is_unmounted_from_outside() {
    let mut fixture = Fixture::new(tree_blob(), &[]);
    let path = fixture.path("").canonicalize().unwrap();
    let open = File::open(fixture.path("small")).unwrap();
    assert!(matches!(unmount(&path, Unmount::WhenIdle), Err(UnmountError::Busy { .. })));
    drop(open);
    unmount(&path, Unmount::WhenIdle).unwrap();
    assert!(!fixture.is_mounted());
    assert_eq!(fixture.mounted.take().unwrap().wait().unwrap(), End::Unmounted);
    assert!(matches!(unmount(&path, Unmount::Lazily), Err(UnmountError::NotMounted { .. })));
}

#[test]
fn dropping_a_mount_takes_it_down_even_in_use() {
    let mut fixture = Fixture::new(tree_blob(), &[]);
    let file = File::open(fixture.path("large")).unwrap();
    assert!(fixture.is_mounted());
    drop(fixture.mounted.take());
    assert!(!fixture.is_mounted());
    let mut buffer = [0; 100];
    file.read_exact_at(&mut buffer, 200_000).unwrap();
    assert_eq!(buffer[..], noise(LARGE)[200_000..200_100]);
}

#[test]
fn a_mount_point_takes_a_second_image_only_on_request() {
    let blob = tree_blob();
    let fixture = Fixture::new(blob.clone(), &[]);
    let path = fixture.path("");
    let options = MountOptions { signals: false, ..MountOptions::default() };
    let refused = mount(open(blob.clone()), &path, &options).unwrap_err();
    assert!(matches!(refused, MountError::AlreadyMounted { .. }));
    match mount(open(blob), &path, &MountOptions { over: true, ..options }) {
        Ok(second) => second.unmount().unwrap(),
        // fusermount3 may not look into a mount that belongs to an ordinary user.
        Err(MountError::Refused { .. }) if !rustix::process::geteuid().is_root() => {}
        Err(error) => panic!("{error}"),
    }
    assert_tree(&fixture);
}
