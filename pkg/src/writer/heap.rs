//! The heap: strings of any length in blocks.

use crate::format::wide;

/// The heap under construction.
#[derive(Debug)]
pub struct Heap {
    bytes: Vec<u8>,
    block: usize,
}

impl Heap {
    /// An empty heap in blocks of `block` bytes.
    pub fn new(block: usize) -> Self {
        Self { bytes: Vec::new(), block }
    }

    /// Adds a string and returns its position. One that fits into a block
    /// never straddles two; a longer one starts with a block.
    pub fn add(&mut self, string: &[u8]) -> u64 {
        if string.is_empty() {
            return 0;
        }
        let used = self.bytes.len().checked_rem(self.block).unwrap_or(0);
        if used > 0 && used.saturating_add(string.len()) > self.block {
            let padded = self.bytes.len().saturating_add(self.block.saturating_sub(used));
            self.bytes.resize(padded, 0);
        }
        let position = wide(self.bytes.len());
        self.bytes.extend_from_slice(string);
        position
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
