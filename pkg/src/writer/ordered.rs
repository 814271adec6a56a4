//! Work that runs in parallel and comes back in the order of submission.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use rayon::ThreadPool;

/// A bounded, first-in-first-out queue of jobs on a thread pool. Results
/// leave in submission order, so what is made of them does not depend on the
/// number of threads.
#[derive(Debug)]
pub struct Ordered<M, T> {
    pool: Arc<ThreadPool>,
    queue: VecDeque<Job<M, T>>,
    weight: usize,
    limit: usize,
}

#[derive(Debug)]
struct Job<M, T> {
    meta: M,
    weight: usize,
    result: Result<T, Receiver<T>>,
}

/// A worker went away without a result: it panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

impl<M, T: Send + 'static> Ordered<M, T> {
    /// A queue that is full once the weights in it reach `limit`.
    #[must_use]
    pub fn new(pool: Arc<ThreadPool>, limit: usize) -> Self {
        Self { pool, queue: VecDeque::new(), weight: 0, limit }
    }

    /// Whether the next job should wait until one was popped.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.weight >= self.limit
    }

    /// Queues a job; `meta` comes back with its result.
    pub fn submit(&mut self, meta: M, weight: usize, job: impl FnOnce() -> T + Send + 'static) {
        let (sender, receiver) = sync_channel(1);
        self.pool.spawn_fifo(move || {
            // The receiver may be gone: the writer gave up.
            let _ = sender.send(job());
        });
        self.push(meta, weight, Err(receiver));
    }

    /// Queues something that is ready, to come out in its turn.
    pub fn submit_ready(&mut self, meta: M, value: T) {
        self.push(meta, 0, Ok(value));
    }

    fn push(&mut self, meta: M, weight: usize, result: Result<T, Receiver<T>>) {
        self.weight = self.weight.saturating_add(weight);
        self.queue.push_back(Job { meta, weight, result });
    }

    /// The oldest job's result, waiting for it; `None` when the queue is empty.
    ///
    /// # Errors
    /// [`Lost`].
    pub fn pop(&mut self) -> Option<Result<(M, T), Lost>> {
        let job = self.queue.pop_front()?;
        self.weight = self.weight.saturating_sub(job.weight);
        let value = match job.result {
            Ok(value) => Ok(value),
            Err(receiver) => receiver.recv().map_err(|_| Lost),
        };
        Some(value.map(|value| (job.meta, value)))
    }
}
