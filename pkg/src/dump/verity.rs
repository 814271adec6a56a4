//! fs-verity digests (Linux, `Documentation/filesystems/fsverity.rst`): SHA-256,
//! blocks of 4096 bytes, no salt.

use sha2::{Digest as _, Sha256};

/// Bytes of a data block and of a block of the Merkle tree.
const BLOCK: usize = 4096;
/// Digests in a block of the Merkle tree.
const FAN_OUT: u64 = 128;

/// The fs-verity digest of a file, from its bytes in order. A hole costs a
/// logarithm of its length. Memory: a block for each level of the tree.
#[derive(Debug, Clone, Default)]
pub struct Verity {
    size: u64,
    /// The data block begun.
    partial: Vec<u8>,
    /// Digests of each level that fill no block yet.
    levels: Vec<Vec<u8>>,
}

impl Verity {
    /// Of a file whose first byte is still to come.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next bytes.
    pub fn data(&mut self, mut bytes: &[u8]) {
        self.size = self.size.saturating_add(crate::format::wide(bytes.len()));
        while !bytes.is_empty() {
            let room = BLOCK.saturating_sub(self.partial.len()).min(bytes.len());
            let (now, later) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            self.partial.extend_from_slice(now);
            bytes = later;
            self.close_full();
        }
    }

    /// The next `count` bytes, all zero.
    pub fn zeros(&mut self, count: u64) {
        const WIDE: u64 = 4096;
        let room = crate::format::wide(BLOCK.saturating_sub(self.partial.len()));
        let mut left = count;
        if room < WIDE {
            let fill = left.min(room);
            self.data(&vec![0; crate::format::index64(fill)]);
            left = left.saturating_sub(fill);
        }
        let blocks = left / WIDE;
        if blocks > 0 {
            self.size = self.size.saturating_add(blocks.saturating_mul(WIDE));
            self.push(0, Sha256::digest([0; BLOCK]).into(), blocks);
        }
        self.data(&vec![0; crate::format::index64(left % WIDE)]);
    }

    fn close_full(&mut self) {
        if self.partial.len() == BLOCK {
            let digest = Sha256::digest(&self.partial).into();
            self.partial.clear();
            self.push(0, digest, 1);
        }
    }

    /// Adds a digest `count` times to a level.
    fn push(&mut self, level: usize, digest: [u8; 32], count: u64) {
        if self.levels.len() <= level {
            self.levels.resize(level.saturating_add(1), Vec::new());
        }
        let mut left = count;
        while let (1.., Some(nodes)) = (left, self.levels.get_mut(level)) {
            let above = if nodes.is_empty() && left >= FAN_OUT {
                let times = left / FAN_OUT;
                left %= FAN_OUT;
                Some((Sha256::digest(digest.repeat(BLOCK / 32)).into(), times))
            } else {
                nodes.extend_from_slice(&digest);
                left = left.saturating_sub(1);
                let full = nodes.len() == BLOCK;
                full.then(|| {
                    let block = std::mem::take(nodes);
                    (Sha256::digest(block).into(), 1)
                })
            };
            if let Some((digest, times)) = above {
                self.push(level.saturating_add(1), digest, times);
            }
        }
    }

    fn root(&mut self) -> [u8; 32] {
        if !self.partial.is_empty() {
            self.partial.resize(BLOCK, 0);
            self.close_full();
        }
        let mut level = 0;
        // The tree ends at the level that holds a single digest.
        while level < self.levels.len() {
            let is_top = level.saturating_add(1) == self.levels.len();
            let Some(nodes) = self.levels.get_mut(level) else { break };
            if is_top && let Ok(root) = <[u8; 32]>::try_from(nodes.as_slice()) {
                return root;
            }
            if !nodes.is_empty() {
                nodes.resize(BLOCK, 0);
                let block = std::mem::take(nodes);
                self.push(level.saturating_add(1), Sha256::digest(block).into(), 1);
            }
            level = level.saturating_add(1);
        }
        // Only an empty file has no data block.
        [0; 32]
    }

    /// The digest that `fsverity digest` prints.
    #[must_use]
    pub fn finish(mut self) -> [u8; 32] {
        let root = self.root();
        // struct fsverity_descriptor: version 1, SHA-256, log2 of the block
        // size, no salt, no signature, size, root; the rest zero.
        let mut descriptor = vec![1, 1, 12, 0, 0, 0, 0, 0];
        descriptor.extend_from_slice(&self.size.to_le_bytes());
        descriptor.extend_from_slice(&root);
        descriptor.resize(256, 0);
        Sha256::digest(descriptor).into()
    }
}
