//! What a mount answers: every system call that reads, as on other filesystems.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Dir, OFlags, SeekFrom, StatVfsMountFlags, seek};
use rustix::io::Errno;
use support::content::{Content, Fill, Run};
use support::image::{Image, LARGE};
use support::kinds::Kind;
use support::plan::{Meta, Plan, ROOT, What};
use support::program::{PROGRAM, ok, output, succeed, texts, tool, unmount};
use support::random::Random;
use support::same::assert_same;
use support::scratch::Scratch;

/// Makes a tree, builds and mounts it; gives source and mount.
fn mounted(scratch: &Scratch, plan: &Plan) -> (PathBuf, PathBuf) {
    let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
    plan.make(&source, None);
    (source.clone(), mount(scratch, &source, &layout))
}

fn mount(scratch: &Scratch, source: &Path, layout: &Path) -> PathBuf {
    let at = scratch.dir("mount");
    ok(words!["build", "-q", source, layout, "t"]);
    ok(words!["mount", layout, "t", at]);
    at
}

/// A plan of one file.
fn one_file(content: &Content) -> Plan {
    let mut plan = Plan::new(Meta::plain(0o755));
    plan.add(ROOT, b"file", What::File(content.clone()), Meta::plain(0o644));
    plan
}

#[test]
fn a_directory_of_100_000_names_can_be_sought_in() {
    const COUNT: usize = 100_000;
    let scratch = Scratch::new();
    let mut plan = Plan::new(Meta::plain(0o755));
    // One object of many names, and as many directories as the limit of a
    // 16-bit link count would not allow.
    let file = plan.add(ROOT, b"first", What::Fifo, Meta::plain(0o600));
    let directory = plan.add(ROOT, b"many", What::Directory, Meta::plain(0o755));
    plan.link_unchecked(directory, b"link", file);
    for number in 1..COUNT {
        let what = if number % 2 == 0 { What::Directory } else { What::Fifo };
        let name = format!("name-{number:06}-{}", "x".repeat(number % 50));
        plan.add_unchecked(directory, name.as_bytes(), what, Meta::plain(0o700));
    }
    let (source, at) = mounted(&scratch, &plan);
    let list = |path: &Path| {
        let directory =
            Dir::new(rustix::fs::open(path, OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap());
        let mut directory = directory.unwrap();
        let mut all = Vec::new();
        while let Some(entry) = directory.read() {
            let entry = entry.unwrap();
            all.push((entry.file_name().to_bytes().to_vec(), entry.offset(), entry.ino()));
        }
        (directory, all)
    };
    let (mut directory, all) = list(&at.join("many"));
    assert_eq!(all.len(), COUNT + 2);
    let names = |all: &[(Vec<u8>, i64, u64)]| {
        all.iter().map(|(name, ..)| name.clone()).collect::<HashSet<_>>()
    };
    let found = names(&all);
    assert_eq!(found.len(), COUNT + 2, "no name comes twice");
    assert_eq!(found, names(&list(&source.join("many")).1));
    let links = std::fs::metadata(at.join("many")).unwrap().nlink();
    assert_eq!(links, 2 + (COUNT as u64 - 1) / 2);

    // What telldir gave leads seekdir to the next name, in any order, also in
    // a directory that was opened anew.
    let mut random = Random::new(1);
    let (mut other, _) = list(&at.join("many"));
    for _ in 0..500 {
        let index = random.index(all.len() - 1);
        let (next, _, inode) = &all[index + 1];
        for directory in [&mut directory, &mut other] {
            directory.seek(all[index].1).unwrap();
            let entry = directory.read().unwrap().unwrap();
            assert_eq!((entry.file_name().to_bytes(), entry.ino()), (&next[..], *inode));
        }
    }
    directory.rewind();
    assert_eq!(directory.read().unwrap().unwrap().file_name().to_bytes(), all[0].0);
    directory.seek(all.last().unwrap().1).unwrap();
    assert!(directory.read().is_none());
    // Inode numbers are those of stat.
    for (name, _, inode) in all.iter().step_by(997).filter(|(name, ..)| !name.starts_with(b".")) {
        let name = std::str::from_utf8(name).unwrap();
        let stat = std::fs::symlink_metadata(at.join("many").join(name)).unwrap();
        assert_eq!(stat.ino(), *inode, "{name}");
    }
    drop((directory, other));
    unmount(&at);
}

#[test]
fn data_and_holes_can_be_sought() {
    let scratch = Scratch::new();
    let data = |offset, length| Run { offset, length, fill: Fill::Random(offset) };
    let runs = vec![data(8192, 4096), data(20_480, 4096)];
    let (_, at) = mounted(&scratch, &one_file(&Content { size: 40_000, runs }));
    let file = File::open(at.join("file")).unwrap();
    let go = |to: SeekFrom| seek(&file, to);
    let cases = [
        (SeekFrom::Data(0), Ok(8192)),
        (SeekFrom::Data(8191), Ok(8192)),
        (SeekFrom::Data(8192), Ok(8192)),
        (SeekFrom::Data(9000), Ok(9000)),
        (SeekFrom::Data(12_288), Ok(20_480)),
        (SeekFrom::Data(24_576), Err(Errno::NXIO)),
        (SeekFrom::Data(40_000), Err(Errno::NXIO)),
        (SeekFrom::Data(1 << 62), Err(Errno::NXIO)),
        (SeekFrom::Hole(0), Ok(0)),
        (SeekFrom::Hole(8192), Ok(12_288)),
        (SeekFrom::Hole(9000), Ok(12_288)),
        (SeekFrom::Hole(12_288), Ok(12_288)),
        (SeekFrom::Hole(20_481), Ok(24_576)),
        (SeekFrom::Hole(39_999), Ok(39_999)),
        (SeekFrom::Hole(40_000), Err(Errno::NXIO)),
        (SeekFrom::End(-1), Ok(39_999)),
        (SeekFrom::Start(1 << 50), Ok(1 << 50)),
        (SeekFrom::Start(1 << 63), Err(Errno::INVAL)),
    ];
    for (to, expected) in cases {
        assert_eq!(go(to), expected, "{to:?}");
    }
    assert_eq!(file.metadata().unwrap().blocks(), 16, "two runs of 4096 bytes");
    drop(file);
    unmount(&at);
}

#[test]
fn blocks_count_what_is_no_hole() {
    let scratch = Scratch::new();
    let mut plan = Plan::new(Meta::plain(0o755));
    let whole = |size| Content::whole(size, Fill::Words(1));
    let island = Run { offset: 1 << 30, length: 100, fill: Fill::Zeros };
    // Blocks are 512 bytes, the last one counted whole.
    let cases = [
        (whole(0), 0),
        (whole(1), 1),
        (whole(512), 1),
        (whole(513), 2),
        (whole(300_000), 586),
        (Content::hole(i64::MAX as u64), 0),
        (Content { size: (1 << 30) + 100, runs: vec![island] }, 1),
    ];
    for (number, (content, _)) in cases.iter().enumerate() {
        let name = number.to_string();
        plan.add(ROOT, name.as_bytes(), What::File(content.clone()), Meta::plain(0o644));
    }
    let (_, at) = mounted(&scratch, &plan);
    for (number, (content, blocks)) in cases.iter().enumerate() {
        let stat = std::fs::metadata(at.join(number.to_string())).unwrap();
        assert_eq!((stat.len(), stat.blocks()), (content.size, *blocks), "{content:?}");
    }
    unmount(&at);
}

#[test]
fn attributes_can_be_probed_for_their_size() {
    let scratch = Scratch::new();
    let mut plan = one_file(&Content::whole(10, Fill::Zeros));
    let pair = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
    let xattrs = vec![pair("user.a", b"12345"), pair("user.empty", b"")];
    let meta = Meta { xattrs, ..Meta::plain(0o644) };
    plan.add(ROOT, b"with", What::File(Content::default()), meta);
    let (_, at) = mounted(&scratch, &plan);
    let (with, without) = (at.join("with"), at.join("file"));
    let get = |path: &Path, name: &str, size: usize| {
        let mut value = vec![0u8; size];
        rustix::fs::getxattr(path, name, &mut value[..]).map(|length| value[..length].to_vec())
    };
    assert_eq!(rustix::fs::getxattr_query(&with, "user.a"), Ok(5));
    assert_eq!(get(&with, "user.a", 5), Ok(b"12345".to_vec()));
    assert_eq!(get(&with, "user.a", 100), Ok(b"12345".to_vec()));
    assert_eq!(get(&with, "user.a", 4), Err(Errno::RANGE));
    assert_eq!(rustix::fs::getxattr_query(&with, "user.empty"), Ok(0));
    for (path, name) in [(&with, "user.b"), (&with, "user.a2"), (&without, "user.a")] {
        assert_eq!(rustix::fs::getxattr_query(path, name), Err(Errno::NODATA));
        assert_eq!(get(path, name, 10), Err(Errno::NODATA));
    }
    assert_eq!(rustix::fs::getxattr_query(&with, "security.capability"), Err(Errno::NODATA));
    let list = |path: &Path, size: usize| {
        let mut names = vec![0u8; size];
        rustix::fs::listxattr(path, &mut names[..]).map(|length| names[..length].to_vec())
    };
    assert_eq!(rustix::fs::listxattr_query(&with), Ok(18));
    assert_eq!(list(&with, 18), Ok(b"user.a\0user.empty\0".to_vec()));
    assert_eq!(list(&with, 17), Err(Errno::RANGE));
    assert_eq!(rustix::fs::listxattr_query(&without), Ok(0));
    assert_eq!(list(&without, 10), Ok(Vec::new()));
    unmount(&at);
}

/// One file of the image has an attribute, none a label or an ACL: tools that
/// look for these are told once that there is no such thing.
#[test]
fn labels_and_acls_that_no_file_has_are_not_asked_for_again() {
    let scratch = Scratch::new();
    let mut plan = one_file(&Content::whole(10, Fill::Zeros));
    let meta = Meta { xattrs: vec![(b"user.a".to_vec(), b"1".to_vec())], ..Meta::plain(0o644) };
    plan.add(ROOT, b"with", What::File(Content::default()), meta);
    for number in 0..100 {
        let name = format!("other {number}");
        plan.add(ROOT, name.as_bytes(), What::File(Content::default()), Meta::plain(0o644));
    }
    let (_, at) = mounted(&scratch, &plan);
    for name in ["security.selinux", "system.posix_acl_access", "system.posix_acl_default"] {
        assert_eq!(rustix::fs::getxattr_query(&at, name), Err(Errno::NOTSUP), "{name}");
    }
    assert_eq!(rustix::fs::getxattr_query(&at, "security.ima"), Err(Errno::NODATA));
    let asked = || {
        let text = ok(words!["status", "--json", at]);
        let status: serde_json::Value = serde_json::from_str(&text).unwrap();
        status["requests"]["getxattr"].as_u64().unwrap()
    };
    let before = asked();
    let listed = tool("ls").args(["-lR"]).arg(&at).output().unwrap();
    assert!(listed.status.success() && listed.stderr.is_empty(), "{listed:?}");
    assert_eq!(String::from_utf8(listed.stdout).unwrap().matches("other").count(), 100);
    assert!(asked() - before < 10, "{} requests", asked() - before);
    unmount(&at);
}

#[test]
fn tools_that_keep_attributes_have_nothing_to_say_where_there_are_none() {
    let scratch = Scratch::new();
    let (_, at) = mounted(&scratch, &one_file(&Content::whole(10, Fill::Zeros)));
    let copy = scratch.join("copy");
    let mut tar = tool("tar");
    tar.args(["--xattrs", "--xattrs-include=*", "--acls", "-cf", "/dev/null", "-C"]);
    let mut cp = tool("cp");
    cp.args(["-r", "--preserve=all,xattr"]).arg(&at).arg(&copy);
    for command in [tar.arg(&at).arg("."), &mut cp] {
        let output = output(command);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(texts(&output), (String::new(), String::new()), "{command:?}");
    }
    assert_same(&at, &copy);
    unmount(&at);
}

#[test]
fn direct_reads_give_the_same_bytes() {
    let scratch = Scratch::new();
    let content = Content::whole(1_000_001, Fill::Words(3));
    let (_, at) = mounted(&scratch, &one_file(&content));
    let expected = content.bytes();
    let mut options = File::options();
    let flags = OFlags::DIRECT.bits().cast_signed();
    let direct = options.read(true).custom_flags(flags).open(at.join("file")).unwrap();
    // Memory for direct reads begins at pages.
    let mut memory = vec![0u8; (1 << 20) + 4096];
    let start = memory.as_ptr().align_offset(4096);
    for (offset, length) in
        [(0, 4096), (0, 1 << 20), (4096, 65_536), (131_072, 512), (999_424, 8192)]
    {
        let buffer = &mut memory[start..start + length];
        let read = direct.read_at(buffer, offset as u64).unwrap();
        let end = expected.len().min(offset + length);
        assert_eq!(read, end - offset);
        assert!(buffer[..read] == expected[offset..end], "{length} bytes at {offset}");
    }
    assert_eq!(direct.read_at(&mut memory[start..start + 4096], 1 << 40).unwrap(), 0);
    drop(direct);
    unmount(&at);
}

#[test]
fn reads_in_any_order_and_from_many_threads_give_the_same_bytes() {
    let scratch = Scratch::new();
    let content = Content::whole(3_000_000, Fill::Words(7));
    let (_, at) = mounted(&scratch, &one_file(&content));
    let expected = content.bytes();
    std::thread::scope(|scope| {
        for seed in 0..8 {
            let (at, expected) = (&at, &expected);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                let file = File::open(at.join("file")).unwrap();
                for _ in 0..200 {
                    let offset = random.index(expected.len() + 5000);
                    let mut buffer = vec![0; 1 + random.index(200_000)];
                    let read = file.read_at(&mut buffer, offset as u64).unwrap();
                    let end = expected.len().min(offset + buffer.len());
                    assert!(buffer[..read] == expected[offset.min(end)..end], "at {offset}");
                }
            });
        }
    });
    unmount(&at);
}

/// Files that the running test has mapped and that hold code.
fn mapped_libraries() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let paths =
        maps.lines().filter_map(|line| line.split_once('/')).map(|(_, path)| format!("/{path}"));
    let libraries: HashSet<PathBuf> =
        paths.filter(|path| path.contains(".so")).map(PathBuf::from).collect();
    libraries.into_iter().collect()
}

#[test]
fn programs_and_libraries_run_from_a_mount() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    std::fs::copy("/bin/sh", source.join("sh")).unwrap();
    std::fs::copy(PROGRAM, source.join("microfs")).unwrap();
    let mut loader = None;
    for library in mapped_libraries() {
        let name = library.file_name().unwrap();
        std::fs::copy(&library, source.join(name)).unwrap();
        if name.as_encoded_bytes().starts_with(b"ld-") {
            loader = Some(name.to_owned());
        }
    }
    let at = mount(&scratch, &source, &scratch.join("layout"));
    let version = succeed(Command::new(at.join("microfs")).arg("--version"));
    assert_eq!(version, succeed(Command::new(PROGRAM).arg("--version")));
    // The loader maps the shell and the C library from the mount and runs them.
    let mut shell = Command::new(at.join(loader.expect("the test itself is linked to libc")));
    shell.arg("--library-path").arg(&at).arg(at.join("sh"));
    shell.args(["-c", "while read -r line; do echo \"$line\"; done </proc/self/maps"]);
    let maps = succeed(&mut shell);
    for name in ["/sh", "/libc.so.6", "/ld-"] {
        let path = format!("{}{name}", at.display());
        let mapped = maps.lines().filter(|line| line.contains(&path));
        assert!(mapped.clone().any(|line| line.contains(" r-xp ")), "{path} in {maps}");
    }
    assert_same(&source, &at);
    unmount(&at);
}

#[test]
fn statfs_shows_what_there_is() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let at = scratch.dir("mount");
    ok(words!["mount", layout, "t", at]);
    let shown = rustix::fs::statvfs(&at).unwrap();
    // Root, directory, file of two names, file, link.
    assert_eq!((shown.f_files, shown.f_ffree, shown.f_favail), (5, 0, 0));
    assert_eq!((shown.f_bfree, shown.f_bavail, shown.f_namemax), (0, 0, 255));
    let bytes = shown.f_blocks * shown.f_frsize;
    assert!((LARGE..LARGE + 100_000).contains(&bytes), "the image takes {bytes} bytes");
    assert!(shown.f_flag.contains(StatVfsMountFlags::RDONLY));
    unmount(&at);
}

#[test]
fn each_kernel_feature_may_be_missing() {
    let features = [
        "no-open",
        "no-opendir",
        "readdirplus",
        "cache-symlinks",
        "parallel-dirops",
        "allow-idmap",
        "posix-acl",
        "export",
    ];
    let scratch = Scratch::new();
    let (source, layout, at) =
        (scratch.dir("source"), scratch.join("layout"), scratch.dir("mount"));
    Kind::Links.plan(3).make(&source, None);
    ok(words!["build", "-q", source, layout, "t"]);
    let mut all = words!["mount"];
    for feature in features {
        all.extend(words!["--mask", feature]);
        ok(words!["mount", "--mask", feature, layout, "t", at]);
        assert_same(&source, &at);
        unmount(&at);
    }
    all.extend(words![layout, "t", at]);
    ok(all);
    assert_same(&source, &at);
    unmount(&at);
}
