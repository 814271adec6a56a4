//! Every rule, broken on purpose.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::sync::Arc;

use microfs::check::{
    CheckOptions, CheckReport, Problem, Silent, check_blob, check_image, check_stack,
};
use microfs::compress::Compression;
use microfs::format::blob_table::BlobRecord;
use microfs::format::dentry::RawHardLink;
use microfs::format::extent::RawExtent;
use microfs::format::inode::{RawInode, flags};
use microfs::format::section::Section;
use microfs::format::superblock::RawSuperblock;
use microfs::format::xattr::{RawXattrEntry, RawXattrName, RawXattrSet};
use microfs::format::{Codec, DigestAlgorithm, Rule, wide};
use microfs::reader::{BlockCache, Image};
use microfs::tree::NodeId;
use microfs::writer::Options;
use microfs::{FileType, ReadError};
use zerocopy::FromBytes;
use zerocopy::little_endian::U64;

use support::blob::Blob;
use support::{Builder, metadata, noise, plain_options, pool, stack};

mod support;

fn check(blob: Vec<u8>) -> CheckReport {
    check_blob(Box::new(blob), &CheckOptions::default(), &pool(2), &Silent)
}

fn rules(report: &CheckReport) -> Vec<Rule> {
    report.findings.iter().filter_map(|finding| finding.problem.rule()).collect()
}

#[track_caller]
fn expect(rule: Rule, blob: Vec<u8>) {
    let found = rules(&check(blob));
    assert!(found.contains(&rule), "expected R{} {rule:?}, found {found:?}", rule.number());
}

/// The rule, and nothing that merely follows from its being broken.
#[track_caller]
fn expect_only(rule: Rule, blob: Vec<u8>) {
    let report = check(blob);
    let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
    assert!(
        !found.is_empty() && rules(&report).iter().all(|other| *other == rule),
        "expected R{} {rule:?} alone, found {found:#?}",
        rule.number()
    );
}

/// Inodes of the sample that tests look for.
struct Sample {
    blob: Blob,
    files: Vec<u64>,
    symlink: u64,
    linked: u64,
    implied: u64,
    sparse: u64,
    packed: u64,
}

/// A layer with something of everything, several blocks in most sections.
fn build(options: &Options) -> Vec<u8> {
    let plain = metadata(0o644, 1, 2, 3, 4);
    let mut builder = Builder::new(metadata(0o755, 0, 0, 0, 0));
    let many = builder.directory(NodeId::ROOT, b"many", metadata(0o755, 0, 0, 0, 0));
    for number in 0..400 {
        builder.file(many, format!("a long name of a file {number:04}").as_bytes(), plain, b"");
    }
    let one = builder.xattrs(plain, &[("user.a", b"1"), ("user.b", b"22"), ("trusted.c", b"")]);
    let two = builder.xattrs(plain, &[("user.b", b"22"), ("security.d", &[7; 5000])]);
    builder.file(NodeId::ROOT, b"with-xattrs", one, b"small content");
    builder.file(NodeId::ROOT, b"with-others", two, b"other small content");
    let linked = builder.file(NodeId::ROOT, b"linked", plain, &noise(2, 9_000));
    builder.link(many, b"zz linked again", linked);
    let inner = builder.flagged(NodeId::ROOT, b"opaque", true, false);
    builder.link(inner, b"linked a third time", linked);
    builder.flagged(inner, b"implied", false, true);
    builder.whiteout(inner, b"gone");
    builder.link_below(inner, b"from-below", b"some/lower/file");
    builder.symlink(NodeId::ROOT, b"symlink", plain, b"../target of a link");
    let data = vec![(8192, noise(3, 5000)), (50_000, noise(4, 100)), (60_000, noise(5, 4096))];
    builder.sparse(NodeId::ROOT, b"sparse", plain, 100_000, data);
    builder.device(NodeId::ROOT, b"device", plain, false, 5, 6);
    builder.fifo(NodeId::ROOT, b"fifo", plain);
    builder.socket(NodeId::ROOT, b"socket", plain);
    builder.device(NodeId::ROOT, b"block", plain, true, 5, 6);
    builder.build(options)
}

fn sample() -> Sample {
    let mut blob = Blob::new(build(&plain_options()));
    let mut files = Vec::new();
    let mut sample = (0, 0, 0, 0, 0);
    for number in 0..blob.count(Section::Inodes) {
        let raw = RawInode::read_from_bytes(&blob.record::<72>(Section::Inodes, number)).unwrap();
        let is = |file_type: FileType| raw.mode.get() & 0o170_000 == file_type.mode_bits();
        if is(FileType::Regular) {
            files.push(number);
            match raw.size.get() {
                9_000 => sample.1 = number,
                100_000 => sample.3 = number,
                13 => sample.4 = number,
                _ => {}
            }
        }
        if is(FileType::Symlink) {
            sample.0 = number;
        }
        if raw.flags.get() & flags::IMPLIED != 0 {
            sample.2 = number;
        }
    }
    let (symlink, linked, implied, sparse, packed) = sample;
    Sample { blob, files, symlink, linked, implied, sparse, packed }
}

impl Sample {
    fn inode(mut self, number: u64, change: impl FnOnce(&mut RawInode)) -> Vec<u8> {
        self.blob.change::<72, RawInode>(Section::Inodes, number, change);
        self.blob.sign()
    }

    fn extent(mut self, number: u64, change: impl FnOnce(&mut RawExtent)) -> Vec<u8> {
        self.blob.change::<24, RawExtent>(Section::Extents, number, change);
        self.blob.sign()
    }

    /// Changes the superblock and signs it.
    fn superblock(mut self, change: impl FnOnce(&mut RawSuperblock)) -> Vec<u8> {
        change(self.blob.raw_superblock());
        self.blob.sign_superblock()
    }

    /// Where dentry `slot` of dentry block `block` keeps byte `plane`.
    fn dentry_byte(&mut self, block: u64, slot: usize, plane: usize) -> &mut u8 {
        let number = self.blob.section_block(Section::Dentries, block);
        let bytes = self.blob.block(number);
        let count = usize::try_from(u32::from_le_bytes(bytes[..4].try_into().unwrap())).unwrap();
        &mut bytes[4 + plane * count + slot]
    }

    /// First position of a name in a dentry block, and the block.
    fn find_name(&mut self, name: &[u8]) -> (u64, usize) {
        for block in 0..self.blob.superblock.sections.span(Section::Dentries).blocks {
            let number = self.blob.section_block(Section::Dentries, block);
            let bytes = self.blob.block(number);
            if let Some(at) = bytes.windows(name.len()).position(|part| part == name) {
                return (number, at);
            }
        }
        panic!("no such name");
    }
}

#[test]
fn a_sound_layer_is_sound() {
    for compression in [Compression::None, Compression::Zstd(3)] {
        for block_log in [9, 12, 17] {
            let options = Options { compression, block_log, ..Options::default() };
            let report = check(build(&options));
            let found: Vec<_> = report.findings.iter().map(ToString::to_string).collect();
            assert!(report.is_sound(), "{options:?}: {found:#?}");
            assert_eq!(report.kinds, [404, 4, 1, 1, 1, 1, 1, 1]);
            assert_eq!(report.inodes(), 414);
            assert_eq!((report.dentries, report.whiteouts), (416, 1));
            assert_eq!((report.xattr_sets, report.unused_bytes, report.layers), (2, 0, 1));
            let plain: u64 = report.codecs.iter().map(|count| count.plain_bytes).sum();
            assert!(plain > 9_000 + 9_196);
        }
    }
}

#[test]
fn the_smallest_layer_is_sound() {
    let report = check(Builder::new(metadata(0o755, 0, 0, 0, 0)).build(&Options::default()));
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(report.inodes(), 1);
}

#[test]
fn r1_length() {
    let mut bytes = build(&plain_options());
    bytes.push(0);
    expect(Rule::Length, bytes);
    expect(Rule::Length, vec![0; 4096]);
    expect(Rule::Length, Vec::new());
}

#[test]
fn r2_to_r7_superblock() {
    expect(Rule::Magic, sample().superblock(|raw| raw.magic[0] ^= 1));
    expect(Rule::Version, sample().superblock(|raw| raw.version = 2.into()));
    expect(Rule::Feature, sample().superblock(|raw| raw.incompatible = 1.into()));
    expect(Rule::Geometry, sample().superblock(|raw| raw.digest_algorithm = 9));
    expect(Rule::Geometry, sample().superblock(|raw| raw.block_log = 21));
    expect(Rule::Geometry, sample().superblock(|raw| raw.page_log = 11));
    expect(Rule::RecordedLength, sample().superblock(|raw| raw.blob_length = 8192.into()));
    let mut broken = sample().blob;
    broken.raw_superblock().blob_count = 1.into();
    expect(Rule::SuperblockDigest, broken.bytes);
}

#[test]
fn r8_r9_parts_and_sections() {
    expect(Rule::Parts, sample().superblock(|raw| raw.pointers_offset = 64.into()));
    expect(Rule::Sections, sample().superblock(|raw| raw.metadata_blocks = 1.into()));
    expect(Rule::Sections, sample().superblock(|raw| raw.sections[0][1] = 1.into()));
    expect(Rule::BlobTable, sample().superblock(|raw| raw.blob_count = 4097.into()));
}

#[test]
fn r10_to_r13_digests_and_pointers() {
    let mut broken = sample().blob;
    let pages = usize::try_from(broken.superblock.pages_offset).unwrap();
    broken.bytes[pages] ^= 1;
    expect_only(Rule::TailDigest, broken.bytes.clone());
    expect(Rule::PageDigest, broken.sign_tail());
    let mut broken = sample().blob;
    broken.pointer(1).offset = 0.into();
    expect(Rule::BlockPointer, broken.sign_pages());
    let mut broken = sample().blob;
    broken.block(1)[0] ^= 1;
    expect_only(Rule::BlockDigest, broken.bytes);
}

#[test]
fn r14_r36_compressed_blocks() {
    let mut builder = Builder::new(metadata(0o755, 0, 0, 0, 0));
    let text = b"text that can be compressed; ".repeat(500);
    builder.file(NodeId::ROOT, b"text", metadata(0o644, 0, 0, 0, 0), &text);
    let bytes = builder.build(&Options { metadata_log: 12, ..Options::default() });
    assert!(check(bytes.clone()).is_sound());
    let mut broken = Blob::new(bytes.clone());
    let last = broken.block(0).len() - 1;
    // The frame's checksum.
    broken.block(0)[last] ^= 1;
    expect_only(Rule::BlockData, broken.sign());
    let mut broken = Blob::new(bytes.clone());
    // The descriptor's checksum flag; the checksum is then no part of the frame.
    broken.block(0)[4] ^= 4;
    expect_only(Rule::Frame, broken.sign());
    // A window that is larger than the superblock says.
    let mut broken = Blob::new(bytes);
    broken.raw_superblock().window_log = 10;
    expect_only(Rule::Totals, broken.sign_superblock());
}

#[test]
fn a_codec_that_is_not_supported_is_reported() {
    let mut broken = sample().blob;
    let pointer = broken.pointer(0);
    let [a, b, c, _] = pointer.stored.get().to_le_bytes();
    pointer.stored = u32::from_le_bytes([a, b, c, Codec::Lz4.code()]).into();
    let report = check(broken.sign());
    let unreadable = |problem: &Problem| {
        matches!(problem, Problem::Unreadable(ReadError::Codec { block: 0, .. }))
    };
    assert!(report.findings.iter().any(|finding| unreadable(&finding.problem)));
}

#[test]
fn r15_metadata_block_length() {
    let mut broken = sample().blob;
    let number = broken.section_block(Section::Inodes, 0);
    let pointer = broken.pointer(number);
    let shorter = pointer.plain.get() - 72;
    pointer.plain = shorter.into();
    pointer.stored = shorter.into();
    expect(Rule::MetadataBlock, broken.sign());
}

#[test]
fn r16_inode() {
    let file = |change: fn(&mut RawInode)| {
        let sample = sample();
        let number = sample.files[0];
        sample.inode(number, change)
    };
    expect_only(Rule::Inode, file(|raw| raw.mode = 0o170_644.into()));
    expect_only(Rule::Inode, file(|raw| raw.flags = 0x100.into()));
    expect_only(Rule::Inode, file(|raw| raw.mtime_nanoseconds = 1_000_000_000.into()));
    expect_only(Rule::Inode, file(|raw| raw.size = (1 << 63).into()));
    // What a fifo has no use for.
    let mut sample = sample();
    let count = sample.blob.count(Section::Inodes);
    let is_fifo = |number: &u64| {
        let raw = sample.blob.record::<72>(Section::Inodes, *number);
        RawInode::read_from_bytes(&raw).unwrap().mode.get() & 0o170_000 == 0o010_000
    };
    let fifo = (0..count).find(is_fifo).unwrap();
    expect_only(Rule::Inode, sample.inode(fifo, |raw| raw.count = 1.into()));
}

#[test]
fn r17_inode_index() {
    let mut broken = sample();
    *broken.dentry_byte(0, 0, 3) = 0x7f;
    expect_only(Rule::InodeIndex, broken.blob.sign());
}

#[test]
fn r18_root() {
    expect(Rule::Root, sample().inode(0, |raw| raw.dentry = 0.into()));
    expect(Rule::Root, sample().inode(1, |raw| raw.dentry = u64::MAX.into()));
}

#[test]
fn r19_r20_dentry_blocks() {
    let mut broken = sample();
    // Not all of the names belong to a dentry.
    let number = broken.blob.section_block(Section::Dentries, 0);
    let count = u32::from_le_bytes(broken.blob.block(number)[..4].try_into().unwrap());
    *broken.dentry_byte(0, usize::try_from(count).unwrap() - 1, 4) -= 1;
    expect(Rule::DentryBlock, broken.blob.sign());
    let mut broken = sample();
    broken.blob.put::<8>(Section::DentryIndex, 1, &5u64.to_le_bytes());
    expect_only(Rule::DentryIndex, broken.blob.sign());
    let mut broken = sample();
    broken.blob.put::<8>(Section::DentryIndex, 0, &1u64.to_le_bytes());
    expect_only(Rule::DentryIndex, broken.blob.sign());
}

#[test]
fn r21_r22_names() {
    for bad in [b'/', 0] {
        let mut broken = sample();
        let (block, at) = broken.find_name(b"file 0123");
        broken.blob.block(block)[at] = bad;
        expect_only(Rule::Name, broken.blob.sign());
    }
    for other in [b"file 0122", b"file 0999"] {
        let mut broken = sample();
        let (block, at) = broken.find_name(b"file 0123");
        broken.blob.block(block)[at..at + 9].copy_from_slice(other);
        expect_only(Rule::NameOrder, broken.blob.sign());
    }
}

#[test]
fn r23_dentry_kind() {
    let mut broken = sample();
    // A file's dentry says pipe.
    let slot = 20;
    *broken.dentry_byte(0, slot, 6) = FileType::Fifo.code();
    expect_only(Rule::DentryKind, broken.blob.sign());
    let mut broken = sample();
    *broken.dentry_byte(0, slot, 6) = 77;
    expect_only(Rule::DentryKind, broken.blob.sign());
}

/// Number of the first extent of the sparse file, whose extents are hole,
/// data, hole, data, hole, data, hole.
fn sparse_extents(sample: &mut Sample) -> u64 {
    let raw = sample.blob.record::<72>(Section::Inodes, sample.sparse);
    let raw = RawInode::read_from_bytes(&raw).unwrap();
    assert!(raw.count.get() >= 7);
    raw.start.get()
}

#[test]
fn r24_extent_order() {
    let mut broken = sample();
    let first = sparse_extents(&mut broken);
    expect_only(Rule::ExtentOrder, broken.extent(first, |raw| raw.file_offset = 1.into()));
    expect_only(Rule::ExtentOrder, sample().extent(first + 1, |raw| raw.file_offset = 0.into()));
    let past = |raw: &mut RawExtent| raw.file_offset = 100_000.into();
    expect_only(Rule::ExtentOrder, sample().extent(first + 6, past));
    // A hole after a hole.
    let hole = |raw: &mut RawExtent| {
        raw.blob = u32::MAX.into();
        raw.block = 0.into();
        raw.block_offset = 0.into();
    };
    expect_only(Rule::ExtentOrder, sample().extent(first + 1, hole));
    // A hole that names a block.
    expect_only(Rule::ExtentBlocks, sample().extent(first, |raw| raw.block = 1.into()));
    // Holes that the inode does not count.
    let sample_ = sample();
    let number = sample_.sparse;
    let wrong = sample_.inode(number, |raw| raw.hole_bytes = 1.into());
    expect(Rule::ExtentOrder, wrong);
    // Records of another file.
    let sample_ = sample();
    let wrong = sample_.inode(number, |raw| raw.start = (first + 1).into());
    expect(Rule::ExtentOrder, wrong);
}

#[test]
fn r24_extents_that_should_be_one() {
    let mut broken = sample();
    let first = sparse_extents(&mut broken);
    let raw = broken.blob.record::<24>(Section::Extents, first + 1);
    let data = RawExtent::read_from_bytes(&raw).unwrap();
    // The hole after the first data becomes more of it.
    let next = broken.blob.record::<24>(Section::Extents, first + 2);
    let length =
        RawExtent::read_from_bytes(&next).unwrap().file_offset.get() - data.file_offset.get();
    let merged = broken.extent(first + 2, |raw| {
        let inside = u64::from(data.block_offset.get()) + length;
        raw.blob = 0.into();
        raw.block = (data.block.get() + inside / 4096).into();
        raw.block_offset = u32::try_from(inside % 4096).unwrap().into();
    });
    expect(Rule::ExtentOrder, merged);
}

#[test]
fn r25_extent_blocks() {
    let mut broken = sample();
    let first = sparse_extents(&mut broken);
    expect_only(Rule::ExtentBlocks, broken.extent(first + 1, |raw| raw.block = 9999.into()));
    let far = |raw: &mut RawExtent| raw.block_offset = 4096.into();
    expect_only(Rule::ExtentBlocks, sample().extent(first + 1, far));
    // More bytes than the blocks have.
    let sample_ = sample();
    let number = sample_.packed;
    expect_only(Rule::ExtentBlocks, sample_.inode(number, |raw| raw.size = 4_000.into()));
    let sample_ = sample();
    expect_only(Rule::ExtentBlocks, sample_.inode(number, |raw| raw.start = 500.into()));
}

#[test]
fn r26_xattrs() {
    let set = |change: fn(&mut RawXattrSet)| {
        let mut broken = sample().blob;
        broken.change::<12, RawXattrSet>(Section::XattrSets, 1, change);
        broken.sign()
    };
    expect_only(Rule::Xattr, set(|raw| raw.count = 0.into()));
    expect_only(Rule::Xattr, set(|raw| raw.first = u64::MAX.into()));
    // From one set into the next.
    expect_only(Rule::Xattr, set(|raw| raw.first = 1.into()));
    let entry = |change: fn(&mut RawXattrEntry)| {
        let mut broken = sample().blob;
        broken.change::<16, RawXattrEntry>(Section::XattrEntries, 1, change);
        broken.sign()
    };
    expect_only(Rule::Xattr, entry(|raw| raw.name = 0.into()));
    expect_only(Rule::Xattr, entry(|raw| raw.name = 99.into()));
    expect_only(Rule::Heap, entry(|raw| raw.length = 65_537.into()));
    let mut broken = sample().blob;
    let a = broken.record::<12>(Section::XattrNames, 0);
    let b = broken.record::<12>(Section::XattrNames, 1);
    broken.put::<12>(Section::XattrNames, 0, &b);
    broken.put::<12>(Section::XattrNames, 1, &a);
    expect(Rule::Xattr, broken.sign());
    let mut broken = sample().blob;
    broken.change::<12, RawXattrName>(Section::XattrNames, 0, |raw| raw.length = 256.into());
    expect(Rule::Xattr, broken.sign());
    let sample_ = sample();
    let number = sample_.files[0];
    expect_only(Rule::Xattr, sample_.inode(number, |raw| raw.xattrs = 3.into()));
}

#[test]
fn r26_equal_sets() {
    let mut builder = Builder::new(metadata(0o755, 0, 0, 0, 0));
    for (name, value) in [(&b"x"[..], &b"1"[..]), (b"y", b"2")] {
        let set = builder.xattrs(metadata(0o644, 0, 0, 0, 0), &[("user.a", value)]);
        builder.file(NodeId::ROOT, name, set, b"");
    }
    let mut broken = Blob::new(builder.build(&plain_options()));
    let entry = broken.record::<16>(Section::XattrEntries, 0);
    broken.put::<16>(Section::XattrEntries, 1, &entry);
    expect(Rule::Xattr, broken.sign());
}

#[test]
fn r27_heap() {
    let sample_ = sample();
    let length = sample_.blob.superblock.sections.heap_length();
    let number = sample_.symlink;
    assert!(length > 4096, "the heap has several blocks");
    expect_only(Rule::Heap, sample_.inode(number, |raw| raw.start = length.into()));
    // A string that straddles two blocks and would fit into one.
    expect_only(Rule::Heap, sample().inode(number, |raw| raw.start = 4090.into()));
}

#[test]
fn r28_hard_links() {
    let link = |change: fn(&mut RawHardLink)| {
        let mut broken = sample().blob;
        broken.change::<16, RawHardLink>(Section::HardLinks, 1, change);
        broken.sign()
    };
    expect_only(Rule::HardLinks, link(|raw| raw.dentry = 0.into()));
    expect_only(Rule::HardLinks, link(|raw| raw.parent = 0.into()));
    expect_only(Rule::HardLinks, link(|raw| raw.inode = 5.into()));
    let sample_ = sample();
    let number = sample_.linked;
    expect_only(Rule::Inode, sample_.inode(number, |raw| raw.links = 4.into()));
    expect_only(Rule::Inode, sample().inode(number, |raw| raw.links = 1.into()));
}

#[test]
fn r29_implied() {
    let mut broken = sample().blob;
    broken.put::<4>(Section::Implied, 0, &1u32.to_le_bytes());
    expect_only(Rule::Implied, broken.sign());
    let sample_ = sample();
    let number = sample_.implied;
    expect_only(Rule::Implied, sample_.inode(number, |raw| raw.flags = 0.into()));
    // A directory without anything in it is hollow, one with something is not.
    let without = |raw: &mut RawInode| raw.flags = flags::IMPLIED.into();
    expect_only(Rule::Implied, sample().inode(number, without));
    let with = |raw: &mut RawInode| raw.flags = (flags::IMPLIED | flags::HOLLOW).into();
    let mut sample_ = sample();
    let is_full = |number: &u64| {
        let raw = sample_.blob.record::<72>(Section::Inodes, *number);
        RawInode::read_from_bytes(&raw).unwrap().count.get() > 400
    };
    let full = (0..500).find(is_full).unwrap();
    expect(Rule::Implied, sample_.inode(full, with));
}

#[test]
fn r30_blob_number() {
    let mut broken = sample();
    let first = sparse_extents(&mut broken);
    expect(Rule::BlobTable, broken.extent(first + 1, |raw| raw.blob = 1.into()));
}

#[test]
fn r31_back_references() {
    let sample_ = sample();
    let number = sample_.files[5];
    expect_only(Rule::BackReference, sample_.inode(number, |raw| raw.parent = 0.into()));
    expect_only(Rule::BackReference, sample().inode(number, |raw| raw.dentry = 0.into()));
}

#[test]
fn r32_tree() {
    // The root's names are not the first ones.
    expect_only(Rule::Tree, sample().inode(0, |raw| raw.start = 1.into()));
    // It has one less.
    let less = |raw: &mut RawInode| raw.count = (raw.count.get() - 1).into();
    expect(Rule::Tree, sample().inode(0, less));
    // A directory's link count.
    expect_only(Rule::Inode, sample().inode(0, |raw| raw.links = 9.into()));
    // Two names that change places, so that inodes are out of order.
    let mut broken = sample();
    let (block, slot) = (1, 3);
    let low = *broken.dentry_byte(block, slot, 0);
    *broken.dentry_byte(block, slot, 0) = low.wrapping_add(1);
    *broken.dentry_byte(block, slot + 1, 0) = low;
    expect(Rule::Tree, broken.blob.sign());
    // A directory with two names.
    let mut broken = sample();
    let many = (0..).find(|slot| *broken.dentry_byte(0, *slot, 6) == 2).unwrap();
    for plane in [0, 1, 2, 3, 6] {
        let byte = *broken.dentry_byte(0, many, plane);
        *broken.dentry_byte(0, many + 1, plane) = byte;
    }
    expect(Rule::Tree, broken.blob.sign());
}

#[test]
fn r33_totals() {
    let count = std::mem::size_of::<microfs::format::superblock::RawTotals>() / 8;
    for field in 0..count {
        let broken = sample().superblock(|raw| {
            use zerocopy::IntoBytes;
            let totals = <[U64]>::mut_from_bytes(raw.totals.as_mut_bytes()).unwrap();
            totals[field] = (totals[field].get() + 1).into();
        });
        expect_only(Rule::Totals, broken);
    }
    expect_only(Rule::Totals, sample().superblock(|raw| raw.content_codecs = 3.into()));
    expect_only(Rule::Totals, sample().superblock(|raw| raw.metadata_codecs = 3.into()));
    expect_only(Rule::Totals, sample().superblock(|raw| raw.xattr_known = 1.into()));
    expect_only(Rule::Totals, sample().superblock(|raw| raw.window_log = 20));
}

#[test]
fn r34_unaccounted_bytes() {
    let mut broken = sample().blob;
    let padding = broken.bytes.len() - 4096 - 1;
    assert_eq!(broken.bytes[padding], 0);
    broken.bytes[padding] = 1;
    expect_only(Rule::Unaccounted, broken.bytes);
    expect_only(Rule::Unaccounted, sample().superblock(|raw| raw.reserved[1] = 1));
    expect_only(Rule::Unaccounted, sample().superblock(|raw| raw.reserved2 = 1.into()));
    expect_only(Rule::Unaccounted, sample().superblock(|raw| raw.unused[3000] = 1));
    // Two blocks of the same bytes.
    let mut broken = sample().blob;
    let offset = broken.pointer(1).offset;
    broken.pointer(0).offset = offset;
    expect(Rule::Unaccounted, broken.sign());
    // Between strings of the heap: the one that follows starts with a block.
    let mut broken = sample().blob;
    let number = broken.section_block(Section::Heap, 0);
    *broken.block(number).last_mut().unwrap() = 1;
    expect_only(Rule::Unaccounted, broken.sign());
    // Bits that a later version may give a meaning are none of it.
    assert!(check(sample().superblock(|raw| raw.compatible = 1.into())).is_sound());
}

#[test]
fn r35_prologue() {
    for byte in [0, 9, 12, 15, 20] {
        let mut broken = sample().blob;
        broken.bytes[byte] ^= 1;
        expect_only(Rule::Prologue, broken.bytes);
    }
}

#[test]
fn every_rule_has_a_test() {
    // A new rule needs one above.
    assert_eq!(Rule::ALL.len(), 36);
}

#[test]
fn bytes_that_no_file_uses_are_counted() {
    let sample_ = sample();
    let number = sample_.packed;
    // A file of 13 bytes that uses but 12 of them.
    let report = check(sample_.inode(number, |raw| raw.size = 12.into()));
    assert_eq!(report.unused_bytes, 1);
    assert_eq!(rules(&report), [Rule::Totals]);
}

#[test]
fn stops_at_the_number_of_findings() {
    let mut broken = sample().blob;
    for block in 0..broken.superblock.block_count().unwrap() {
        broken.block(block)[0] ^= 1;
    }
    let options = CheckOptions { findings_max: 3 };
    let report = check_blob(Box::new(broken.bytes), &options, &pool(1), &Silent);
    assert_eq!(report.findings.len(), 3);
    assert!(report.is_cut);
}

/// A layer whose large file is in another blob.
fn refers_to_below() -> (Vec<u8>, Vec<u8>) {
    let mut builder = Builder::new(metadata(0o755, 0, 0, 0, 0));
    builder.file(NodeId::ROOT, b"file", metadata(0o644, 0, 0, 0, 0), &noise(1, 10_000));
    let below = builder.build(&plain_options());
    let mut builder = Builder::new(metadata(0o755, 0, 0, 0, 0));
    let data = vec![(4096, noise(2, 8192))];
    builder.sparse(NodeId::ROOT, b"file", metadata(0o644, 0, 0, 0, 0), 20_000, data);
    let mut above = Blob::new(builder.build(&plain_options()));
    above.change::<24, RawExtent>(Section::Extents, 1, |raw| {
        raw.blob = 1.into();
        raw.block = 0.into();
    });
    // There is room for a record of the blob table before the superblock.
    let record = BlobRecord {
        blob_sha256: DigestAlgorithm::Sha256.digest(&below),
        superblock_sha256: DigestAlgorithm::Sha256.digest(&below[below.len() - 4096..]),
        length: wide(below.len()),
    };
    let at = usize::try_from(above.superblock.blobs_offset).unwrap();
    use zerocopy::IntoBytes;
    above.bytes[at..at + 72].copy_from_slice(record.to_raw().as_bytes());
    above.raw_superblock().blob_count = 1.into();
    above.superblock.blob_count = 1;
    (below, above.sign())
}

fn open(blob: Vec<u8>, layer: u32, below: Vec<Arc<Image>>) -> Image {
    let cache = Arc::new(BlockCache::new(1 << 20));
    let mut image = Image::open(Box::new(blob), layer, cache).unwrap();
    image.attach(below).unwrap();
    image
}

#[test]
fn extents_into_other_blobs_are_followed() {
    let (below, above) = refers_to_below();
    let check = |above: Vec<u8>| {
        let image = open(above, 1, vec![Arc::new(open(below.clone(), 0, Vec::new()))]);
        check_image(&image, &CheckOptions::default(), &pool(1), &Silent)
    };
    let report = check(above.clone());
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!(report.unused_bytes, 8192);
    // The blob below has three blocks, of which the third is short.
    for (block, rule) in [(1, Rule::ExtentBlocks), (3, Rule::ExtentBlocks)] {
        let mut broken = Blob::new(above.clone());
        broken.change::<24, RawExtent>(Section::Extents, 1, |raw| raw.block = block.into());
        assert_eq!(rules(&check(broken.sign())), [rule], "block {block}");
    }
}

#[test]
fn links_to_lower_layers_are_resolved() {
    let lower = || {
        let mut builder = Builder::new(metadata(0o755, 0, 0, 0, 0));
        let directory = builder.directory(NodeId::ROOT, b"dir", metadata(0o755, 0, 0, 0, 0));
        builder.file(directory, b"file", metadata(0o644, 0, 0, 0, 0), b"x");
        builder.build(&plain_options())
    };
    let upper = |target: &[u8]| {
        let mut builder = Builder::new(metadata(0o755, 0, 0, 0, 0));
        builder.link_below(NodeId::ROOT, b"link", target);
        builder.whiteout(NodeId::ROOT, b"dir");
        builder.build(&plain_options())
    };
    let check = |target: &[u8]| {
        let stack = stack(vec![lower(), upper(target)]);
        check_stack(&stack, &CheckOptions::default(), &pool(1), &Silent)
    };
    let report = check(b"dir/file");
    assert!(report.is_sound(), "{:?}", report.findings);
    assert_eq!((report.layers, report.kinds[7]), (2, 1));
    let report = check(b"dir/other");
    let [finding] = report.findings.as_slice() else { panic!("{:?}", report.findings) };
    assert_eq!(finding.layer, 1);
    let Problem::Unreadable(ReadError::LinkUnresolved { target }) = &finding.problem else {
        panic!("{finding:?}");
    };
    assert_eq!(target, b"dir/other");
    assert_eq!(check(b"dir").findings.len(), 1, "a link to a directory");
}

#[test]
fn every_flipped_byte_is_found() {
    let mut builder = Builder::new(metadata(0o755, 0, 0, 0, 0));
    let plain = metadata(0o644, 1, 2, 3, 4);
    let with = builder.xattrs(plain, &[("user.a", b"1")]);
    let file = builder.file(NodeId::ROOT, b"file", with, &b"some text ".repeat(60));
    builder.link(NodeId::ROOT, b"link", file);
    builder.symlink(NodeId::ROOT, b"symlink", plain, b"file");
    builder.sparse(NodeId::ROOT, b"sparse", plain, 9000, vec![(4096, noise(1, 600))]);
    let options = Options { block_log: 9, metadata_log: 12, ..Options::default() };
    let bytes = builder.build(&options);
    let pool = pool(1);
    let sound = check_blob(Box::new(bytes.clone()), &CheckOptions::default(), &pool, &Silent);
    assert!(sound.is_sound(), "{:?}", sound.findings);
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let report = check_blob(Box::new(flipped), &CheckOptions::default(), &pool, &Silent);
        assert!(!report.is_sound(), "byte {at} of {}", bytes.len());
    }
}
