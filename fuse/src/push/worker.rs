//! The thread that pushes.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use microfs::ReadError;
use microfs::reader::Block;
use microfs::stack::{LayerInode, NodeNum, PackedFile, Stack};
use rustix::io::Errno;

use super::dense::Dense;
use super::stream::{Stream, Streams};
use super::{Job, Kernel};
use crate::reply::store;
use crate::statistics::Statistics;

/// Blocks pushed last, which are not pushed again at once: requests for them
/// were on their way already.
const RECENT: usize = 8;
/// How far from a file others of its block are looked for, in inodes.
const NEIGHBOURS_MAX: usize = 2048;
/// How many files of other blocks may lie between: those with equal content
/// are where the first of them is, and large ones have blocks of their own.
const STRANGERS_MAX: u32 = 8;

/// Bytes of a piece of a file that is read in no order, unless its blocks are larger.
const PIECE: u32 = 128 << 10;

/// What the thread works with.
pub(super) struct Worker {
    stack: Arc<Stack>,
    device: Arc<OwnedFd>,
    kernel: Arc<Kernel>,
    statistics: Arc<Statistics>,
    recent: VecDeque<(u32, u64, NodeNum)>,
    streams: Streams,
    dense: Dense,
    piece: Vec<u8>,
}

impl Worker {
    pub(super) fn new(
        stack: Arc<Stack>,
        device: Arc<OwnedFd>,
        kernel: Arc<Kernel>,
        statistics: Arc<Statistics>,
    ) -> Self {
        let unit = stack.block_size().max(PIECE);
        Self {
            stack,
            device,
            kernel,
            statistics,
            recent: VecDeque::with_capacity(RECENT),
            streams: Streams::default(),
            dense: Dense::new(unit.into()),
            piece: vec![0; usize::try_from(unit).unwrap_or(0)],
        }
    }

    pub(super) fn run(mut self, queue: &Receiver<Job>) {
        loop {
            let next = if self.dense.is_pending() {
                queue.try_recv()
            } else {
                queue.recv().map_err(|_| TryRecvError::Disconnected)
            };
            // What cannot be read now is read, and reported, when it is asked for.
            let _ = match next {
                Ok(job) if job.is_small => self.small(&job),
                Ok(job) => self.large(&job),
                Err(TryRecvError::Empty) => self.rest(),
                Err(TryRecvError::Disconnected) => return,
            };
        }
    }

    /// A piece of a file that is read in no order.
    fn rest(&mut self) -> Result<(), ReadError> {
        let Some(piece) = self.dense.next() else { return Ok(()) };
        let length = match self.stack.read_at(piece.node, piece.offset, &mut self.piece) {
            Ok(length) => length,
            Err(error) => {
                self.dense.forget(piece.node);
                return Err(error);
            }
        };
        let bytes = self.piece.get(..length).unwrap_or_default();
        if !self.store(piece.node, piece.offset, bytes) {
            self.dense.forget(piece.node);
        }
        Ok(())
    }

    /// Whether a block was not pushed just now.
    fn is_news(&mut self, layer: u32, block: u64, node: NodeNum) -> bool {
        let key = (layer, block, node);
        if self.recent.contains(&key) {
            return false;
        }
        if self.recent.len() >= RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(key);
        true
    }

    /// The rest of a file's block.
    fn large(&mut self, job: &Job) -> Result<(), ReadError> {
        let share = &job.share;
        if self.is_news(share.layer, share.number, job.node) {
            let start = usize::try_from(share.block_offset).unwrap_or(usize::MAX);
            self.push(job.node, share.file_offset, &share.block, start, share.length.into());
            let size = || self.stack.attr(job.node).ok().map(|attr| attr.size);
            self.dense.touched(job.node, share.file_offset, share.length.into(), size);
        }
        Ok(())
    }

    /// The other files of a block, and those of the next ones.
    fn small(&mut self, job: &Job) -> Result<(), ReadError> {
        if let Some(stream) = self.streams.reached(job.node) {
            return self.ahead(stream.next, stream.window, false);
        }
        let at = self.stack.resolve(job.node)?;
        // Its neighbours are known for its own layer only.
        let is_own = at.layer == job.share.layer;
        if !is_own || !self.is_news(at.layer, job.share.number, NodeNum(0)) {
            return Ok(());
        }
        if job.is_partial {
            let start = usize::try_from(job.share.block_offset).unwrap_or(usize::MAX);
            self.push(job.node, 0, &job.share.block, start, job.share.length.into());
        }
        self.before(at, job)?;
        let next = LayerInode { inode: at.inode.saturating_add(1), ..at };
        self.ahead(next, Streams::FIRST, job.again)
    }

    /// The files of a block that come before one of it.
    fn before(&mut self, at: LayerInode, job: &Job) -> Result<(), ReadError> {
        let mut strangers = 0u32;
        for inode in (0..at.inode).rev().take(NEIGHBOURS_MAX) {
            let here = LayerInode { inode, ..at };
            let Some(file) = self.stack.packed_file(here)?.flatten() else { continue };
            if file.block == job.share.number {
                self.give(here, &file, &job.share.block, job.again);
                continue;
            }
            strangers = strangers.saturating_add(1);
            if strangers > STRANGERS_MAX {
                break;
            }
        }
        Ok(())
    }

    /// Files from one on, up to `window` plain bytes of blocks. One of them,
    /// half-way, is left for the reader to ask for. `again`: also those that
    /// the kernel has had before.
    fn ahead(&mut self, from: LayerInode, window: u64, again: bool) -> Result<(), ReadError> {
        let mut covered = 0u64;
        let mut marker = None;
        let mut current: Option<(u64, Block)> = None;
        let mut at = from;
        for _ in 0..NEIGHBOURS_MAX {
            let Some(found) = self.stack.packed_file(at)? else { break };
            let here = at;
            at.inode = at.inode.saturating_add(1);
            let Some(file) = found else { continue };
            let is_same = current.as_ref().is_some_and(|(number, _)| *number == file.block);
            if !is_same {
                // Content that lies further up was stored for an earlier file.
                if current.as_ref().is_some_and(|(number, _)| file.block < *number) {
                    continue;
                }
                if covered >= window {
                    at = here;
                    break;
                }
                let block = self.stack.content_block(here.layer, file.block)?;
                let bytes = u64::try_from(block.len()).unwrap_or(u64::MAX);
                covered = covered.saturating_add(bytes);
                current = Some((file.block, block));
            }
            let Some((_, block)) = &current else { continue };
            let node = self.stack.number(here);
            let is_half = covered.saturating_mul(2) > window;
            let is_small = u64::try_from(block.len()).is_ok_and(|length| file.size < length);
            if marker.is_none() && is_half && is_small && self.is_wanted(node, again) {
                marker = Some(node);
                continue;
            }
            let block = Block::clone(block);
            self.give(here, &file, &block, again);
        }
        if let Some(marker) = marker {
            self.streams.remember(Stream { marker, next: at, window });
        }
        Ok(())
    }

    fn is_wanted(&self, node: NodeNum, again: bool) -> bool {
        self.kernel.known.contains(node) && (again || !self.kernel.has.contains(node))
    }

    /// Pushes a file if the kernel knows it and has not got it: all of it, or
    /// what the block has of it.
    fn give(&self, at: LayerInode, file: &PackedFile, block: &Block, again: bool) {
        let node = self.stack.number(at);
        if self.is_wanted(node, again) {
            let start = usize::try_from(file.offset).unwrap_or(usize::MAX);
            let room = block.len().saturating_sub(start);
            let length = file.size.min(u64::try_from(room).unwrap_or(0));
            if self.push(node, 0, block, start, length) {
                self.kernel.has.insert(node);
            }
        }
    }

    fn push(&self, node: NodeNum, offset: u64, block: &Block, start: usize, length: u64) -> bool {
        let end = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        block.get(start..end).is_some_and(|bytes| self.store(node, offset, bytes))
    }

    /// Whether the kernel has taken it.
    fn store(&self, node: NodeNum, offset: u64, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return false;
        }
        match store(self.device.as_fd(), node.0, offset, bytes) {
            Ok(()) => {
                self.statistics.count_push(bytes.len());
                return true;
            }
            // It has forgotten the file, and will look it up before it reads it.
            Err(Errno::NOENT) => self.kernel.known.remove(node),
            Err(_) => self.statistics.count_push_dropped(),
        }
        false
    }
}
