//! Small blobs that are recorded, byte for byte, with what is in them as text.
//!
//! Each must be what this version writes, and read as its text says. Another
//! implementation reads them too. `MICROFS_GOLDEN=update` records them anew.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::path::{Path, PathBuf};

use microfs::compress::Compression;
use microfs::format::DigestAlgorithm;
use microfs::stack::{LayerSource, Stack, StackOptions};
use microfs::tree::{NodeId, NodeKind};
use microfs::writer::Options;
use support::content::{Content, Fill, Run};
use support::dump::{Entry, of_layer, of_stack};
use support::layers::Layer;
use support::plan::Meta;
use support::special_kinds::{CAPABILITY, acl};

const ROOT: NodeId = NodeId::ROOT;

/// Largest golden blob in bytes.
const MAX: usize = 16 << 10;

fn xattr(name: &str, value: &[u8]) -> (Vec<u8>, Vec<u8>) {
    (name.as_bytes().to_vec(), value.to_vec())
}

/// The worked example of FORMAT.md.
fn worked_example() -> (Options, Layer) {
    let meta = |permissions| Meta { mtime: (1, 0), ..Meta::plain(permissions) };
    let mut layer = Layer::new(&meta(0o755));
    layer.file(ROOT, b"empty", Content::default(), &meta(0o644));
    let with = Meta { xattrs: vec![xattr("user.a", b"1")], ..meta(0o644) };
    layer.file(ROOT, b"hello", Content::text("hello"), &with);
    layer.symlink(ROOT, b"link", b"hello", &meta(0o777));
    (Options { compression: Compression::None, ..Options::default() }, layer)
}

/// Every type, several names of one object, and the ends of all numbers.
fn types() -> (Options, Layer) {
    let meta =
        Meta { uid: 1000, gid: 1001, mtime: (1_600_000_000, 999_999_999), ..Meta::plain(0o640) };
    let mut layer = Layer::new(&Meta { permissions: 0o1777, ..meta.clone() });
    let b = layer.directory(ROOT, b"b", &Meta { permissions: 0o2755, ..meta.clone() });
    let a = layer.directory(ROOT, b"a", &meta);
    layer.directory(a, b"empty", &Meta { permissions: 0, ..meta.clone() });
    let deep = layer.directory(a, "größer".as_bytes(), &meta);
    let file = layer.file(deep, b"z", Content::text("one object, three names\n"), &meta);
    layer.link(b, b"y", file);
    layer.link(ROOT, b"x", file);
    let link =
        layer.symlink(b, b"link", b"../nowhere", &Meta { permissions: 0o777, ..meta.clone() });
    layer.link(a, b"link too", link);
    layer.symlink(
        ROOT,
        b"longest target",
        &[b'/'; 4095],
        &Meta { permissions: 0o777, ..meta.clone() },
    );
    let fifo = layer.add(ROOT, b"fifo", NodeKind::Fifo, &meta);
    layer.link(ROOT, b"-", fifo);
    layer.add(ROOT, b"socket", NodeKind::Socket, &meta);
    layer.device(b"null", false, 1, 3, &Meta { permissions: 0o666, ..meta.clone() });
    layer.device(b"no whiteout", false, 0, 0, &meta);
    layer.device(b"largest", true, u32::MAX, u32::MAX, &meta);
    let latest =
        Meta { uid: u32::MAX, gid: u32::MAX - 1, mtime: (i64::MAX, 999_999_999), ..meta.clone() };
    layer.file(b, b"latest", Content::text("7"), &Meta { permissions: 0o7777, ..latest });
    let earliest = Meta { uid: 0, gid: 0, mtime: (i64::MIN, 1), ..meta.clone() };
    layer.file(b, b"earliest", Content::text("-"), &earliest);
    layer.file(ROOT, &[0xff; 255], Content::text(""), &Meta { mtime: (-1, 5), ..meta.clone() });
    layer.file(ROOT, b".wh.no whiteout", Content::text("x"), &meta);
    layer.file(ROOT, b"line\nfeed=\\", Content::text("y"), &meta);
    (Options { block_log: 12, compression: Compression::None, ..Options::default() }, layer)
}

/// Files of many blocks and blocks of many files, equal content, and content
/// that does not compress; SHA-256.
fn blocks() -> (Options, Layer) {
    let meta = Meta::plain(0o644);
    let mut layer = Layer::new(&Meta::plain(0o755));
    for size in [1, 100, 511, 512, 513, 1023, 1024, 1025, 5000] {
        let content = Content::whole(size, Fill::Words(size));
        layer.file(ROOT, format!("words-{size:04}").as_bytes(), content, &meta);
    }
    for size in [200, 512, 1300] {
        let content = Content::whole(size, Fill::Random(size));
        layer.file(ROOT, format!("random-{size:04}").as_bytes(), content, &meta);
    }
    layer.file(ROOT, b"same-1025", Content::whole(1025, Fill::Words(1025)), &meta);
    layer.file(ROOT, b"same-0100", Content::whole(100, Fill::Words(100)), &meta);
    layer.file(ROOT, b"zeros", Content::whole(3000, Fill::Zeros), &meta);
    let options = Options {
        block_log: 9,
        metadata_log: 12,
        compression: Compression::Zstd(3),
        digest: DigestAlgorithm::Sha256,
        ..Options::default()
    };
    (options, layer)
}

/// Holes anywhere, at bytes that belong to no page.
fn holes() -> (Options, Layer) {
    let meta = Meta::plain(0o600);
    let mut layer = Layer::new(&Meta::plain(0o700));
    let longest = i64::MAX as u64;
    let run = |offset, length, seed| Run { offset, length, fill: Fill::Words(seed) };
    let cases: [(&str, u64, Vec<Run>); 8] = [
        ("one-byte", 1, vec![]),
        ("longest", longest, vec![]),
        (
            "longest-with-data",
            longest,
            vec![run(7, 5, 1), run(1 << 60, 5000, 2), run(longest - 9, 9, 3)],
        ),
        ("leading", 9000, vec![run(8192, 808, 4)]),
        ("trailing", 9000, vec![run(0, 8192, 5)]),
        ("between", 30, vec![run(0, 10, 6), run(20, 10, 7)]),
        ("same-twice", 4000, vec![run(1000, 1000, 8), run(3000, 1000, 8)]),
        ("zeros-are-data", 100, vec![Run { offset: 50, length: 50, fill: Fill::Zeros }]),
    ];
    for (name, size, runs) in cases {
        layer.file(ROOT, name.as_bytes(), Content { size, runs }, &meta);
    }
    (Options { block_log: 12, compression: Compression::Zstd(19), ..Options::default() }, layer)
}

/// What only a layer of a stack has.
fn marks() -> (Options, Layer) {
    let meta = Meta::plain(0o755);
    let mut layer = Layer::new(&meta);
    let nothing = Meta { mtime: (0, 0), ..Meta::plain(0) };
    let etc = layer.directory(ROOT, b"etc", &meta);
    layer.whiteout(etc, b"removed");
    layer.whiteout(ROOT, b"also removed");
    layer.whiteout(ROOT, b"\xffremoved");
    let opaque = NodeKind::Directory { opaque: true, implied: false };
    let var = layer.add(ROOT, b"var", opaque, &meta);
    layer.file(var, b"kept", Content::text("kept\n"), &Meta::plain(0o644));
    let implied = NodeKind::Directory { opaque: false, implied: true };
    let usr = layer.add(ROOT, b"usr", implied, &nothing);
    let lib = layer.add(usr, b"lib", implied, &nothing);
    layer.file(lib, b"new", Content::text("new\n"), &Meta::plain(0o644));
    layer.whiteout(lib, b"old");
    let hollow = layer.add(usr, b"hollow", implied, &nothing);
    let inner = layer.add(hollow, b"hollow too", implied, &nothing);
    layer.whiteout(inner, b"gone");
    let both = NodeKind::Directory { opaque: true, implied: true };
    let share = layer.add(usr, b"share", both, &nothing);
    layer.file(share, b"only", Content::text("only\n"), &Meta::plain(0o644));
    let below = layer.link_below(etc, b"link to below", b"bin/busybox");
    layer.link(lib, b"again", below);
    layer.link_below(ROOT, b"another", b"a/b");
    let options = Options {
        block_log: 20,
        compression: Compression::None,
        digest: DigestAlgorithm::Sha256,
        ..Options::default()
    };
    (options, layer)
}

/// Sets of attributes, values larger than a metadata block, and names that
/// fill several dentry blocks.
fn attributes() -> (Options, Layer) {
    let plain = Meta::plain(0o644);
    let with = |xattrs: Vec<(Vec<u8>, Vec<u8>)>| Meta { xattrs, ..plain.clone() };
    let mut layer = Layer::new(&with(vec![xattr("user.root", b"")]));
    let random = Content::run_bytes(&Run { offset: 0, length: 4500, fill: Fill::Random(3) });
    let all = vec![
        xattr("user.large", &random),
        xattr("user.key=with equals", b"=\\\n-"),
        xattr("security.capability", &CAPABILITY),
        xattr("security.selinux", b"system_u:object_r:bin_t:s0\0"),
        xattr("system.posix_acl_access", &acl(7)),
        xattr("trusted.overlay.opaque", b"y"),
        xattr("unknown", b"-"),
        xattr("user.largest", &[b'z'; 65_536]),
    ];
    layer.file(ROOT, b"all", Content::text("a"), &with(all.clone()));
    layer.file(ROOT, b"some", Content::text("b"), &with(all[..3].to_vec()));
    layer.file(ROOT, b"same as some", Content::text("c"), &with(all[..3].to_vec()));
    let acls = vec![xattr("system.posix_acl_default", &acl(8)), xattr("user.large", b"small")];
    let many = layer.directory(ROOT, b"many", &with(acls));
    for number in 0..400 {
        let name = format!("a name of some length, number {number:04}");
        match number % 50 {
            7 => drop(layer.directory(many, name.as_bytes(), &plain)),
            _ => drop(layer.file(many, name.as_bytes(), Content::default(), &plain)),
        }
    }
    let options = Options {
        block_log: 17,
        metadata_log: 12,
        compression: Compression::Zstd(9),
        ..Options::default()
    };
    (options, layer)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden")
}

fn text(entries: &[Entry]) -> String {
    entries.iter().map(Entry::text).collect()
}

fn check(name: &str, (options, layer): (Options, Layer)) {
    let blob = layer.write(&options);
    let dump = of_layer(&layer);
    assert!(blob.len() <= MAX, "{name} has {} bytes", blob.len());
    let (blob_path, dump_path) =
        (folder().join(format!("{name}.microfs")), folder().join(format!("{name}.dump")));
    if std::env::var_os("MICROFS_GOLDEN").is_some_and(|value| value == "update") {
        std::fs::create_dir_all(folder()).unwrap();
        std::fs::write(&blob_path, &blob).unwrap();
        std::fs::write(&dump_path, text(&dump)).unwrap();
    }
    let how = "to record it anew: MICROFS_GOLDEN=update cargo test -p microfs-cli --test golden";
    let read = |path: &Path| {
        std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}; {how}", path.display()))
    };
    let recorded = read(&blob_path);
    let source = LayerSource { source: Box::new(recorded.clone()), sha256: None };
    let stack = Stack::open(vec![source], &StackOptions::default()).unwrap();
    let merged: Vec<Entry> = dump.iter().cloned().filter_map(Entry::merged).collect();
    assert_eq!(text(&of_stack(&stack)), text(&merged), "{name} read");
    assert_eq!(String::from_utf8(read(&dump_path)).unwrap(), text(&dump), "{name}.dump; {how}");
    assert_eq!(encoder(&recorded), encoder(&blob), "{name} has another encoder; {how}");
    assert!(recorded == blob, "{name}: an unchanged encoder writes other bytes; {how}");
}

/// Offset and length of the encoder's name in the superblock (FORMAT.md, section 5).
fn encoder(blob: &[u8]) -> String {
    let field = &blob[blob.len() - 4096 + 472..][..64];
    String::from_utf8_lossy(field).trim_end_matches('\0').to_owned()
}

#[test]
fn the_worked_example_is_as_recorded() {
    check("worked-example", worked_example());
}

#[test]
fn types_are_as_recorded() {
    check("types", types());
}

#[test]
fn blocks_are_as_recorded() {
    check("blocks", blocks());
}

#[test]
fn holes_are_as_recorded() {
    check("holes", holes());
}

#[test]
fn marks_are_as_recorded() {
    check("marks", marks());
}

#[test]
fn attributes_are_as_recorded() {
    check("attributes", attributes());
}
