//! Writing a layer: content first, then metadata, in one pass over the sink.
//!
//! [`ContentWriter`] takes file content in the order in which it is to lie in
//! the blob; [`ContentWriter::finish`] takes the [`ValidTree`](crate::tree::ValidTree)
//! and writes inodes, dentries, block pointers and the superblock. Nothing is
//! written twice and nothing is sought, so a hash over the sink is the blob's
//! digest and a torn file has no superblock.

use std::sync::Arc;

use zerocopy::IntoBytes;

use crate::compress::Compression;
use crate::format::prologue::{MAGIC, RawPrologue, TEXT};
use crate::format::{BLOCK_LOG, DigestAlgorithm, METADATA_LOG, VERSION};
use crate::tree::{Metadata, Tree};

pub use self::base::{Base, BaseBlob, BasePlace};
pub use self::content::{
    Content, ContentWriter, Contents, DedupCounts, ReadFile, ReadPiece, Segment,
};
pub use self::error::{SourceError, WriteError};
pub use self::finish::Summary;

mod base;
mod blocks;
mod content;
mod dentries;
mod error;
mod finish;
mod heap;
mod ordered;
mod sections;
mod xattrs;

#[cfg(test)]
mod tests;

/// What decides a layer's bytes, beside its input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Base-2 logarithm of the content block size, 9 to 20.
    pub block_log: u8,
    /// Base-2 logarithm of the metadata block size, 12 to 16.
    pub metadata_log: u8,
    /// How content blocks are compressed.
    pub compression: Compression,
    /// How digests inside the blob are made.
    pub digest: DigestAlgorithm,
    /// Whether equal content is stored once.
    pub dedup: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            block_log: 17,
            metadata_log: 15,
            compression: Compression::default(),
            digest: DigestAlgorithm::default(),
            dedup: true,
        }
    }
}

/// A layer that holds nothing but an empty root directory: root's, 0755, at 1970.
///
/// # Errors
/// [`WriteError::WorkerLost`] when no thread can be started; no other in practice.
pub fn empty_layer() -> Result<Vec<u8>, WriteError> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let pool = Arc::new(pool.map_err(|_| WriteError::WorkerLost)?);
    let root = Metadata { permissions: 0o755, ..Metadata::default() };
    let writer = ContentWriter::new(Vec::new(), Options::default(), pool, Arc::new(Silent))?;
    let (blob, _) = writer.finish(&Tree::new(root).validate()?)?;
    Ok(blob)
}

/// Hears how far the work is. Called from one thread at a time, often.
pub trait Progress: Send + Sync {
    /// So many more bytes of content were taken in.
    fn bytes(&self, more: u64);
}

/// For those who do not want to hear.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn bytes(&self, _more: u64) {}
}

impl Options {
    /// Content block size in bytes.
    #[must_use]
    pub fn block_size(&self) -> usize {
        1usize.checked_shl(u32::from(self.block_log)).unwrap_or(usize::MAX)
    }

    /// Metadata block size in bytes.
    #[must_use]
    pub fn metadata_size(&self) -> usize {
        1usize.checked_shl(u32::from(self.metadata_log)).unwrap_or(usize::MAX)
    }

    fn check(&self) -> Result<(), WriteError> {
        let bad = |option, value| Err(WriteError::Option { option, value });
        if !BLOCK_LOG.contains(&self.block_log) {
            return bad("base-2 logarithm of the block size", i64::from(self.block_log));
        }
        if !METADATA_LOG.contains(&self.metadata_log) {
            let option = "base-2 logarithm of the metadata block size";
            return bad(option, i64::from(self.metadata_log));
        }
        match self.compression {
            Compression::Zstd(level) if !(1..=22).contains(&level) => {
                bad("zstd level", i64::from(level))
            }
            _ => Ok(()),
        }
    }

    /// Metadata is small and read often: never below level 9.
    fn metadata_compression(&self) -> Compression {
        match self.compression {
            Compression::None => Compression::None,
            Compression::Zstd(level) => Compression::Zstd(level.max(9)),
        }
    }

    fn prologue(&self) -> Vec<u8> {
        let raw = RawPrologue {
            magic: MAGIC,
            version: VERSION.into(),
            block_log: self.block_log,
            metadata_log: self.metadata_log,
            digest_algorithm: self.digest.code(),
            reserved: 0,
            text: TEXT,
        };
        raw.as_bytes().to_vec()
    }
}

/// Name and version of what decides the bytes: this library and libzstd.
#[must_use]
pub fn encoder() -> String {
    let (major, minor, patch) = zstd_version();
    format!("microfs {} zstd {major}.{minor}.{patch}", env!("CARGO_PKG_VERSION"))
}

fn zstd_version() -> (u32, u32, u32) {
    let number = zstd::zstd_safe::version_number();
    (number / 10_000, number / 100 % 100, number % 100)
}
