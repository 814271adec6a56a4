//! The requests of FUSE, each decoded, handed on and answered.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, INodeNo,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, TimeOrNow, WriteFlags,
};
use microfs::FileType;
use microfs::stack::NodeNum;

use crate::adapter::{Adapter, FOREVER, GENERATION, NAME_MAX};
use crate::attr::{bare_attr, file_type};
use crate::capability::{Capability, negotiate};
use crate::reply_dir::list;
use crate::statistics::Request;
use crate::xattr::{self, Answer};

/// Unit of `statfs` in bytes.
const STATFS_UNIT: u32 = 4096;
/// Largest read that is served in bytes; the kernel asks for at most 1 MiB.
const READ_MAX: usize = 16 << 20;
/// Open files carry no state.
const NO_HANDLE: FileHandle = FileHandle(0);

thread_local! {
    /// The reply under construction, kept at its largest size.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn flow(full: bool) -> ControlFlow<()> {
    if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn reply_xattr(answer: Result<Answer, Errno>, reply: ReplyXattr) {
    match answer {
        Ok(Answer::Size(size)) => reply.size(size),
        Ok(Answer::Data(data)) => reply.data(&data),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> std::io::Result<()> {
        self.agreed = negotiate(config, self.masked, self.stack.xattr_knowledge().acl);
        Ok(())
    }

    fn lookup(&self, _: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found =
            self.answer(Request::Lookup, parent, || self.find(NodeNum(parent.0), name.as_bytes()));
        let found = found.and_then(|found| {
            found.map(|node| self.guarded(Request::Lookup, node, || self.attr(node))).transpose()
        });
        match found {
            Ok(Some(attr)) => {
                let attr_ttl = self.attr_ttl(NodeNum(attr.ino.0));
                reply.entry_with_ttls(attr_ttl, &FOREVER, &attr, GENERATION);
            }
            // Inode 0 says "no such name" and lets the kernel remember it.
            Ok(None) => {
                reply.entry(&FOREVER, &bare_attr(NodeNum(0), FileType::Regular), GENERATION);
            }
            Err(errno) => reply.error(errno),
        }
    }

    /// No state is kept for a node, so there is nothing to forget.
    fn forget(&self, _: &fuser::Request, _: INodeNo, _: u64) {}

    fn getattr(&self, _: &fuser::Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.answer(Request::GetAttr, ino, || self.attr(NodeNum(ino.0))) {
            Ok(attr) => reply.attr(self.attr_ttl(NodeNum(ino.0)), &attr),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _: &fuser::Request, ino: INodeNo, reply: ReplyData) {
        let target =
            self.answer(Request::ReadLink, ino, || Ok(self.stack.read_link(NodeNum(ino.0))?));
        match target {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        }
    }

    /// ENOSYS makes the kernel open every file by itself from now on, keeping its cache.
    fn open(&self, _: &fuser::Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.statistics.count(Request::Open);
        if self.agreed.contains(Capability::NoOpen) {
            reply.error(Errno::ENOSYS);
        } else {
            reply.opened(NO_HANDLE, FopenFlags::FOPEN_KEEP_CACHE);
        }
    }

    /// As [`Self::open`]; a directory's listing is cached too.
    fn opendir(&self, _: &fuser::Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.statistics.count(Request::OpenDir);
        if self.agreed.contains(Capability::NoOpenDir) {
            reply.error(Errno::ENOSYS);
        } else {
            let cached = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
            reply.opened(NO_HANDLE, cached);
        }
    }

    fn read(
        &self,
        _: &fuser::Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        BUFFER.with_borrow_mut(|buffer| {
            let read = self.answer(Request::Read, ino, || {
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                if size > READ_MAX {
                    return Err(Errno::EINVAL.into());
                }
                if buffer.len() < size {
                    buffer.resize(size, 0);
                }
                let room = buffer.get_mut(..size).unwrap_or_default();
                Ok(self.stack.read_at(NodeNum(ino.0), offset, room)?)
            });
            match read {
                Ok(length) => {
                    self.statistics.count_bytes(length);
                    reply.data(buffer.get(..length).unwrap_or_default());
                }
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn readdir(
        &self,
        _: &fuser::Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.answer(Request::ReadDir, ino, || {
            list(&self.stack, NodeNum(ino.0), offset, &mut |entry| {
                let (node, kind) = (INodeNo(entry.node.0), file_type(entry.file_type));
                flow(reply.add(node, entry.offset, kind, OsStr::from_bytes(entry.name)))
            })?;
            Ok(())
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(
        &self,
        _: &fuser::Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.answer(Request::ReadDirPlus, ino, || {
            list(&self.stack, NodeNum(ino.0), offset, &mut |entry| {
                flow(self.add_plus(entry, &mut reply))
            })?;
            Ok(())
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    /// The filesystem's size is what the image takes up, as for other compressed ones.
    fn statfs(&self, _: &fuser::Request, ino: INodeNo, reply: ReplyStatfs) {
        match self.answer(Request::StatFs, ino, || Ok(self.stack.totals())) {
            Ok(totals) => reply.statfs(
                totals.stored_bytes.div_ceil(u64::from(STATFS_UNIT)),
                0,
                0,
                totals.inodes,
                0,
                STATFS_UNIT,
                NAME_MAX,
                STATFS_UNIT,
            ),
            Err(errno) => reply.error(errno),
        }
    }

    fn getxattr(
        &self,
        _: &fuser::Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let answer = self.answer(Request::GetXattr, ino, || {
            xattr::get(&self.stack, NodeNum(ino.0), name.as_bytes(), size)
        });
        reply_xattr(answer, reply);
    }

    fn listxattr(&self, request: &fuser::Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let answer = self.answer(Request::ListXattr, ino, || {
            xattr::list(&self.stack, NodeNum(ino.0), size, request.pid())
        });
        reply_xattr(answer, reply);
    }

    fn lseek(
        &self,
        _: &fuser::Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        match self.answer(Request::Lseek, ino, || self.seek(NodeNum(ino.0), offset, whence)) {
            Ok(offset) => reply.offset(offset),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.error(self.not_needed());
    }

    fn fsync(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(self.not_needed());
    }

    fn fsyncdir(&self, _: &fuser::Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.error(self.not_needed());
    }

    /// No ioctl exists; overlayfs relies on ENOTTY when it asks for file flags.
    fn ioctl(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        self.statistics.count(Request::Refused);
        reply.error(Errno::ENOTTY);
    }

    // The mount is read-only, so the kernel refuses all that follows by
    // itself; these are for a mount that somebody has remounted read-write.

    fn setattr(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.error(self.refuse());
    }

    fn mknod(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        reply.error(self.refuse());
    }

    fn mkdir(&self, _: &fuser::Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(self.refuse());
    }

    fn unlink(&self, _: &fuser::Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(self.refuse());
    }

    fn rmdir(&self, _: &fuser::Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(self.refuse());
    }

    fn symlink(&self, _: &fuser::Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(self.refuse());
    }

    fn rename(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(self.refuse());
    }

    fn link(&self, _: &fuser::Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(self.refuse());
    }

    fn create(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(self.refuse());
    }

    fn write(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.error(self.refuse());
    }

    fn setxattr(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: &OsStr,
        _: &[u8],
        _: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(self.refuse());
    }

    fn removexattr(&self, _: &fuser::Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(self.refuse());
    }

    fn fallocate(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(self.refuse());
    }

    fn copy_file_range(
        &self,
        _: &fuser::Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(self.refuse());
    }
}
