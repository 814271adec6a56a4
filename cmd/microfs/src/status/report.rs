//! The numbers of one mount at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use microfs::stack::Stack;
use microfs_fuse::{Request, Statistics};
use serde::{Deserialize, Serialize};

/// Numbers since the mount began, and what is held now.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The image, as it was named.
    pub image: String,
    /// Digest of its manifest.
    pub manifest: String,
    /// Process that serves.
    pub pid: u32,
    /// Requests by kind.
    pub requests: BTreeMap<String, u64>,
    /// Time to find an answer, by kind: (microseconds, requests that took
    /// less than that and not less than half), the last one without end.
    pub latency: BTreeMap<String, Vec<(Option<u64>, u64)>>,
    /// Bytes of content sent to the kernel on request.
    pub bytes_read: u64,
    /// Blocks that were read, verified and decoded.
    pub blocks_decoded: u64,
    /// Their bytes as stored.
    pub stored_bytes_read: u64,
    /// Their plain bytes.
    pub plain_bytes_decoded: u64,
    /// Requests to the block cache that found what they wanted.
    pub cache_hits: u64,
    /// Those that did not.
    pub cache_misses: u64,
    /// Bytes of blocks in the cache now.
    pub cache_bytes: u64,
    /// Runs of bytes put into the page cache unasked.
    pub pushes: u64,
    /// Bytes in them.
    pub bytes_pushed: u64,
    /// Pushed files that were read by request all the same.
    pub pushes_wasted: u64,
    /// Pushes that were left out for lack of time.
    pub pushes_dropped: u64,
    /// Requests that failed because image or storage are damaged.
    pub errors: u64,
    /// Requests that failed because of a fault of the server.
    pub panics: u64,
}

/// Where the numbers come from.
#[derive(Debug, Clone)]
pub struct Source {
    /// The image, as it was named.
    pub image: String,
    /// Digest of its manifest.
    pub manifest: String,
    /// The mounted stack.
    pub stack: Arc<Stack>,
    /// The mount's counters.
    pub statistics: Arc<Statistics>,
}

impl Source {
    /// The numbers of now.
    pub fn report(&self) -> Report {
        let statistics = &self.statistics;
        let cache = self.stack.cache_counts();
        let name = |request: Request| request.name().to_owned();
        let latency = |request| {
            let counts = statistics.latency(request);
            let last = counts.len().saturating_sub(1);
            let range = |(n, count)| ((n < last).then(|| 1u64 << n), count);
            counts.into_iter().enumerate().map(range).collect()
        };
        Report {
            image: self.image.clone(),
            manifest: self.manifest.clone(),
            pid: std::process::id(),
            requests: Request::ALL.map(|kind| (name(kind), statistics.requests(kind))).into(),
            latency: Request::ALL.map(|kind| (name(kind), latency(kind))).into(),
            bytes_read: statistics.bytes_read(),
            blocks_decoded: cache.blocks,
            stored_bytes_read: cache.stored_bytes,
            plain_bytes_decoded: cache.plain_bytes,
            cache_hits: cache.hits,
            cache_misses: cache.misses,
            cache_bytes: u64::try_from(self.stack.cache_bytes()).unwrap_or(u64::MAX),
            pushes: statistics.pushes(),
            bytes_pushed: statistics.bytes_pushed(),
            pushes_wasted: statistics.pushes_wasted(),
            pushes_dropped: statistics.pushes_dropped(),
            errors: statistics.errors(),
            panics: statistics.panics(),
        }
    }
}
