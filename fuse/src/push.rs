//! Giving the kernel content that it has not asked for yet.
//!
//! A request often wants a small part of a block that had to be decoded whole:
//! one small file of those that share it, or 4 KiB of a large one. A thread of
//! its own then puts the rest into the page cache, so that the next reads cost
//! no request. Who has read two files of a block is taken to go through the
//! tree, and is given the files of the next blocks as well, decoded before
//! they are needed. Who has read many blocks of a large file in no order is
//! given the others too.
//!
//! It must never be a thread that serves: the kernel holds the page of a
//! request locked until the reply, and would wait for itself. Nothing is lost
//! when a push is: the queue is short, and what does not fit in is dropped.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use microfs::reader::Share;
use microfs::stack::{NodeNum, Stack};

use self::worker::Worker;
use crate::known::NodeSet;
use crate::statistics::Statistics;

mod dense;
mod stream;
mod worker;

/// Blocks that may wait to be pushed.
const QUEUE: usize = 16;
/// Whole pages only: the kernel drops what does not fill one, but at the end of a file.
const PAGE: u64 = 4096;

/// A block that was decoded for a request.
struct Job {
    node: NodeNum,
    share: Share,
    is_small: bool,
    /// Not all of the file's part was read.
    is_partial: bool,
    /// The kernel has had the file before, and has dropped it.
    again: bool,
}

/// Which files the kernel knows, and which it has been given whole.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) known: NodeSet,
    has: NodeSet,
}

impl Kernel {
    /// Knows nothing of `nodes` nodes.
    pub(crate) fn new(nodes: u64) -> Self {
        Self { known: NodeSet::new(nodes), has: NodeSet::new(nodes) }
    }
}

/// Takes blocks to push. When the last one is dropped, the thread ends.
#[derive(Debug)]
pub(crate) struct Pusher {
    jobs: SyncSender<Job>,
    kernel: Arc<Kernel>,
    statistics: Arc<Statistics>,
}

impl Pusher {
    /// Starts the thread; `None` when that is not possible, which costs speed only.
    pub(crate) fn start(
        stack: Arc<Stack>,
        device: Arc<OwnedFd>,
        kernel: Arc<Kernel>,
        statistics: Arc<Statistics>,
    ) -> Option<Self> {
        let (jobs, queue) = sync_channel(QUEUE);
        let worker = Worker::new(stack, device, Arc::clone(&kernel), Arc::clone(&statistics));
        let started = thread::Builder::new().name("microfs-push".into());
        started.spawn(move || worker.run(&queue)).ok()?;
        Some(Self { jobs, kernel, statistics })
    }

    /// A request for `read` bytes was served, for which this part of a block
    /// of `node` was decoded or found in the cache.
    pub(crate) fn offer(&self, node: NodeNum, read: usize, share: Share) {
        let length = usize::try_from(share.length).unwrap_or(usize::MAX);
        // It shares the block with others.
        let is_small = share.file_offset == 0 && length < share.block.len();
        let is_partial = read < length;
        let mut again = false;
        let is_done = if is_small {
            again = !is_partial && !self.kernel.has.insert(node);
            if again {
                self.statistics.count_push_wasted();
            }
            // Whoever reads one file of a block may never read another; who
            // has read two will go on.
            share.is_fresh
        } else {
            !is_partial || !share.file_offset.is_multiple_of(PAGE)
        };
        let job = Job { node, share, is_small, is_partial, again };
        if !is_done && self.jobs.try_send(job).is_err() {
            self.statistics.count_push_dropped();
        }
    }
}
