//! What every request has in common: counting, calling the stack, failing well.

use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use microfs::stack::{NodeNum, Stack};
use rustix::io::Errno;

use crate::abi::Attr;
use crate::attr::file_attr;
use crate::capability::CapabilitySet;
use crate::errno::{Failure, describe, errno, is_damage};
use crate::log::{Log, Throttled};
use crate::push::{Kernel, Pusher};
use crate::statistics::{Request, Statistics};

/// How long the kernel may keep what it is told, in seconds: a mounted stack never changes.
pub(crate) const FOREVER: u64 = 100_000_000;
/// Longest name in bytes.
pub(crate) const NAME_MAX: u32 = 255;
/// `whence` of lseek(2).
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

/// Numbers below that of the first inode of a stack.
const NODES_BEFORE: u64 = 2;

/// A stack as a FUSE filesystem.
pub(crate) struct Adapter {
    pub(crate) stack: Arc<Stack>,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) pusher: Option<Pusher>,
    log: Throttled,
    pub(crate) agreed: CapabilitySet,
    root_valid: u64,
}

impl Adapter {
    pub(crate) fn new(
        stack: Arc<Stack>,
        statistics: Arc<Statistics>,
        log: Log,
        agreed: CapabilitySet,
    ) -> Self {
        let kernel = Kernel::new(stack.totals().inodes.saturating_add(NODES_BEFORE));
        let kernel = Arc::new(kernel);
        let log = Throttled::new(log);
        Self { stack, statistics, kernel, pusher: None, log, agreed, root_valid: FOREVER }
    }

    /// Lets the kernel ask for the root's attributes every time, so that a look
    /// at the root shows whether the server lives: fusermount3 relies on it
    /// for `auto_unmount`.
    pub(crate) fn with_live_root(mut self, is_live: bool) -> Self {
        self.root_valid = if is_live { 0 } else { FOREVER };
        self
    }

    /// Lets it give the kernel more of a block than was asked for.
    pub(crate) fn with_pusher(mut self, device: &Arc<OwnedFd>) -> Self {
        let (stack, kernel) = (Arc::clone(&self.stack), Arc::clone(&self.kernel));
        let statistics = Arc::clone(&self.statistics);
        self.pusher = Pusher::start(stack, Arc::clone(device), kernel, statistics);
        self
    }

    /// How long the kernel may keep attributes, in seconds.
    pub(crate) fn attr_valid(&self, node: NodeNum) -> u64 {
        if node == NodeNum::ROOT { self.root_valid } else { FOREVER }
    }

    /// Counts and answers a request about `node`.
    pub(crate) fn answer<T>(
        &self,
        request: Request,
        node: NodeNum,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        self.statistics.count(request);
        let start = Instant::now();
        let answer = self.guarded(request, node, work);
        self.statistics.count_latency(request, start.elapsed());
        answer
    }

    /// Works, and turns whatever goes wrong, a panic included, into an errno.
    pub(crate) fn guarded<T>(
        &self,
        request: Request,
        node: NodeNum,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(failure)) => Err(self.failed(request, node, &failure)),
            Err(_) => {
                self.statistics.count_panic();
                self.log.line(|| format!("{} of inode {}: internal error", request.name(), node.0));
                Err(Errno::IO)
            }
        }
    }

    /// The errno of a failure; damage is counted and reported with the path it was met at.
    pub(crate) fn failed(&self, request: Request, node: NodeNum, failure: &Failure) -> Errno {
        match failure {
            Failure::Answer(errno) => *errno,
            Failure::Read(error) => {
                if is_damage(error) {
                    self.statistics.count_error();
                    self.log.line(|| {
                        let path = catch_unwind(AssertUnwindSafe(|| self.stack.path(node)));
                        let path = match path {
                            Ok(Ok(path)) => format!("/{}", path.escape_ascii()),
                            _ => format!("inode {}", node.0),
                        };
                        format!("{} of {path}: {}", request.name(), describe(error))
                    });
                }
                errno(error)
            }
        }
    }

    pub(crate) fn attr(&self, node: NodeNum) -> Result<Attr, Failure> {
        Ok(file_attr(&self.stack.attr(node)?, self.stack.block_size())?)
    }

    pub(crate) fn find(&self, directory: NodeNum, name: &[u8]) -> Result<Option<NodeNum>, Failure> {
        match name {
            // Sent for file handles only (`Capability::Export`), `.` of any type of file.
            b"." => Ok(Some(directory)),
            b".." => Ok(Some(self.stack.parent(directory)?)),
            _ if u32::try_from(name.len()).is_ok_and(|length| length <= NAME_MAX) => {
                Ok(self.stack.lookup(directory, name)?)
            }
            _ => Err(Errno::NAMETOOLONG.into()),
        }
    }

    pub(crate) fn seek(&self, node: NodeNum, offset: u64, whence: u32) -> Result<u64, Failure> {
        let found = match whence {
            SEEK_DATA => self.stack.seek_data(node, offset)?,
            SEEK_HOLE => self.stack.seek_hole(node, offset)?,
            _ => return Err(Errno::INVAL.into()),
        };
        Ok(found.ok_or(Errno::NXIO)?)
    }

    /// For what is not done, whoever asks.
    pub(crate) fn refuse(&self, errno: Errno) -> Errno {
        self.statistics.count(Request::Refused);
        errno
    }
}
