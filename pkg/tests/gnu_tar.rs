//! Archives that GNU tar makes, converted here, against their extraction by
//! GNU tar. Needs root, since it makes devices and sets owners.
//!
//! `MICROFS_LONG=1` makes many more trees, `MICROFS_SEED=N` others; a failure
//! says with which seed it comes again.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use microfs::archive::{LayerOptions, write_layer};
use microfs::compare::{CompareOptions, DirectoryView, StackView, compare};
use microfs::writer::Silent;
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use support::replay::{Replay, is_long, wanted_seed};

/// Numbers that a seed decides.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }

    fn one_in(&mut self, limit: u64) -> bool {
        self.below(limit) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }
}

/// What an archive of a format can hold.
#[derive(Debug, Clone, Copy)]
struct Format {
    options: &'static [&'static str],
    /// Most bytes of a path, and of the target of any link.
    longest: usize,
    /// Numbers that need more than a header's octal digits, times before 1970.
    wide: bool,
    xattrs: bool,
    devices: bool,
}

const PLAIN: Format =
    Format { options: &["--format=v7"], longest: 99, wide: false, xattrs: false, devices: false };
const GNU: Format =
    Format { options: &["--format=gnu"], longest: 3000, wide: true, devices: true, ..PLAIN };
const PAX: Format = Format { options: &["--format=posix"], xattrs: true, ..GNU };

const FORMATS: [Format; 11] = [
    PLAIN,
    Format { options: &["--format=ustar"], devices: true, ..PLAIN },
    Format { options: &["--format=oldgnu"], ..GNU },
    GNU,
    Format { options: &["--format=gnu", "--sparse"], ..GNU },
    Format { options: &["--format=oldgnu", "--sparse"], ..GNU },
    PAX,
    Format { options: &["--format=posix", "--sparse", "--sparse-version=0.0"], ..PAX },
    Format { options: &["--format=posix", "--sparse", "--sparse-version=0.1"], ..PAX },
    Format { options: &["--format=posix", "--sparse", "--sparse-version=1.0"], ..PAX },
    Format {
        options: &[
            "--format=pax",
            "--sparse",
            "--hole-detection=raw",
            "--pax-option=exthdr.name=%d/h,globexthdr.name=g,comment=x",
        ],
        ..PAX
    },
];

/// A tree under construction.
struct Maker<'a> {
    random: &'a mut Random,
    format: &'a Format,
    root: PathBuf,
    files: Vec<PathBuf>,
}

impl Maker<'_> {
    fn name(&mut self, number: u64) -> Vec<u8> {
        let long = usize::try_from(self.random.below(self.format.longest.min(250) as u64)).unwrap();
        let mut name = match self.random.below(6) {
            0 => vec![b'n'; long / 2],
            1 => b"blank \n\t".to_vec(),
            2 => vec![0xff, 0xe9, b'='],
            3 => "Ünï".as_bytes().to_vec(),
            4 => b"-dash\\".to_vec(),
            _ => b"f".to_vec(),
        };
        name.extend_from_slice(number.to_string().as_bytes());
        name
    }

    fn directory(&mut self, path: &Path, depth: u64) {
        for number in 0..self.random.below(8) + 2 {
            let name = self.name(number);
            let path = path.join(OsStr::from_bytes(&name));
            let inside = path.strip_prefix(&self.root).unwrap();
            if inside.as_os_str().len() + 4 < self.format.longest {
                self.object(&path, depth);
            }
        }
    }

    fn object(&mut self, path: &Path, depth: u64) {
        let kinds = if self.format.devices { 10 } else { 8 };
        match self.random.below(kinds) {
            0 | 1 if depth > 0 => {
                std::fs::create_dir(path).unwrap();
                self.directory(path, depth - 1);
            }
            2 => {
                let length = usize::try_from(self.random.below(self.format.longest as u64));
                let target = vec![b"t/."[path.as_os_str().len() % 3]; length.unwrap().max(1)];
                std::os::unix::fs::symlink(OsStr::from_bytes(&target), path).unwrap();
            }
            3 if !self.files.is_empty() => {
                let number = self.random.below(self.files.len() as u64);
                let file = &self.files[usize::try_from(number).unwrap()];
                std::fs::hard_link(file, path).unwrap();
                return;
            }
            8 => {
                let kind = self.random.pick(&[FileType::CharacterDevice, FileType::BlockDevice]);
                let (major, minor) = (self.random.below(4000), self.random.below(200_000));
                let device = rustix::fs::makedev(
                    u32::try_from(major).unwrap(),
                    u32::try_from(minor).unwrap(),
                );
                rustix::fs::mknodat(CWD, path, kind, Mode::empty(), device).unwrap();
            }
            9 => {
                rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::empty(), 0).unwrap();
            }
            _ => self.file(path),
        }
        if !path.is_dir() || path.is_symlink() {
            self.files.push(path.to_owned());
        }
        self.attributes(path);
    }

    fn file(&mut self, path: &Path) {
        let file = File::create(path).unwrap();
        let sizes = [0, 1, 511, 512, 513, 4096, 10_000, 70_000, 300_000];
        let size = self.random.pick(&sizes);
        if self.random.one_in(2) {
            let data = support::noise(self.random.below(1 << 40), usize::try_from(size).unwrap());
            file.write_all_at(&data, 0).unwrap();
            return;
        }
        // Mostly holes, more runs than one header has room for.
        let mut at = self.random.below(3) * 4096;
        for _ in 0..self.random.below(40) {
            let length = self.random.pick(&[1usize, 4096, 5000]);
            file.write_all_at(&support::noise(at, length), at).unwrap();
            at += self.random.pick(&[4096u64, 8192, 65_536, 1 << 20]);
        }
        file.set_len(at.max(size) + self.random.pick(&[0, 1, 4096, 1 << 21])).unwrap();
    }

    fn attributes(&mut self, path: &Path) {
        let ids = [0u32, 1, 1000, 0o7_777_777];
        let wide = [0u32, 65_534, 3_000_000, u32::MAX - 1];
        let from = if self.format.wide { &wide } else { &ids };
        let (uid, gid) = (self.random.pick(from), self.random.pick(from));
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        rustix::fs::chownat(CWD, path, Some(user), Some(group), flags).unwrap();
        let is_link = path.is_symlink();
        if !is_link {
            let modes = [0o644u32, 0o755, 0o4755, 0o2711, 0o1777, 0o000, 0o7777];
            let mode = Mode::from_raw_mode(self.random.pick(&modes));
            rustix::fs::chmodat(CWD, path, mode, AtFlags::empty()).unwrap();
        }
        if self.format.xattrs && !is_link && self.random.one_in(2) {
            let names: &[&str] = if path.is_dir() || path.is_file() {
                &["user.a", "user.b c", "trusted.t"]
            } else {
                &["trusted.t"]
            };
            let name = self.random.pick(names);
            let value = self.random.pick(&[&b""[..], b"\0\n=", b"text", &[0xff; 300]]);
            rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
        }
        let seconds = if self.format.wide && self.random.one_in(4) {
            self.random.pick(&[-1i64, -86_400 * 365, 0, 1 << 33])
        } else {
            i64::try_from(self.random.below(1 << 31)).unwrap()
        };
        let tv_nsec = self.random.pick(&[0, 1, 999_999_999]);
        let time = Timespec { tv_sec: seconds, tv_nsec };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, path, &times, flags).unwrap();
    }
}

#[track_caller]
fn tar(words: &[&OsStr]) {
    let output = Command::new("tar").args(words).env("LC_ALL", "C").output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tar {words:?}: {errors}");
}

/// Makes a tree and an archive of it, and extracts that both ways. Returns the
/// number of objects.
fn check(format: &Format, seed: u64) -> u64 {
    let _replay = Replay(seed);
    let scratch = tempfile::tempdir().unwrap();
    let (source, unpacked) = (scratch.path().join("source"), scratch.path().join("unpacked"));
    std::fs::create_dir(&source).unwrap();
    std::fs::create_dir(&unpacked).unwrap();
    let mut random = Random(seed);
    let mut maker = Maker { random: &mut random, format, root: source.clone(), files: Vec::new() };
    maker.directory(&source, 4);
    maker.attributes(&source);
    let archive = scratch.path().join("archive.tar");
    let mut words: Vec<&OsStr> = format.options.iter().map(OsStr::new).collect();
    let xattrs = ["--xattrs", "--xattrs-include=*"].map(OsStr::new);
    if format.xattrs {
        words.extend(xattrs);
    }
    let from: [&OsStr; 6] = [
        "--numeric-owner".as_ref(),
        "-C".as_ref(),
        source.as_ref(),
        "-cf".as_ref(),
        archive.as_ref(),
        ".".as_ref(),
    ];
    words.extend(from);
    tar(&words);
    let into: [&OsStr; 8] = [
        "--numeric-owner".as_ref(),
        "--same-owner".as_ref(),
        "-p".as_ref(),
        "--delay-directory-restore".as_ref(),
        "-C".as_ref(),
        unpacked.as_ref(),
        "-xf".as_ref(),
        archive.as_ref(),
    ];
    let extract = [&xattrs[..], &into[..]].concat();
    tar(&extract);

    let options = LayerOptions::default();
    let bytes = File::open(&archive).unwrap();
    let written = write_layer(bytes, Vec::new(), &options, support::pool(1), Arc::new(Silent));
    let stack = support::stack(vec![written.unwrap().1]);
    // Without a map of them holes are a matter of the file system, and a map
    // that is finer than its blocks cannot be kept.
    let holes =
        format.options.contains(&"--sparse") && !format.options.contains(&"--hole-detection=raw");
    let options = CompareOptions { holes, ..CompareOptions::default() };
    let mut wanted = DirectoryView::open(&unpacked).unwrap().closed();
    let found = compare(&mut wanted, &mut StackView::new(&stack), &options).unwrap();
    let found: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{:?}, seed {seed}:\n{}", format.options, found.join("\n"));
    stack.totals().inodes
}

#[test]
fn conversion_gives_what_gnu_tar_extracts() {
    assert!(rustix::process::geteuid().is_root(), "this test makes devices: run it as root");
    let seeds: Vec<u64> = match wanted_seed() {
        Some(seed) => vec![seed],
        None => (1..=if is_long() { 50 } else { 4 }).collect(),
    };
    for format in &FORMATS {
        let objects: u64 = seeds.iter().map(|seed| check(format, *seed)).sum();
        assert!(objects > 20, "{:?}: hardly anything was compared", format.options);
    }
}
