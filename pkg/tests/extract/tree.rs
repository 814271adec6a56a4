//! Trees: deep, wide, and merged of layers.

use std::fs;
use std::os::unix::fs::MetadataExt;

use microfs::extract::ExtractOptions;
use microfs::tree::NodeId;

use crate::support::{noise, plain_options, stack};
use crate::{assert_metadata, built, mine, place, root, run};

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
