//! The requests of FUSE, each decoded, handed on and answered.

use std::cell::RefCell;
use std::os::fd::BorrowedFd;

use microfs::stack::NodeNum;
use rustix::io::Errno;

use crate::abi::{
    AttrOut, EntryOut, GetxattrIn, GetxattrOut, LseekIn, LseekOut, OpenOut, ReadIn, StatfsOut,
    opcode, open,
};
use crate::adapter::{Adapter, FOREVER, NAME_MAX};
use crate::attr::negative;
use crate::capability::Capability;
use crate::errno::Failure;
use crate::listing::Listing;
use crate::reply::Reply;
use crate::request::Incoming;
use crate::statistics::Request;
use crate::xattr::{self, Answer};

/// Unit of `statfs` in bytes.
const STATFS_UNIT: u32 = 4096;
/// Largest read that is served in bytes; the kernel asks for at most 1 MiB.
const READ_MAX: usize = 16 << 20;

/// The flag of an open file whose reads go past the page cache.
const O_DIRECT: u32 = rustix::fs::OFlags::DIRECT.bits();

thread_local! {
    /// The reply under construction, kept at its largest size.
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Adapter {
    /// Answers one request.
    pub(crate) fn dispatch(&self, request: &Incoming<'_>, device: BorrowedFd<'_>) {
        let reply = Reply::new(device, request.header.unique);
        let node = NodeNum(request.header.nodeid);
        match request.header.opcode {
            opcode::LOOKUP => self.lookup(node, request, reply),
            opcode::GETATTR => self.getattr(node, reply),
            opcode::READLINK => self.readlink(node, reply),
            opcode::OPEN => self.open(reply),
            opcode::OPENDIR => self.opendir(reply),
            opcode::READ => self.read(node, request, reply),
            opcode::READDIR => self.readdir(node, request, reply, false),
            opcode::READDIRPLUS => self.readdir(node, request, reply, true),
            opcode::STATFS => self.statfs(node, reply),
            opcode::GETXATTR => self.getxattr(node, request, reply),
            opcode::LISTXATTR => self.listxattr(node, request, reply),
            opcode::LSEEK => self.lseek(node, request, reply),
            // No state is kept for a node or an open file.
            opcode::FORGET | opcode::BATCH_FORGET => reply.none(),
            opcode::RELEASE | opcode::RELEASEDIR | opcode::DESTROY => reply.done(),
            // No ioctl exists; overlayfs relies on ENOTTY when it asks for file flags.
            opcode::IOCTL => reply.error(self.refuse(Errno::NOTTY)),
            // The mount is read-only, so the kernel refuses these by itself;
            // they come when somebody has remounted it read-write.
            opcode::SETATTR
            | opcode::SYMLINK
            | opcode::MKNOD
            | opcode::MKDIR
            | opcode::UNLINK
            | opcode::RMDIR
            | opcode::RENAME
            | opcode::RENAME2
            | opcode::LINK
            | opcode::WRITE
            | opcode::SETXATTR
            | opcode::REMOVEXATTR
            | opcode::CREATE
            | opcode::TMPFILE
            | opcode::FALLOCATE
            | opcode::COPY_FILE_RANGE => reply.error(self.refuse(Errno::ROFS)),
            // FLUSH, FSYNC, INTERRUPT, STATX and whatever comes one day: the
            // kernel asks once and then does it by itself for good.
            _ => reply.error(self.refuse(Errno::NOSYS)),
        }
    }

    fn lookup(&self, parent: NodeNum, request: &Incoming<'_>, reply: Reply<'_>) {
        let found = self.answer(Request::Lookup, parent, || {
            self.find(parent, request.name(0).ok_or(Errno::INVAL)?)
        });
        let found = found.and_then(|found| {
            found.map(|node| self.guarded(Request::Lookup, node, || self.entry(node))).transpose()
        });
        match found {
            Ok(Some(entry)) => {
                self.kernel.known.insert(NodeNum(entry.nodeid));
                reply.record(&entry);
            }
            // Inode 0 says "no such name" and lets the kernel remember it.
            Ok(None) => reply.record(&negative()),
            Err(errno) => reply.error(errno),
        }
    }

    /// An object as LOOKUP and READDIRPLUS give it.
    pub(crate) fn entry(&self, node: NodeNum) -> Result<EntryOut, Failure> {
        Ok(EntryOut {
            nodeid: node.0,
            generation: 0,
            entry_valid: FOREVER,
            attr_valid: self.attr_valid(node),
            entry_valid_nsec: 0,
            attr_valid_nsec: 0,
            attr: self.attr(node)?,
        })
    }

    fn getattr(&self, node: NodeNum, reply: Reply<'_>) {
        match self.answer(Request::GetAttr, node, || self.attr(node)) {
            Ok(attr) => {
                let attr_valid = self.attr_valid(node);
                reply.record(&AttrOut { attr_valid, attr_valid_nsec: 0, dummy: 0, attr });
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, node: NodeNum, reply: Reply<'_>) {
        match self.answer(Request::ReadLink, node, || Ok(self.stack.read_link(node)?)) {
            Ok(target) => reply.bytes(&target),
            Err(errno) => reply.error(errno),
        }
    }

    /// ENOSYS makes the kernel open every file by itself from now on, keeping its cache.
    fn open(&self, reply: Reply<'_>) {
        self.statistics.count(Request::Open);
        if self.agreed.contains(Capability::NoOpen) {
            reply.error(Errno::NOSYS);
        } else {
            reply.record(&OpenOut { fh: 0, open_flags: open::KEEP_CACHE, backing_id: 0 });
        }
    }

    /// As [`Self::open`]; a directory's listing is cached too.
    fn opendir(&self, reply: Reply<'_>) {
        self.statistics.count(Request::OpenDir);
        if self.agreed.contains(Capability::NoOpenDir) {
            reply.error(Errno::NOSYS);
        } else {
            let open_flags = open::CACHE_DIR | open::KEEP_CACHE;
            reply.record(&OpenOut { fh: 0, open_flags, backing_id: 0 });
        }
    }

    fn read(&self, node: NodeNum, request: &Incoming<'_>, reply: Reply<'_>) {
        BUFFER.with_borrow_mut(|buffer| {
            let read = self.answer(Request::Read, node, || {
                let ReadIn { offset, size, flags, .. } = request.arguments().ok_or(Errno::INVAL)?;
                let room = room(buffer, size)?;
                let Some(pusher) = self.pusher.as_ref().filter(|_| flags & O_DIRECT == 0) else {
                    return Ok((self.stack.read_at(node, offset, room)?, None));
                };
                let mut part = None;
                let length =
                    self.stack.read_sharing(node, offset, room, &mut |share| part = Some(share))?;
                Ok((length, part.map(|share| (pusher, share))))
            });
            match read {
                Ok((length, part)) => {
                    self.statistics.count_bytes(length);
                    // The caller goes first.
                    reply.bytes(buffer.get(..length).unwrap_or_default());
                    if let Some((pusher, share)) = part {
                        pusher.offer(node, length, share);
                    }
                }
                Err(errno) => reply.error(errno),
            }
        });
    }

    fn readdir(&self, node: NodeNum, request: &Incoming<'_>, reply: Reply<'_>, plus: bool) {
        let kind = if plus { Request::ReadDirPlus } else { Request::ReadDir };
        BUFFER.with_borrow_mut(|buffer| {
            let listed = self.answer(kind, node, || {
                let ReadIn { offset, size, .. } = request.arguments().ok_or(Errno::INVAL)?;
                let mut listing = Listing::new(room(buffer, size)?);
                listing.fill(self, node, offset, plus)?;
                Ok(listing.length())
            });
            match listed {
                Ok(length) => reply.bytes(buffer.get(..length).unwrap_or_default()),
                Err(errno) => reply.error(errno),
            }
        });
    }

    /// The filesystem's size is what the image takes up, as for other compressed ones.
    fn statfs(&self, node: NodeNum, reply: Reply<'_>) {
        match self.answer(Request::StatFs, node, || Ok(self.stack.totals())) {
            Ok(totals) => reply.record(&StatfsOut {
                blocks: totals.stored_bytes.div_ceil(u64::from(STATFS_UNIT)),
                bfree: 0,
                bavail: 0,
                files: totals.inodes,
                ffree: 0,
                bsize: STATFS_UNIT,
                namelen: NAME_MAX,
                frsize: STATFS_UNIT,
                padding: 0,
                spare: [0; 6],
            }),
            Err(errno) => reply.error(errno),
        }
    }

    fn getxattr(&self, node: NodeNum, request: &Incoming<'_>, reply: Reply<'_>) {
        let answer = self.answer(Request::GetXattr, node, || {
            let GetxattrIn { size, .. } = request.arguments().ok_or(Errno::INVAL)?;
            let name = request.name(size_of::<GetxattrIn>()).ok_or(Errno::INVAL)?;
            xattr::get(&self.stack, node, name, size)
        });
        reply_xattr(answer, reply);
    }

    fn listxattr(&self, node: NodeNum, request: &Incoming<'_>, reply: Reply<'_>) {
        let answer = self.answer(Request::ListXattr, node, || {
            let GetxattrIn { size, .. } = request.arguments().ok_or(Errno::INVAL)?;
            xattr::list(&self.stack, node, size, request.header.pid)
        });
        reply_xattr(answer, reply);
    }

    fn lseek(&self, node: NodeNum, request: &Incoming<'_>, reply: Reply<'_>) {
        let found = self.answer(Request::Lseek, node, || {
            let LseekIn { offset, whence, .. } = request.arguments().ok_or(Errno::INVAL)?;
            self.seek(node, offset, whence)
        });
        match found {
            Ok(offset) => reply.record(&LseekOut { offset }),
            Err(errno) => reply.error(errno),
        }
    }
}

/// `size` bytes of a buffer, which is made larger when it must be.
fn room(buffer: &mut Vec<u8>, size: u32) -> Result<&mut [u8], Errno> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    if size > READ_MAX {
        return Err(Errno::INVAL);
    }
    if buffer.len() < size {
        buffer.resize(size, 0);
    }
    Ok(buffer.get_mut(..size).unwrap_or_default())
}

fn reply_xattr(answer: Result<Answer, Errno>, reply: Reply<'_>) {
    match answer {
        Ok(Answer::Size(size)) => reply.record(&GetxattrOut { size, padding: 0 }),
        Ok(Answer::Data(data)) => reply.bytes(&data),
        Err(errno) => reply.error(errno),
    }
}
