//! Counters of a serving mount.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Kinds of request that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Request {
    /// Find a name in a directory.
    Lookup,
    /// Show attributes.
    GetAttr,
    /// Read a symbolic link.
    ReadLink,
    /// Open a file.
    Open,
    /// Open a directory.
    OpenDir,
    /// Read content.
    Read,
    /// List names.
    ReadDir,
    /// List names with attributes.
    ReadDirPlus,
    /// Read an extended attribute.
    GetXattr,
    /// List extended attributes.
    ListXattr,
    /// Find data or a hole.
    Lseek,
    /// Show totals.
    StatFs,
    /// Anything that would change the tree, and what the kernel asks once to learn that it need not.
    Refused,
}

impl Request {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::Lookup,
        Self::GetAttr,
        Self::ReadLink,
        Self::Open,
        Self::OpenDir,
        Self::Read,
        Self::ReadDir,
        Self::ReadDirPlus,
        Self::GetXattr,
        Self::ListXattr,
        Self::Lseek,
        Self::StatFs,
        Self::Refused,
    ];

    /// Lower-case name for reports and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::GetAttr => "getattr",
            Self::ReadLink => "readlink",
            Self::Open => "open",
            Self::OpenDir => "opendir",
            Self::Read => "read",
            Self::ReadDir => "readdir",
            Self::ReadDirPlus => "readdirplus",
            Self::GetXattr => "getxattr",
            Self::ListXattr => "listxattr",
            Self::Lseek => "lseek",
            Self::StatFs => "statfs",
            Self::Refused => "refused",
        }
    }
}

/// How many ranges of time a [`Statistics::latency`] has.
pub const LATENCY_RANGES: usize = 22;

/// Counters since the mount began; each is exact, but two of them read one
/// after the other need not belong to the same instant.
#[derive(Debug, Default)]
pub struct Statistics {
    requests: [AtomicU64; Request::ALL.len()],
    latency: [[AtomicU64; LATENCY_RANGES]; Request::ALL.len()],
    bytes_read: AtomicU64,
    errors: AtomicU64,
    panics: AtomicU64,
    pushes: AtomicU64,
    bytes_pushed: AtomicU64,
    pushes_wasted: AtomicU64,
    pushes_dropped: AtomicU64,
}

impl Statistics {
    /// Requests of a kind, answered in whatever way.
    #[must_use]
    pub fn requests(&self, request: Request) -> u64 {
        self.requests.get(request as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Requests of all kinds together.
    #[must_use]
    pub fn all_requests(&self) -> u64 {
        let counts = self.requests.iter().map(|count| count.load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }

    /// How long it took to find the answers to requests of a kind: number n
    /// counts those of less than 2^n microseconds that no earlier one counts,
    /// the last one all that took longer.
    #[must_use]
    pub fn latency(&self, request: Request) -> [u64; LATENCY_RANGES] {
        let ranges = self.latency.get(request as usize);
        std::array::from_fn(|range| {
            let count = ranges.and_then(|ranges| ranges.get(range));
            count.map_or(0, |count| count.load(Ordering::Relaxed))
        })
    }

    pub(crate) fn count_latency(&self, request: Request, time: Duration) {
        let bits = time.as_micros().checked_ilog2().map_or(0, |log| log.saturating_add(1));
        let range = usize::try_from(bits).unwrap_or(usize::MAX).min(LATENCY_RANGES - 1);
        let count = self.latency.get(request as usize).and_then(|ranges| ranges.get(range));
        if let Some(count) = count {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Bytes of file content sent to the kernel.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Requests answered with EIO because image or storage are not in order.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    /// Requests answered with EIO because the server panicked.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Runs of bytes that were put into the page cache unasked.
    #[must_use]
    pub fn pushes(&self) -> u64 {
        self.pushes.load(Ordering::Relaxed)
    }

    /// Bytes in them.
    #[must_use]
    pub fn bytes_pushed(&self) -> u64 {
        self.bytes_pushed.load(Ordering::Relaxed)
    }

    /// Files that were read by request although they had been pushed: the
    /// kernel had dropped them meanwhile.
    #[must_use]
    pub fn pushes_wasted(&self) -> u64 {
        self.pushes_wasted.load(Ordering::Relaxed)
    }

    pub(crate) fn count_push_wasted(&self) {
        self.pushes_wasted.fetch_add(1, Ordering::Relaxed);
    }

    /// Pushes that were not made because there was too much else to do.
    #[must_use]
    pub fn pushes_dropped(&self) -> u64 {
        self.pushes_dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn count_push(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.pushes.fetch_add(1, Ordering::Relaxed);
        self.bytes_pushed.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn count_push_dropped(&self) {
        self.pushes_dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, request: Request) {
        if let Some(count) = self.requests.get(request as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_bytes(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn count_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
