//! Every rule, broken on purpose.

#![allow(clippy::unwrap_used, clippy::panic)]

use microfs::check::{CheckOptions, CheckReport, Silent, check_blob};
use microfs::compress::Compression;
use microfs::format::Rule;
use microfs::tree::NodeId;
use microfs::writer::Options;

use sample::{build, sample};
use support::{Builder, metadata, noise, pool};

mod attributes;
mod extents;
mod names;
mod parts;
mod sample;
mod stack;
#[path = "../support/mod.rs"]
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
