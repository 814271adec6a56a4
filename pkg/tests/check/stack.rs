//! Layers that refer to what is below them.

use std::sync::Arc;

use microfs::ReadError;
use microfs::check::{CheckOptions, Problem, Silent, check_image, check_stack};
use microfs::format::blob_table::BlobRecord;
use microfs::format::extent::RawExtent;
use microfs::format::section::Section;
use microfs::format::{DigestAlgorithm, Rule, wide};
use microfs::reader::{BlockCache, Image};
use microfs::tree::NodeId;
use zerocopy::IntoBytes;

use crate::rules;
use crate::support::blob::Blob;
use crate::support::{Builder, metadata, noise, plain_options, pool, stack};

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
