//! Giving the kernel the rest of a block that had to be decoded anyway.
//!
//! A request often wants a small part of a block: one small file of those that
//! share it, or 4 KiB of a large one. A thread of its own then puts the rest
//! into the page cache, so that the next reads cost no request. It must never be a
//! thread that serves: the kernel holds the page of a request locked until
//! the reply, and would wait for itself.
//!
//! Nothing is lost when a push is: the queue is short, and what does not fit in
//! is dropped.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use microfs::reader::Share;
use microfs::stack::{NodeNum, Stack};
use rustix::io::Errno;

use crate::known::NodeSet;
use crate::reply::store;
use crate::statistics::Statistics;

/// Blocks that may wait to be pushed.
const QUEUE: usize = 16;
/// Blocks pushed last, which are not pushed again at once: requests for them
/// were on their way already.
const RECENT: usize = 8;
/// Whole pages only: the kernel drops what does not fill one, but at the end of a file.
const PAGE: u64 = 4096;

/// A block that was decoded for a request.
struct Job {
    node: NodeNum,
    share: Share,
    is_small: bool,
    /// Not all of the file's part was read.
    is_partial: bool,
}

/// Takes blocks to push. When the last one is dropped, the thread ends.
#[derive(Debug)]
pub(crate) struct Pusher {
    jobs: SyncSender<Job>,
    statistics: Arc<Statistics>,
}

/// What the thread works with.
struct Worker {
    stack: Arc<Stack>,
    device: Arc<OwnedFd>,
    known: Arc<NodeSet>,
    statistics: Arc<Statistics>,
    /// Small files that the kernel was given whole.
    given: NodeSet,
    recent: VecDeque<(u32, u64, NodeNum)>,
}

impl Pusher {
    /// Starts the thread; `None` when that is not possible, which costs speed only.
    pub(crate) fn start(
        stack: Arc<Stack>,
        device: Arc<OwnedFd>,
        known: Arc<NodeSet>,
        statistics: Arc<Statistics>,
    ) -> Option<Self> {
        let (jobs, queue) = sync_channel(QUEUE);
        let given = NodeSet::like(&known);
        let counts = Arc::clone(&statistics);
        let recent = VecDeque::with_capacity(RECENT);
        let worker = Worker { stack, device, known, statistics: counts, given, recent };
        let started = thread::Builder::new().name("microfs-push".into());
        started.spawn(move || worker.run(&queue)).ok()?;
        Some(Self { jobs, statistics })
    }

    /// A request for `read` bytes was served, for which this part of a block
    /// of `node` was decoded or found in the cache.
    pub(crate) fn offer(&self, node: NodeNum, read: usize, share: Share) {
        let length = usize::try_from(share.length).unwrap_or(usize::MAX);
        // It shares the block with others.
        let is_small = share.file_offset == 0 && length < share.block.len();
        let is_done = if is_small {
            // Whoever reads one file of a block may never read another; who
            // has read two will go on.
            share.is_fresh
        } else {
            read >= length || !share.file_offset.is_multiple_of(PAGE)
        };
        let job = Job { node, share, is_small, is_partial: read < length };
        if !is_done && self.jobs.try_send(job).is_err() {
            self.statistics.count_push_dropped();
        }
    }
}

impl Worker {
    fn run(mut self, queue: &Receiver<Job>) {
        while let Ok(job) = queue.recv() {
            let key = (
                job.share.layer,
                job.share.number,
                if job.is_small { NodeNum(0) } else { job.node },
            );
            if self.recent.contains(&key) {
                continue;
            }
            if self.recent.len() >= RECENT {
                self.recent.pop_front();
            }
            self.recent.push_back(key);
            if job.is_small {
                self.small(&job);
            } else {
                let start = usize::try_from(job.share.block_offset).unwrap_or(usize::MAX);
                self.push(job.node, job.share.file_offset, &job.share, start, job.share.length);
            }
        }
    }

    /// All files of a block that the kernel knows and has not been given.
    fn small(&mut self, job: &Job) {
        // What was read is in the page cache already.
        let was_given = !self.given.insert(job.node);
        if was_given {
            self.statistics.count_push_wasted();
        }
        let Ok(files) = self.stack.files_in_block(job.node, &job.share) else { return };
        for (node, offset, size) in files {
            // A file that is read although it was given has been evicted, and
            // with it most likely the others of its block.
            let is_new = self.given.insert(node) || was_given;
            let Ok(length) = u32::try_from(size) else { continue };
            let is_wanted = if node == job.node { job.is_partial } else { is_new };
            if is_wanted && length > 0 && self.known.contains(node) {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                self.push(node, 0, &job.share, start, length);
            }
        }
    }

    fn push(&self, node: NodeNum, file_offset: u64, share: &Share, start: usize, length: u32) {
        let end = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
        let Some(bytes) = share.block.get(start..end) else { return };
        match store(self.device.as_fd(), node.0, file_offset, bytes) {
            Ok(()) => self.statistics.count_push(bytes.len()),
            // It has forgotten the file, and will look it up before it reads it.
            Err(Errno::NOENT) => self.known.remove(node),
            Err(_) => self.statistics.count_push_dropped(),
        }
    }
}
