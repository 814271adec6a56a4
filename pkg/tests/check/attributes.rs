//! Extended attributes and the heap.

use microfs::format::Rule;
use microfs::format::section::Section;
use microfs::format::xattr::{RawXattrEntry, RawXattrName, RawXattrSet};
use microfs::tree::NodeId;

use crate::sample::sample;
use crate::support::blob::Blob;
use crate::support::{Builder, metadata, plain_options};
use crate::{expect, expect_only};

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
