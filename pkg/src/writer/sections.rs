//! Fixed-size records into the metadata blocks of a section.

use std::io::Write;

use zerocopy::{Immutable, IntoBytes};

use super::blocks::BlockSink;
use super::error::WriteError;
use crate::compress::Compression;
use crate::format::{planes, wide};

/// Writes the sections of part 2 one after another.
pub struct SectionWriter<'a, W> {
    blocks: &'a mut BlockSink<W>,
    compression: Compression,
    size: usize,
    /// Blocks and records of the sections so far.
    pub spans: Vec<(u64, u64)>,
}

impl<'a, W: Write> SectionWriter<'a, W> {
    /// For metadata blocks of `size` bytes.
    pub fn new(blocks: &'a mut BlockSink<W>, compression: Compression, size: usize) -> Self {
        Self { blocks, compression, size, spans: Vec::new() }
    }

    /// Bytes of a full block.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Queues one block of the section that is being written.
    pub fn block(&mut self, plain: Vec<u8>) -> Result<(), WriteError> {
        let number = self.blocks.reserve();
        self.blocks.push(number, plain, self.compression)
    }

    /// Writes a whole section of records, one block of them in memory at a time.
    pub fn records<const N: usize, R>(
        &mut self,
        records: impl Iterator<Item = Result<R, WriteError>>,
    ) -> Result<(), WriteError>
    where
        R: IntoBytes + Immutable,
    {
        let capacity = self.size.checked_div(N).unwrap_or(1).max(1);
        let mut batch: Vec<[u8; N]> = Vec::with_capacity(capacity);
        let (mut blocks, mut count) = (0u64, 0u64);
        for record in records {
            let mut bytes = [0; N];
            bytes.copy_from_slice(record?.as_bytes());
            batch.push(bytes);
            if batch.len() == capacity {
                self.batch(&mut batch, &mut blocks, &mut count)?;
            }
        }
        self.batch(&mut batch, &mut blocks, &mut count)?;
        self.spans.push((blocks, count));
        Ok(())
    }

    fn batch<const N: usize>(
        &mut self,
        batch: &mut Vec<[u8; N]>,
        blocks: &mut u64,
        count: &mut u64,
    ) -> Result<(), WriteError> {
        if batch.is_empty() {
            return Ok(());
        }
        *blocks = blocks.saturating_add(1);
        *count = count.saturating_add(wide(batch.len()));
        let mut plain = Vec::new();
        planes::scatter(batch, &mut plain);
        batch.clear();
        self.block(plain)
    }

    /// Writes the heap.
    pub fn heap(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        let mut blocks = 0u64;
        for chunk in bytes.chunks(self.size) {
            blocks = blocks.saturating_add(1);
            self.block(chunk.to_vec())?;
        }
        self.spans.push((blocks, wide(bytes.len())));
        Ok(())
    }
}
