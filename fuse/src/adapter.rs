//! What every request has in common: counting, calling the stack, failing well.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fuser::{Errno, FileAttr, Generation, INodeNo, ReplyDirectoryPlus};
use microfs::stack::{NodeNum, Stack};

use crate::attr::{bare_attr, file_attr};
use crate::capability::CapabilitySet;
use crate::errno::{Failure, describe, errno, is_damage};
use crate::log::{Log, Throttled};
use crate::reply_dir::Listed;
use crate::statistics::{Request, Statistics};

/// How long the kernel may keep what it is told: a mounted stack never changes.
pub(crate) const FOREVER: Duration = Duration::from_secs(100_000_000);
/// Nodes are never reused, so one generation will do.
pub(crate) const GENERATION: Generation = Generation(0);
/// Longest name in bytes.
pub(crate) const NAME_MAX: u32 = 255;
/// `whence` of lseek(2).
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// A stack as a FUSE filesystem.
pub(crate) struct Adapter {
    pub(crate) stack: Arc<Stack>,
    pub(crate) statistics: Arc<Statistics>,
    log: Throttled,
    pub(crate) masked: CapabilitySet,
    pub(crate) agreed: CapabilitySet,
    root_ttl: Duration,
}

impl Adapter {
    pub(crate) fn new(
        stack: Arc<Stack>,
        statistics: Arc<Statistics>,
        log: Log,
        masked: CapabilitySet,
    ) -> Self {
        let log = Throttled::new(log);
        let agreed = CapabilitySet::default();
        Self { stack, statistics, log, masked, agreed, root_ttl: FOREVER }
    }

    /// Lets the kernel ask for the root's attributes every time, so that a look
    /// at the root shows whether the server lives: fusermount3 relies on it
    /// for `auto_unmount`.
    pub(crate) fn with_live_root(mut self, is_live: bool) -> Self {
        self.root_ttl = if is_live { Duration::ZERO } else { FOREVER };
        self
    }

    pub(crate) fn attr_ttl(&self, node: NodeNum) -> &Duration {
        if node == NodeNum::ROOT { &self.root_ttl } else { &FOREVER }
    }

    /// Counts and answers a request about `node`.
    pub(crate) fn answer<T>(
        &self,
        request: Request,
        node: INodeNo,
        work: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Errno> {
        self.statistics.count(request);
        self.guarded(request, NodeNum(node.0), work)
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
                Err(Errno::EIO)
            }
        }
    }

    /// The errno of a failure; damage is counted and reported with the path it was met at.
    fn failed(&self, request: Request, node: NodeNum, failure: &Failure) -> Errno {
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

    pub(crate) fn attr(&self, node: NodeNum) -> Result<FileAttr, Failure> {
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
            _ => Err(Errno::ENAMETOOLONG.into()),
        }
    }

    pub(crate) fn seek(&self, node: NodeNum, offset: i64, whence: i32) -> Result<i64, Failure> {
        let offset = u64::try_from(offset).map_err(|_| Errno::ENXIO)?;
        let found = match whence {
            SEEK_DATA => self.stack.seek_data(node, offset)?,
            SEEK_HOLE => self.stack.seek_hole(node, offset)?,
            _ => return Err(Errno::EINVAL.into()),
        };
        let found = found.ok_or(Errno::ENXIO)?;
        Ok(i64::try_from(found).map_err(|_| Errno::EOVERFLOW)?)
    }

    pub(crate) fn refuse(&self) -> Errno {
        self.statistics.count(Request::Refused);
        Errno::EROFS
    }

    /// For what the kernel asks once and then does by itself for good.
    pub(crate) fn not_needed(&self) -> Errno {
        self.statistics.count(Request::Refused);
        Errno::ENOSYS
    }

    /// An entry of a READDIRPLUS reply. One whose attributes cannot be given is
    /// listed all the same, without lifetime: the error shows when it is used.
    pub(crate) fn add_plus(&self, entry: &Listed<'_>, reply: &mut ReplyDirectoryPlus) -> bool {
        let node = INodeNo(entry.node.0);
        let (ttl, attr) = if entry.is_dot {
            (Duration::ZERO, bare_attr(entry.node, entry.file_type))
        } else {
            match self.attr(entry.node) {
                Ok(attr) => (FOREVER, attr),
                Err(failure) => {
                    self.failed(Request::ReadDirPlus, entry.node, &failure);
                    (Duration::ZERO, bare_attr(entry.node, entry.file_type))
                }
            }
        };
        reply.add(node, entry.offset, OsStr::from_bytes(entry.name), &ttl, &attr, GENERATION)
    }
}
