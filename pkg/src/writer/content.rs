//! Part 4: file content into blocks, with equal pieces stored once.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use rayon::ThreadPool;

use super::base::{Base, Below};
use super::blocks::BlockSink;
use super::error::{SourceError, WriteError};
use super::ordered::Ordered;
use super::{Options, Progress};
use crate::format::extent::{BlockSlice, Extent};
use crate::format::wide;
use crate::tree::NodeId;

/// Reads the bytes of a piece, on a worker thread.
pub type ReadPiece = Box<dyn FnOnce() -> Result<Vec<u8>, SourceError> + Send>;

/// Reads all of a small file, on a worker thread.
pub type ReadFile = Box<dyn FnOnce() -> Result<Vec<Segment>, SourceError> + Send>;

/// A run of data or a hole, reaching to the next one or the end of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// First byte in the file.
    pub offset: u64,
    /// The bytes, at most a content block; `None` for a hole.
    pub data: Option<Vec<u8>>,
}

/// Bytes of pieces that may be read ahead of the packer.
const READ_AHEAD: usize = 8 << 20;
/// What a piece weighs beside its bytes: bounds the number of small ones.
const PIECE_WEIGHT: usize = 8 << 10;

type Hashed = Result<Vec<(Segment, [u8; 32])>, SourceError>;

#[derive(Debug, Clone, Copy)]
struct Pending {
    node: NodeId,
    /// Bytes of data that were announced.
    expected: Option<usize>,
}

fn hash(segment: Segment) -> (Segment, [u8; 32]) {
    let bytes = segment.data.as_deref().unwrap_or_default();
    let hash = *blake3::hash(bytes).as_bytes();
    (segment, hash)
}

/// Where the content of one file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    /// Nothing was written.
    #[default]
    None,
    /// One slice from offset 0 on.
    Slice {
        /// Where it is.
        slice: BlockSlice,
        /// First byte of the file after it.
        end: u64,
    },
    /// These extents of [`Contents::extents`].
    Extents {
        /// The first.
        first: u32,
        /// How many.
        count: u32,
        /// First byte of the file after the last data; at most the offset of
        /// a hole that ends the file.
        end: u64,
    },
}

/// Where the content of every file is.
#[derive(Debug, Default)]
pub struct Contents {
    by_node: Vec<Content>,
    extents: Vec<Extent>,
}

impl Contents {
    /// The content of a node.
    #[must_use]
    pub fn of(&self, node: NodeId) -> Content {
        let slot = usize::try_from(node.0).ok();
        slot.and_then(|slot| self.by_node.get(slot)).copied().unwrap_or_default()
    }

    /// The extents of a node that has several, or one that is not a slice of
    /// this blob's blocks from offset 0.
    #[must_use]
    pub fn extents(&self, first: u32, count: u32) -> &[Extent] {
        let start = usize::try_from(first).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
        self.extents.get(start..end).unwrap_or_default()
    }

    /// Records the extents of a node, whose data end at `end`; the last call
    /// for a node counts.
    ///
    /// # Errors
    /// [`WriteError::TooMany`] extents.
    pub fn set(&mut self, node: NodeId, extents: &[Extent], end: u64) -> Result<(), WriteError> {
        let content = match extents {
            [] => Content::None,
            [Extent { file_offset: 0, data: Some(slice) }] if slice.blob == 0 => {
                Content::Slice { slice: *slice, end }
            }
            several => {
                let many = |_| WriteError::TooMany("extents");
                let first = u32::try_from(self.extents.len()).map_err(many)?;
                let count = u32::try_from(several.len()).map_err(many)?;
                self.extents.extend_from_slice(several);
                Content::Extents { first, count, end }
            }
        };
        let slot = usize::try_from(node.0).unwrap_or(usize::MAX);
        if self.by_node.len() <= slot {
            self.by_node.resize(slot.saturating_add(1), Content::None);
        }
        if let Some(entry) = self.by_node.get_mut(slot) {
            *entry = content;
        }
        Ok(())
    }
}

/// Counts of what deduplication saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DedupCounts {
    /// Pieces that were already stored.
    pub pieces: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The part of the bytes that layers below have.
    pub below: u64,
}

/// Takes file content piece by piece, in the order in which it is to lie in
/// the blob. Reading, hashing and compressing run on the pool; packing and
/// deduplication happen here, in order, so the blob is a pure function of the
/// pieces and the options.
pub struct ContentWriter<W> {
    pub(super) blocks: BlockSink<W>,
    pub(super) options: Options,
    progress: Arc<dyn Progress>,
    reading: Ordered<Pending, Hashed>,
    seen: HashMap<[u8; 32], BlockSlice>,
    pub(super) below: Below,
    /// The open packed block: its number and bytes.
    open: Option<(u64, Vec<u8>)>,
    current: Option<NodeId>,
    extents: Vec<Extent>,
    /// Where the next piece of `current` would lie if it went on in the same run.
    next: Option<BlockSlice>,
    /// First byte of `current` after its last data.
    end: u64,
    pub(super) contents: Contents,
    dedup: DedupCounts,
}

impl<W: Write> ContentWriter<W> {
    /// Writes the prologue and waits for pieces.
    ///
    /// # Errors
    /// [`WriteError::Option`], [`WriteError::Sink`].
    pub fn new(
        sink: W,
        options: Options,
        pool: Arc<ThreadPool>,
        progress: Arc<dyn Progress>,
    ) -> Result<Self, WriteError> {
        options.check()?;
        let block_size = options.block_size();
        let threads = pool.current_num_threads().max(1);
        // Enough blocks in flight to keep every worker busy.
        let in_flight = threads.saturating_mul(3 * block_size.max(128 << 10));
        let reading = Ordered::new(Arc::clone(&pool), READ_AHEAD);
        let mut blocks = BlockSink::new(sink, pool, options.digest, in_flight);
        blocks.write(&options.prologue())?;
        Ok(Self {
            blocks,
            options,
            progress,
            reading,
            seen: HashMap::new(),
            below: Below::default(),
            open: None,
            current: None,
            extents: Vec::new(),
            next: None,
            end: 0,
            contents: Contents::default(),
            dedup: DedupCounts::default(),
        })
    }

    /// Lets the layer refer to content of layers below, unless deduplication is off.
    #[must_use]
    pub fn on(mut self, base: Base) -> Self {
        self.below = Below::new(base);
        self
    }

    /// Largest piece: one content block, in bytes.
    #[must_use]
    pub fn piece_max(&self) -> usize {
        self.options.block_size()
    }

    /// Queues `length` bytes (1 to [`ContentWriter::piece_max`]) of a file,
    /// which `read` will return. All pieces and holes of a file are given in
    /// order of `offset` and together; all but the last of a run of data are of
    /// the largest length.
    ///
    /// # Errors
    /// Any [`WriteError`] of this or an earlier piece.
    pub fn piece(
        &mut self,
        node: NodeId,
        offset: u64,
        length: usize,
        read: ReadPiece,
    ) -> Result<(), WriteError> {
        while self.reading.is_full() {
            self.take_oldest()?;
        }
        let pending = Pending { node, expected: Some(length) };
        self.reading.submit(pending, length.saturating_add(PIECE_WEIGHT), move || {
            Ok(vec![hash(Segment { offset, data: Some(read()?) })])
        });
        Ok(())
    }

    /// Queues all of a file of at most [`ContentWriter::piece_max`] bytes:
    /// `read` returns its runs and holes in order.
    ///
    /// # Errors
    /// Any [`WriteError`] of this or an earlier piece.
    pub fn small_file(
        &mut self,
        node: NodeId,
        size: usize,
        read: ReadFile,
    ) -> Result<(), WriteError> {
        while self.reading.is_full() {
            self.take_oldest()?;
        }
        let pending = Pending { node, expected: None };
        self.reading.submit(pending, size.saturating_add(PIECE_WEIGHT), move || {
            Ok(read()?.into_iter().map(hash).collect())
        });
        Ok(())
    }

    /// Records a hole from `offset` to the next piece or the end of the file.
    pub fn hole(&mut self, node: NodeId, offset: u64) {
        let pending = Pending { node, expected: None };
        let hole = Segment { offset, data: None };
        self.reading.submit_ready(pending, Ok(vec![(hole, [0; 32])]));
    }

    fn take_oldest(&mut self) -> Result<bool, WriteError> {
        let Some(result) = self.reading.pop() else { return Ok(false) };
        let (pending, hashed) = result.map_err(|_| WriteError::WorkerLost)?;
        if self.current != Some(pending.node) {
            self.close_file()?;
            self.current = Some(pending.node);
        }
        for (segment, hash) in hashed.map_err(WriteError::Source)? {
            let Some(bytes) = segment.data else {
                self.add_hole(segment.offset);
                continue;
            };
            let got = bytes.len();
            let expected = pending.expected.unwrap_or(got);
            if got != expected || got == 0 || got > self.piece_max() {
                return Err(WriteError::LengthMismatch { expected, got });
            }
            self.progress.bytes(wide(got));
            self.end = segment.offset.saturating_add(wide(got));
            let slice = self.place(bytes, hash)?;
            if self.next != Some(slice) {
                let extent = Extent { file_offset: segment.offset, data: Some(slice) };
                self.extents.push(extent);
            }
            self.next = self.following(slice, got);
        }
        Ok(true)
    }

    fn add_hole(&mut self, offset: u64) {
        let after_hole = self.extents.last().is_some_and(|extent| extent.data.is_none());
        if !after_hole {
            self.extents.push(Extent { file_offset: offset, data: None });
        }
        self.next = None;
    }

    /// Where a run goes on after a piece of `length` bytes at `slice`: behind
    /// it, which is the next block after a full one.
    fn following(&self, slice: BlockSlice, length: usize) -> Option<BlockSlice> {
        let size = match self.below.block_size(slice.blob) {
            Some(size) => u64::from(size),
            None => wide(self.options.block_size()),
        };
        let end = u64::from(slice.offset).saturating_add(wide(length));
        if end == size {
            return Some(BlockSlice { block: slice.block.saturating_add(1), offset: 0, ..slice });
        }
        u32::try_from(end).ok().map(|offset| BlockSlice { offset, ..slice })
    }

    fn close_file(&mut self) -> Result<(), WriteError> {
        if let Some(node) = self.current.take() {
            self.contents.set(node, &self.extents, self.end)?;
        }
        self.extents.clear();
        self.next = None;
        self.end = 0;
        Ok(())
    }

    /// Finds or makes the place of a piece.
    fn place(&mut self, bytes: Vec<u8>, hash: [u8; 32]) -> Result<BlockSlice, WriteError> {
        let length = wide(bytes.len());
        if self.options.dedup {
            let below = self.below.find(&hash);
            if let Some(slice) = below.or_else(|| self.seen.get(&hash).copied()) {
                self.dedup.pieces = self.dedup.pieces.saturating_add(1);
                self.dedup.bytes = self.dedup.bytes.saturating_add(length);
                if below.is_some() {
                    self.dedup.below = self.dedup.below.saturating_add(length);
                }
                return Ok(slice);
            }
        }
        // A tail that goes on a run of full blocks stays in the run.
        let end = BlockSlice { blob: 0, block: self.blocks.block_count(), offset: 0 };
        let goes_on = self.next == Some(end);
        let slice = if bytes.len() == self.options.block_size() || goes_on {
            let number = self.blocks.reserve();
            self.blocks.push(number, bytes, self.options.compression)?;
            BlockSlice { blob: 0, block: number, offset: 0 }
        } else {
            self.pack(&bytes)?
        };
        if self.options.dedup {
            self.seen.insert(hash, slice);
        }
        Ok(slice)
    }

    /// Puts a piece smaller than a block into the open packed block.
    fn pack(&mut self, bytes: &[u8]) -> Result<BlockSlice, WriteError> {
        let size = self.options.block_size();
        let full = |open: &(u64, Vec<u8>)| open.1.len().saturating_add(bytes.len()) > size;
        if self.open.as_ref().is_some_and(full) {
            self.close_packed()?;
        }
        let (number, packed) = match &mut self.open {
            Some(open) => open,
            None => self.open.insert((self.blocks.reserve(), Vec::with_capacity(size))),
        };
        let offset = u32::try_from(packed.len());
        let offset = offset.map_err(|_| WriteError::TooMany("bytes in a block"))?;
        packed.extend_from_slice(bytes);
        Ok(BlockSlice { blob: 0, block: *number, offset })
    }

    fn close_packed(&mut self) -> Result<(), WriteError> {
        if let Some((number, bytes)) = self.open.take() {
            self.blocks.push(number, bytes, self.options.compression)?;
        }
        Ok(())
    }

    /// Waits until every piece given so far is placed.
    ///
    /// # Errors
    /// Any [`WriteError`].
    pub fn drain(&mut self) -> Result<(), WriteError> {
        while self.take_oldest()? {}
        self.close_file()
    }

    pub(super) fn finish_content(&mut self) -> Result<(), WriteError> {
        self.drain()?;
        self.close_packed()?;
        self.seen = HashMap::new();
        Ok(())
    }

    /// What deduplication saved so far.
    #[must_use]
    pub fn dedup(&self) -> DedupCounts {
        self.dedup
    }
}
