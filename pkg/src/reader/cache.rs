//! The block cache: bounded in bytes, sharded, one load for many waiters.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::ReadError;
use crate::format::{index64, wide};

/// A verified, decoded block, or a verified page of block pointers.
pub type Block = Arc<Vec<u8>>;

/// What is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// A block of a layer, by number.
    Block(u32, u64),
    /// A page of block pointers of a layer, by number.
    Page(u32, u64),
}

impl Key {
    fn mix(self) -> u64 {
        let (layer, number, salt) = match self {
            Self::Block(layer, number) => (layer, number, 0),
            Self::Page(layer, number) => (layer, number, 0x5851_f42d_4c95_7f2d),
        };
        let key = (u64::from(layer) << 48) ^ number ^ salt;
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_right(29)
    }
}

type Cell = Arc<OnceLock<Result<Block, ReadError>>>;

#[derive(Debug)]
struct Entry {
    cell: Cell,
    size: u64,
    used: AtomicBool,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<Key, Entry>,
    clock: VecDeque<Key>,
    bytes: u64,
}

impl Shard {
    /// Drops entries until `size` more bytes fit into `budget`: second chance
    /// for what was used since the hand last passed.
    fn make_room(&mut self, size: u64, budget: u64) {
        while self.bytes.saturating_add(size) > budget {
            let Some(key) = self.clock.pop_front() else { return };
            let used =
                self.entries.get(&key).map(|entry| entry.used.swap(false, Ordering::Relaxed));
            match used {
                Some(true) => self.clock.push_back(key),
                Some(false) => self.remove(&key),
                None => {}
            }
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes = self.bytes.saturating_sub(entry.size);
        }
    }
}

/// Counts of what the cache did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CacheCounts {
    /// Requests answered from the cache.
    pub hits: u64,
    /// Requests that loaded.
    pub misses: u64,
    /// Blocks that were read, verified and decoded, cached or not.
    pub blocks: u64,
    /// Their bytes as stored.
    pub stored_bytes: u64,
    /// Their plain bytes.
    pub plain_bytes: u64,
}

/// A cache of at most `budget` bytes, shared by all layers of a stack.
#[derive(Debug)]
pub struct BlockCache {
    shards: Vec<Mutex<Shard>>,
    shard_budget: u64,
    hits: AtomicU64,
    misses: AtomicU64,
    blocks: AtomicU64,
    stored_bytes: AtomicU64,
    plain_bytes: AtomicU64,
}

const SHARDS: u64 = 16;

impl BlockCache {
    /// A cache of so many bytes of blocks; bookkeeping comes on top, about 150 bytes a block.
    #[must_use]
    pub fn new(budget: u64) -> Self {
        // A shard must hold at least one block of the largest size.
        let shards = (budget >> 20).clamp(1, SHARDS);
        Self {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            shard_budget: budget.checked_div(shards).unwrap_or(budget),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            stored_bytes: AtomicU64::new(0),
            plain_bytes: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: Key) -> Option<MutexGuard<'_, Shard>> {
        let number = key.mix().checked_rem(wide(self.shards.len()))?;
        let shard = self.shards.get(index64(number))?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The block if it is in the cache and loaded.
    #[must_use]
    pub fn peek(&self, key: Key) -> Option<Block> {
        let shard = self.shard(key)?;
        let entry = shard.entries.get(&key)?;
        let block = entry.cell.get()?.as_ref().ok()?;
        entry.used.store(true, Ordering::Relaxed);
        self.hits.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(block))
    }

    /// The block from the cache, or else from `load`, which is called once
    /// however many threads ask; `size` is its length in bytes. A failed load
    /// is told to all who wait and not remembered.
    ///
    /// # Errors
    /// What `load` returns.
    pub fn fetch(
        &self,
        key: Key,
        size: u64,
        load: impl FnOnce() -> Result<Vec<u8>, ReadError>,
    ) -> Result<Block, ReadError> {
        if size > self.shard_budget {
            self.misses.fetch_add(1, Ordering::Relaxed);
            return load().map(Arc::new);
        }
        let Some(cell) = self.cell(key, size) else { return load().map(Arc::new) };
        let mut loaded = false;
        let result = cell.get_or_init(|| {
            loaded = true;
            load().map(Arc::new)
        });
        let count = if loaded { &self.misses } else { &self.hits };
        count.fetch_add(1, Ordering::Relaxed);
        if loaded && result.is_err() {
            self.forget(key, &cell);
        }
        result.clone()
    }

    fn cell(&self, key: Key, size: u64) -> Option<Cell> {
        let mut shard = self.shard(key)?;
        if let Some(entry) = shard.entries.get(&key) {
            entry.used.store(true, Ordering::Relaxed);
            return Some(Arc::clone(&entry.cell));
        }
        shard.make_room(size, self.shard_budget);
        let cell = Cell::default();
        let entry = Entry { cell: Arc::clone(&cell), size, used: AtomicBool::new(false) };
        shard.entries.insert(key, entry);
        shard.clock.push_back(key);
        shard.bytes = shard.bytes.saturating_add(size);
        Some(cell)
    }

    fn forget(&self, key: Key, cell: &Cell) {
        let Some(mut shard) = self.shard(key) else { return };
        if shard.entries.get(&key).is_some_and(|entry| Arc::ptr_eq(&entry.cell, cell)) {
            shard.remove(&key);
            shard.clock.retain(|other| *other != key);
        }
    }

    /// Counts a block that was decoded.
    pub(super) fn count_block(&self, stored: u32, plain: u32) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        self.stored_bytes.fetch_add(stored.into(), Ordering::Relaxed);
        self.plain_bytes.fetch_add(plain.into(), Ordering::Relaxed);
    }

    /// What the cache did so far.
    #[must_use]
    pub fn counts(&self) -> CacheCounts {
        CacheCounts {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            blocks: self.blocks.load(Ordering::Relaxed),
            stored_bytes: self.stored_bytes.load(Ordering::Relaxed),
            plain_bytes: self.plain_bytes.load(Ordering::Relaxed),
        }
    }

    /// Bytes of blocks held now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let shards = self.shards.iter();
        let held = shards.map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).bytes);
        held.fold(0, u64::saturating_add)
    }
}
