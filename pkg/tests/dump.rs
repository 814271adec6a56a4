//! Dumps of whole stacks.

#![allow(clippy::unwrap_used, clippy::panic)]

use microfs::FileType;
use microfs::dump::{DumpOptions, Verity, dump, parse_line};
use microfs::stack::Stack;
use microfs::tree::NodeId;

use support::{Builder, metadata, noise, plain_options, stack};

mod support;

fn text(stack: &Stack, options: &DumpOptions) -> String {
    let mut text = Vec::new();
    dump(stack, options, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

fn sample() -> Stack {
    let mut builder = Builder::new(metadata(0o555, 0, 0, 1_633_950_376, 0));
    let owned = metadata(0o644, 1000, 1001, 1_695_368_732, 385_062_094);
    let labelled =
        builder.xattrs(owned, &[("security.selinux", b"u:r:t:s0\0"), ("user.a=b", b"x=y\n")]);
    builder.file(NodeId::ROOT, b"a space", owned, b"");
    builder.file(NodeId::ROOT, b"inline.txt", owned, b"some-text\n");
    builder.file(NodeId::ROOT, b"dash", owned, b"-");
    let directory = builder.directory(NodeId::ROOT, b"dir", owned);
    let big = builder.file(directory, b"big", labelled, &noise(1, 10_000));
    builder.link(NodeId::ROOT, b"zlink", big);
    builder.link(directory, b"zlink2", big);
    builder.symlink(NodeId::ROOT, b"link", owned, b"-");
    builder.device(NodeId::ROOT, b"blk", metadata(0o777, 0, 0, -5, 7), true, 420, 170);
    builder.device(NodeId::ROOT, b"chr", metadata(0o666, 0, 0, 0, 0), false, 4095, 1_048_575);
    builder.fifo(NodeId::ROOT, b"fifo", owned);
    builder.socket(NodeId::ROOT, b"sock\xff\\", owned);
    stack(vec![builder.build(&plain_options())])
}

#[test]
fn writes_what_the_manual_says() {
    let expected = r"/ 0 40555 3 0 0 0 1633950376.0 - - -
/a\x20space 0 100644 1 1000 1001 0 1695368732.385062094 - - -
/blk 0 60777 1 0 0 107690 -5.7 - - -
/chr 0 20666 1 0 0 4294967295 0.0 - - -
/dash 1 100644 1 1000 1001 0 1695368732.385062094 - \x2d -
/dir 0 40644 2 1000 1001 0 1695368732.385062094 - - -
/dir/big 10000 100644 3 1000 1001 0 1695368732.385062094 - - - security.selinux=u:r:t:s0\x00 user.a\x3db=x\x3dy\n
/dir/zlink2 10000 @100644 3 1000 1001 0 1695368732.385062094 /dir/big - - security.selinux=u:r:t:s0\x00 user.a\x3db=x\x3dy\n
/fifo 0 10644 1 1000 1001 0 1695368732.385062094 - - -
/inline.txt 10 100644 1 1000 1001 0 1695368732.385062094 - some-text\n -
/link 1 120644 1 1000 1001 0 1695368732.385062094 \x2d - -
/sock\xff\\ 0 140644 1 1000 1001 0 1695368732.385062094 - - -
/zlink 10000 @100644 3 1000 1001 0 1695368732.385062094 /dir/big - - security.selinux=u:r:t:s0\x00 user.a\x3db=x\x3dy\n
";
    assert_eq!(text(&sample(), &DumpOptions::default()), expected);
}

#[test]
fn every_line_reads_back() {
    let options = DumpOptions { digests: true, ..DumpOptions::default() };
    let text = text(&sample(), &options);
    let mut again = Vec::new();
    for line in text.lines() {
        parse_line(line.as_bytes()).unwrap().write(&mut again);
    }
    assert_eq!(String::from_utf8(again).unwrap(), text);
}

#[test]
fn names_objects_by_digest() {
    let options = DumpOptions { inline_max: 0, digests: true };
    let text = text(&sample(), &options);
    let mut verity = Verity::new();
    verity.data(&noise(1, 10_000));
    let digest: String = verity.finish().iter().map(|byte| format!("{byte:02x}")).collect();
    let object = format!("{}/{}", &digest[..2], &digest[2..]);
    let line = text.lines().find(|line| line.starts_with("/dir/big ")).unwrap();
    let fields: Vec<_> = line.split(' ').collect();
    assert_eq!(fields[8..11], [object.as_str(), "-", digest.as_str()]);
    // A hard link repeats the digest, but its payload is the first name.
    let line = text.lines().find(|line| line.starts_with("/zlink ")).unwrap();
    let fields: Vec<_> = line.split(' ').collect();
    assert_eq!(fields[8..11], ["/dir/big", "-", digest.as_str()]);
    // Nothing is in-line, and an empty file has neither content nor digest.
    let small = parse_line(text.lines().find(|l| l.starts_with("/dash ")).unwrap().as_bytes());
    assert!(small.unwrap().digest.is_some());
    let empty = text.lines().find(|line| line.starts_with("/a\\x20space ")).unwrap();
    assert!(empty.ends_with(" - - -"));
}

#[test]
fn digests_a_hole_of_any_size_like_its_zeros() {
    let mut builder = Builder::new(metadata(0o755, 0, 0, 0, 0));
    let owned = metadata(0o644, 0, 0, 0, 0);
    let size = 3_000_000u64;
    let data = vec![(1_000_000, vec![7; 5000]), (2_500_001, vec![9; 1])];
    builder.sparse(NodeId::ROOT, b"some", owned, size, data.clone());
    builder.sparse(NodeId::ROOT, b"vast", owned, u64::MAX >> 1, vec![(0, vec![1])]);
    let stack = stack(vec![builder.build(&plain_options())]);
    let text = text(&stack, &DumpOptions { digests: true, ..DumpOptions::default() });
    let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().as_bytes();
    let mut bytes = vec![0; usize::try_from(size).unwrap()];
    for (offset, part) in data {
        let start = usize::try_from(offset).unwrap();
        bytes[start..start + part.len()].copy_from_slice(&part);
    }
    let mut verity = Verity::new();
    verity.data(&bytes);
    assert_eq!(parse_line(line("/some ")).unwrap().digest, Some(verity.finish()));
    let vast = parse_line(line("/vast ")).unwrap();
    assert_eq!((vast.size, vast.file_type), (u64::MAX >> 1, FileType::Regular));
    assert!(vast.digest.is_some());
}

#[test]
fn shows_the_merged_tree() {
    let owned = metadata(0o644, 0, 0, 0, 0);
    let mut lower = Builder::new(metadata(0o755, 0, 0, 0, 0));
    lower.file(NodeId::ROOT, b"gone", owned, b"1");
    lower.file(NodeId::ROOT, b"kept", owned, b"2");
    let mut upper = Builder::new(metadata(0o755, 0, 0, 1, 0));
    upper.whiteout(NodeId::ROOT, b"gone");
    upper.file(NodeId::ROOT, b"new", owned, b"3");
    upper.link_below(NodeId::ROOT, b"linked", b"kept");
    let stack = stack(vec![lower.build(&plain_options()), upper.build(&plain_options())]);
    let text = text(&stack, &DumpOptions::default());
    let expected = "/ 0 40755 2 0 0 0 1.0 - - -\n\
        /kept 1 100644 2 0 0 0 0.0 - 2 -\n\
        /linked 1 @100644 2 0 0 0 0.0 /kept 2 -\n\
        /new 1 100644 1 0 0 0 0.0 - 3 -\n";
    assert_eq!(text, expected);
}
