//! Every block: pointer, digest, data, frame.

use rayon::ThreadPool;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use super::super::Image;
use super::{Checker, Progress};
use crate::compress;
use crate::error::ReadError;
use crate::format::block_pointer::BlockPointer;
use crate::format::{Codec, Place, Rule, index, wide};

/// Pages of block pointers between two looks at the number of findings.
const BATCH: u64 = 64;

/// What all blocks come to.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// Offset and length of the stored bytes of each.
    pub spans: Vec<(u64, u64)>,
    /// Content blocks that are not full, ascending.
    pub short: Vec<u64>,
    /// Sums over them.
    pub sums: BlockSums,
}

/// Sums over all blocks. They saturate.
#[derive(Debug, Default)]
pub(super) struct BlockSums {
    pub content_plain: u64,
    pub content_stored: u64,
    pub content_codecs: u32,
    pub metadata_plain: u64,
    pub metadata_stored: u64,
    pub metadata_codecs: u32,
    /// Largest zstd window in bytes.
    pub window: u64,
}

/// A block whose pointer is right.
struct Fact {
    number: u64,
    pointer: BlockPointer,
    window: u64,
}

#[derive(Default)]
struct Page {
    facts: Vec<Fact>,
    errors: Vec<ReadError>,
}

impl Checker<'_> {
    /// Rules 11 to 15 and 36.
    pub(super) fn blocks(&mut self, pool: &ThreadPool, progress: &dyn Progress) -> Blocks {
        let image = self.image;
        let superblock = &image.superblock;
        self.report.blob_bytes = superblock.blob_length;
        let pages = superblock.page_count().unwrap_or(0);
        let mut blocks = Blocks::default();
        let mut first = 0;
        while first < pages && !self.findings.is_full() {
            let last = first.saturating_add(BATCH).min(pages);
            let checked: Vec<Page> = pool.install(|| {
                let batch = (first..last).into_par_iter();
                batch.map(|page| check_page(image, page, progress)).collect()
            });
            for page in checked {
                for error in page.errors {
                    self.incomplete = true;
                    self.findings.error(error);
                }
                for fact in page.facts {
                    self.block(&fact, &mut blocks);
                }
            }
            first = last;
        }
        blocks
    }

    fn block(&mut self, fact: &Fact, blocks: &mut Blocks) {
        let superblock = &self.image.superblock;
        let is_content = fact.number < superblock.content_blocks;
        let BlockPointer { offset, stored_length, plain_length, codec, .. } = fact.pointer;
        let (plain, stored) = (u64::from(plain_length), u64::from(stored_length));
        let sums = &mut blocks.sums;
        let (plain_sum, stored_sum, codecs) = if is_content {
            (&mut sums.content_plain, &mut sums.content_stored, &mut sums.content_codecs)
        } else {
            (&mut sums.metadata_plain, &mut sums.metadata_stored, &mut sums.metadata_codecs)
        };
        *plain_sum = plain_sum.saturating_add(plain);
        *stored_sum = stored_sum.saturating_add(stored);
        *codecs |= codec.bit();
        sums.window = sums.window.max(fact.window);
        blocks.spans.push((offset, stored));
        if is_content && plain_length < superblock.block_size() {
            blocks.short.push(fact.number);
        }
        self.report.count_block(codec, is_content, plain, stored);
    }
}

fn check_page(image: &Image, page: u64, progress: &dyn Progress) -> Page {
    let mut found = Page::default();
    if let Err(error) = image.page(page) {
        found.errors.push(error);
        return found;
    }
    let superblock = &image.superblock;
    let per_page = 1u64.checked_shl(u32::from(superblock.page_log)).unwrap_or(1);
    let first = page.saturating_mul(per_page);
    let last = first.saturating_add(per_page).min(superblock.block_count().unwrap_or(0));
    let mut plain = Vec::new();
    for number in first..last {
        match image.block_pointer(number) {
            Ok(pointer) => {
                let checked = check_block(image, number, &mut plain, &mut found.errors);
                let window = checked.unwrap_or_else(|error| {
                    found.errors.push(error);
                    0
                });
                found.facts.push(Fact { number, pointer, window });
                progress.bytes(u64::from(pointer.stored_length));
            }
            Err(error) => found.errors.push(error),
        }
    }
    found
}

/// Returns the size of the block's window, 0 when it is no zstd frame.
fn check_block(
    image: &Image,
    number: u64,
    plain: &mut Vec<u8>,
    errors: &mut Vec<ReadError>,
) -> Result<u64, ReadError> {
    let place = Place::Block(number);
    let (pointer, stored) = image.stored_block(number)?;
    let plain_length = u64::from(pointer.plain_length);
    if let Some(metadata) = number.checked_sub(image.superblock.content_blocks) {
        let expected = image.superblock.sections.plain_length(metadata);
        if expected.is_some_and(|length| length != plain_length) {
            errors.push(image.corrupt(Rule::MetadataBlock, place));
        }
    }
    let mut window = 0;
    if pointer.codec == Codec::Zstd {
        if compress::is_proper_frame(&stored, plain_length) {
            window = frame_window(&stored, plain_length);
        } else {
            // It is not decoded either.
            return Err(image.corrupt(Rule::Frame, place));
        }
    }
    plain.resize(index(pointer.plain_length), 0);
    match compress::decode(pointer.codec, &stored, plain) {
        Ok(()) => Ok(window),
        Err(compress::CodecError::Damaged) => Err(image.corrupt(Rule::BlockData, place)),
        Err(other) => {
            let cause = std::sync::Arc::new(other);
            Err(ReadError::Codec { layer: image.layer, block: number, cause })
        }
    }
}

/// Window of a proper frame in bytes (RFC 8878, 3.1.1.1.2).
fn frame_window(stored: &[u8], plain_length: u64) -> u64 {
    match (stored.get(4), stored.get(5)) {
        (Some(descriptor), Some(window)) if descriptor & 0x20 == 0 => {
            let exponent = u32::from(window >> 3).saturating_add(10);
            let base = 1u64.checked_shl(exponent).unwrap_or(u64::MAX);
            base.saturating_add((base >> 3).saturating_mul(u64::from(window & 7)))
        }
        _ => plain_length.max(wide(1)),
    }
}
