//! Inodes, names, and how they form a tree.

use microfs::FileType;
use microfs::format::Rule;
use microfs::format::dentry::RawHardLink;
use microfs::format::inode::{RawInode, flags};
use microfs::format::section::Section;
use zerocopy::FromBytes;

use crate::sample::sample;
use crate::{expect, expect_only};

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
