//! Holding a whole layer to every rule of FORMAT.md.
//!
//! Reading verifies what it touches; this touches everything: each block is
//! read and decoded, each record looked at, each reference followed, each sum
//! made again and each byte of the blob accounted for.
//!
//! Memory: at most 32 bytes for each inode, dentry, extent, xattr entry and
//! block, and two blocks for each thread.

use std::sync::Arc;

use rayon::ThreadPool;

pub use self::findings::{Finding, Problem};
pub use self::report::{CheckReport, CodecCount};

use self::findings::Findings;
use super::{BlockCache, Image};
use crate::format::{Place, Rule};
use crate::source::ReadAt;

mod account;
mod blocks;
mod files;
mod findings;
mod heap;
mod inodes;
mod report;
mod shape;
mod totals;
mod tree;
mod xattrs;

/// How a layer is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckOptions {
    /// The check stops once it has found so many problems; at least 1.
    pub findings_max: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { findings_max: 100 }
    }
}

/// Hears how far the work is. Called from many threads, often.
pub trait Progress: Sync {
    /// So many more stored bytes were checked. In the end they are the bytes
    /// of all blocks, a little less than the blob's.
    fn bytes(&self, more: u64);
}

/// For those who do not want to hear.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn bytes(&self, _more: u64) {}
}

/// Bytes of decoded blocks that [`check_blob`] keeps.
const CACHE_BYTES: u64 = 32 << 20;

/// Opens a blob as layer 0 and checks it. A blob that cannot be opened is one
/// finding. Extents into other blobs are held to the blob table alone.
#[must_use]
pub fn check_blob(
    source: Box<dyn ReadAt>,
    options: &CheckOptions,
    pool: &ThreadPool,
    progress: &dyn Progress,
) -> CheckReport {
    match Image::open(source, 0, Arc::new(BlockCache::new(CACHE_BYTES))) {
        Ok(image) => check_image(&image, options, pool, progress),
        Err(error) => {
            let mut findings = Findings::new(0, options.findings_max);
            findings.error(error);
            let mut report = CheckReport::default();
            findings.end(&mut report);
            report
        }
    }
}

/// Checks one layer against every rule. Extents into other blobs are followed
/// when these were attached ([`Image::attach`]).
///
/// Rules 1 to 10 hold for anything that was opened, and what the blob table
/// says about blobs for anything that was attached.
#[must_use]
pub fn check_image(
    image: &Image,
    options: &CheckOptions,
    pool: &ThreadPool,
    progress: &dyn Progress,
) -> CheckReport {
    let mut checker = Checker {
        image,
        findings: Findings::new(image.layer, options.findings_max),
        report: CheckReport { layers: 1, ..CheckReport::default() },
        incomplete: false,
    };
    checker.run(pool, progress);
    let Checker { findings, mut report, .. } = checker;
    findings.end(&mut report);
    report
}

/// A check under way.
struct Checker<'a> {
    image: &'a Image,
    findings: Findings,
    report: CheckReport,
    /// Something could not be read or placed. What would only follow from
    /// that, as wrong sums do, is not looked for any more.
    incomplete: bool,
}

impl Checker<'_> {
    fn run(&mut self, pool: &ThreadPool, progress: &dyn Progress) {
        self.prologue();
        self.superblock();
        let blocks = self.blocks(pool, progress);
        if self.findings.is_full() {
            return;
        }
        self.account(blocks.spans);
        let mut shapes = self.shapes(blocks.short);
        let mut heap = heap::HeapUse::default();
        let xattrs = self.xattrs(&mut heap);
        let inodes = self.inodes(&mut shapes, &mut heap);
        if self.findings.is_full() {
            return;
        }
        self.heap_gaps(heap);
        self.dentry_blocks();
        let whiteouts = self.tree(&inodes);
        self.report.unused_bytes = shapes.unused(blocks.sums.content_plain);
        if !self.incomplete && !self.findings.is_full() {
            self.totals(&blocks.sums, &inodes, whiteouts, xattrs);
        }
    }

    /// Notes a broken rule after which sums and references mean nothing.
    fn spoil(&mut self, rule: Rule, place: Place) {
        self.incomplete = true;
        self.findings.broken(rule, place);
    }

    /// Takes the value or notes why there is none.
    fn read<T>(&mut self, result: Result<T, crate::error::ReadError>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.incomplete = true;
                self.findings.error(error);
                None
            }
        }
    }
}
