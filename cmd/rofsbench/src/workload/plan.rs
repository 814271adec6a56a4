//! What is read in which order: the same for every system and every round.

use std::ffi::CString;

use anyhow::{Context, Result};

use super::list::{RANDOM_READS, SPARSE_FILES};
use crate::cli::Options;
use crate::corpus::manifest::Manifest;
use crate::random::Random;

/// Bytes of one request of `rand4k`.
pub const PAGE: u64 = 4096;
/// Most bytes of a file that counts as small.
const SMALL: u64 = 16 << 10;

/// A regular file of at least one byte.
pub struct File {
    /// Relative to the mount.
    pub path: CString,
    /// Bytes.
    pub size: u64,
    /// Numbers of its blocks in random order.
    pub blocks: Vec<u32>,
}

/// Orders of files, as indices into `files`.
pub struct Plan {
    pub files: Vec<File>,
    /// As in the manifest.
    pub in_order: Vec<usize>,
    pub shuffled: Vec<usize>,
    /// Small ones at random.
    pub sparse: Vec<usize>,
    /// The largest.
    pub largest: usize,
    /// Offsets in the largest file.
    pub offsets: Vec<u64>,
    /// Bytes of one request of tests 3, 5, 7 and 8.
    pub block: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Names in the tree that are neither directories nor its root.
    pub names: u64,
}

impl Plan {
    /// For a corpus that has a file of at least one byte.
    pub fn new(manifest: &Manifest, options: &Options) -> Result<Self> {
        let block = options.read_block.unwrap_or(options.block_size);
        let mut random = Random::named(options.seed, "blocks");
        let mut files = Vec::new();
        for (entry, size) in manifest.files() {
            let count = u32::try_from(size.div_ceil(block)).context("too many blocks")?;
            let mut blocks: Vec<u32> = (0..count).collect();
            random.shuffle(&mut blocks);
            files.push(File { path: CString::new(entry.path.clone())?, size, blocks });
        }
        let in_order: Vec<usize> = (0..files.len()).collect();
        let mut shuffled = in_order.clone();
        Random::named(options.seed, "files").shuffle(&mut shuffled);
        let mut sparse: Vec<usize> = shuffled.clone();
        sparse.retain(|index| files.get(*index).is_some_and(|file| file.size <= SMALL));
        sparse.truncate(SPARSE_FILES);
        let (largest, largest_size) = files
            .iter()
            .enumerate()
            .map(|(index, file)| (index, file.size))
            .max_by_key(|(_, size)| *size)
            .context("no file to read")?;
        let mut random = Random::named(options.seed, "offsets");
        let pages = largest_size.div_ceil(PAGE);
        let offsets = (0..RANDOM_READS).map(|_| random.below(pages) * PAGE).collect();
        let is_name = |entry: &&crate::corpus::manifest::Entry| {
            entry.content != crate::corpus::manifest::Content::Directory
        };
        Ok(Self {
            bytes: files.iter().map(|file| file.size).sum(),
            names: manifest.entries.iter().filter(is_name).count() as u64,
            files,
            in_order,
            shuffled,
            sparse,
            largest,
            offsets,
            block,
        })
    }

    /// The files of an order.
    pub fn pick<'a>(&'a self, order: &'a [usize]) -> impl Iterator<Item = &'a File> {
        order.iter().filter_map(|index| self.files.get(*index))
    }
}
