use std::sync::Arc;

use super::*;
use crate::format::section::Section;
use crate::stack::{LayerSource, NodeNum, Stack, StackOptions};
use crate::tree::{Metadata, Node, NodeId, NodeKind, Target, Tree};

fn pool(threads: usize) -> Arc<rayon::ThreadPool> {
    Arc::new(rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap())
}

/// A file's bytes: `seed` decides them, a third of them are repetitive.
fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(length + 8);
    while out.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = if (out.len() / 512) % 3 == 0 { 0x2020_2020 } else { state };
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.truncate(length);
    out
}

fn tree_of(sizes: &[usize]) -> (crate::tree::ValidTree, Vec<NodeId>) {
    let mut tree = Tree::new(Metadata::default());
    let mut nodes = Vec::new();
    for (number, size) in sizes.iter().enumerate() {
        let kind = NodeKind::Regular { size: *size as u64 };
        let node = tree.add(Node { metadata: Metadata::default(), kind }).unwrap();
        tree.link(NodeId::ROOT, format!("f{number:05}").as_bytes(), Target::Node(node)).unwrap();
        nodes.push(node);
    }
    (tree.validate().unwrap(), nodes)
}

fn build(sizes: &[usize], options: &Options, threads: usize) -> (Vec<u8>, Summary) {
    let (tree, nodes) = tree_of(sizes);
    let mut writer =
        ContentWriter::new(Vec::new(), options.clone(), pool(threads), Arc::new(Silent)).unwrap();
    let max = writer.piece_max();
    for (number, (node, size)) in nodes.iter().zip(sizes).enumerate() {
        let content = bytes(number as u64 / 2, *size);
        for (piece, chunk) in content.chunks(max).enumerate() {
            let chunk = chunk.to_vec();
            let offset = (piece * max) as u64;
            writer.piece(*node, offset, chunk.len(), Box::new(move || Ok(chunk))).unwrap();
        }
    }
    writer.finish(&tree).unwrap()
}

fn open(blob: Vec<u8>) -> Stack {
    let layer = LayerSource { source: Box::new(blob), sha256: None };
    Stack::open(vec![layer], &StackOptions::default()).unwrap()
}

const SIZES: [usize; 14] =
    [0, 1, 511, 512, 513, 4095, 4096, 5000, 5000, 65_536, 131_072, 131_073, 300_000, 300_000];

#[test]
fn reads_back_what_was_written_for_every_block_size() {
    for block_log in 9..=20 {
        for compression in [Compression::None, Compression::Zstd(3)] {
            let options = Options { block_log, compression, ..Options::default() };
            let (blob, summary) = build(&SIZES, &options, 2);
            assert_eq!(blob.len() as u64, summary.superblock.blob_length);
            let stack = open(blob);
            for (number, size) in SIZES.iter().enumerate() {
                let expected = bytes(number as u64 / 2, *size);
                let name = format!("f{number:05}");
                let node = stack.lookup(NodeNum::ROOT, name.as_bytes()).unwrap().unwrap();
                assert_eq!(stack.attr(node).unwrap().size, *size as u64);
                let mut whole = vec![1; *size + 10];
                assert_eq!(stack.read_at(node, 0, &mut whole).unwrap(), *size);
                assert_eq!(whole[..*size], expected[..]);
                let from = size / 3;
                let mut part = vec![1; 1000];
                let got = stack.read_at(node, from as u64, &mut part).unwrap();
                assert_eq!(got, 1000.min(size - from));
                assert_eq!(part[..got], expected[from..from + got]);
            }
        }
    }
}

#[test]
fn thread_count_changes_no_byte() {
    let sizes: Vec<usize> = (0..400).map(|n| n * n % 40_000).collect();
    let options = Options { block_log: 12, ..Options::default() };
    let (one, _) = build(&sizes, &options, 1);
    for threads in [2, 5] {
        assert!(build(&sizes, &options, threads).0 == one);
    }
}

#[test]
fn equal_content_is_stored_once() {
    // Files 2n and 2n + 1 have the same seed; of equal size they are equal.
    let twice = [300_000, 300_000, 7_000, 7_000];
    let (_, summary) = build(&twice, &Options::default(), 2);
    assert_eq!(summary.superblock.totals.content_plain.get(), 307_000);
    assert_eq!(summary.dedup.bytes, 307_000);
    let off = Options { dedup: false, ..Options::default() };
    let (_, summary) = build(&twice, &off, 2);
    assert_eq!(summary.superblock.totals.content_plain.get(), 614_000);
}

#[test]
fn names_span_dentry_blocks() {
    let sizes = vec![0; 20_000];
    let options = Options { metadata_log: 12, ..Options::default() };
    let (blob, summary) = build(&sizes, &options, 2);
    assert!(summary.superblock.sections.span(Section::Dentries).blocks > 20);
    let stack = open(blob);
    for number in [0, 1, 300, 4095, 9999, 19_999] {
        let name = format!("f{number:05}");
        assert!(stack.lookup(NodeNum::ROOT, name.as_bytes()).unwrap().is_some());
    }
    assert_eq!(stack.lookup(NodeNum::ROOT, b"f").unwrap(), None);
    assert_eq!(stack.lookup(NodeNum::ROOT, b"g").unwrap(), None);
    let mut names = Vec::new();
    let mut offset = 0;
    // In steps, as a reader with a small buffer does.
    loop {
        let mut taken = 0;
        stack
            .read_dir(NodeNum::ROOT, offset, &mut |entry| {
                names.push(entry.name.to_vec());
                offset = entry.next;
                taken += 1;
                if taken == 777 {
                    std::ops::ControlFlow::Break(())
                } else {
                    std::ops::ControlFlow::Continue(())
                }
            })
            .unwrap();
        if taken == 0 {
            break;
        }
    }
    let expected: Vec<_> = (0..20_000).map(|n| format!("f{n:05}").into_bytes()).collect();
    assert_eq!(names, expected);
}

#[test]
fn wrong_options_and_lengths_are_refused() {
    let bad = [
        Options { block_log: 8, ..Options::default() },
        Options { block_log: 21, ..Options::default() },
        Options { metadata_log: 17, ..Options::default() },
        Options { compression: Compression::Zstd(23), ..Options::default() },
    ];
    for options in bad {
        let made = ContentWriter::new(Vec::new(), options, pool(1), Arc::new(Silent));
        assert!(matches!(made.map(|_| ()), Err(WriteError::Option { .. })));
    }
    let (tree, nodes) = tree_of(&[10]);
    let options = Options::default();
    let mut writer = ContentWriter::new(Vec::new(), options, pool(1), Arc::new(Silent)).unwrap();
    writer.piece(nodes[0], 0, 10, Box::new(|| Ok(vec![0; 9]))).unwrap();
    let finished = writer.finish(&tree).map(|_| ());
    assert!(matches!(finished, Err(WriteError::LengthMismatch { expected: 10, got: 9 })));
}

#[test]
fn content_must_fit_the_size() {
    for (size, given) in [(9usize, 3usize), (3, 9), (5, 0)] {
        let (tree, nodes) = tree_of(&[size]);
        let options = Options::default();
        let mut writer =
            ContentWriter::new(Vec::new(), options, pool(1), Arc::new(Silent)).unwrap();
        if given > 0 {
            writer.piece(nodes[0], 0, given, Box::new(move || Ok(vec![7; given]))).unwrap();
        }
        let finished = writer.finish(&tree).map(|_| ());
        assert!(matches!(finished, Err(WriteError::MissingContent)), "{size} {given}");
    }
}
