//! Where a file's bytes are.

use microfs::format::Rule;
use microfs::format::extent::RawExtent;
use microfs::format::inode::RawInode;
use microfs::format::section::Section;
use zerocopy::FromBytes;

use crate::sample::{Sample, sample};
use crate::{expect, expect_only};

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
fn r30_blob_number() {
    let mut broken = sample();
    let first = sparse_extents(&mut broken);
    expect(Rule::BlobTable, broken.extent(first + 1, |raw| raw.blob = 1.into()));
}
