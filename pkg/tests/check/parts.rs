//! Superblock, block pointers, blocks, and bytes between them.

use microfs::ReadError;
use microfs::check::Problem;
use microfs::format::section::Section;
use microfs::format::superblock::RawTotals;
use microfs::format::{Codec, Rule};
use microfs::tree::NodeId;
use microfs::writer::Options;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, IntoBytes};

use crate::sample::{build, sample};
use crate::support::blob::Blob;
use crate::support::{Builder, metadata, plain_options};
use crate::{check, expect, expect_only};

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
fn r33_totals() {
    let count = std::mem::size_of::<RawTotals>() / 8;
    for field in 0..count {
        let broken = sample().superblock(|raw| {
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
