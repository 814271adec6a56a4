//! Owner, attributes, mode and time of one object.

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;

use super::error::{Action, Failure, failed};
use super::report::What;
use crate::format::FileType;
use crate::stack::Attr;
use crate::tree::Timestamp;

/// How an object is reached.
#[derive(Debug, Clone, Copy)]
pub enum Handle<'a> {
    /// An open file or directory.
    Open(BorrowedFd<'a>),
    /// A name in an open directory, for what cannot be opened.
    Name(BorrowedFd<'a>, &'a [u8]),
}

const S_ISUID: u16 = 0o4000;
const S_ISGID: u16 = 0o2000;

/// What belongs to an object beside its content.
#[derive(Debug)]
pub struct Properties<'a> {
    /// Owner, mode and time.
    pub attr: &'a Attr,
    /// Attributes, sorted by name.
    pub xattrs: &'a [(Vec<u8>, Vec<u8>)],
}

impl Properties<'_> {
    /// Gives an object its properties; returns what could not be.
    pub fn restore(&self, handle: Handle<'_>) -> Result<Vec<What>, Failure> {
        let mut lost = Vec::new();
        let (uid, gid) = self.owner(handle, &mut lost)?;
        for (name, value) in self.xattrs {
            if !set_xattr(handle, name, value)? {
                lost.push(What::Xattr(name.clone()));
            }
        }
        if self.attr.file_type != FileType::Symlink {
            self.mode(handle, uid, gid, &mut lost)?;
        }
        self.time(handle, &mut lost)?;
        Ok(lost)
    }

    /// Sets the owner; returns whether user and group are those wanted.
    fn owner(&self, handle: Handle<'_>, lost: &mut Vec<What>) -> Result<(bool, bool), Failure> {
        let now = stat(handle).map_err(failed(Action::SetOwner))?;
        let right =
            |now: &rustix::fs::Stat| (now.st_uid == self.attr.uid, now.st_gid == self.attr.gid);
        if right(&now) == (true, true) {
            return Ok((true, true));
        }
        // 2^32 - 1 is no id but the kernel's word for "leave it".
        let uid = Some(self.attr.uid).filter(|id| *id != u32::MAX).map(Uid::from_raw);
        let gid = Some(self.attr.gid).filter(|id| *id != u32::MAX).map(Gid::from_raw);
        // An owner of some files may give them to its groups, but not away.
        let both = change_owner(handle, uid, gid)?;
        if !both && uid.is_some() && gid.is_some() {
            change_owner(handle, None, gid)?;
        }
        let (user, group) = right(&stat(handle).map_err(failed(Action::SetOwner))?);
        if !(user && group) {
            lost.push(What::Owner);
        }
        Ok((user, group))
    }

    fn mode(
        &self,
        handle: Handle<'_>,
        user: bool,
        group: bool,
        lost: &mut Vec<What>,
    ) -> Result<(), Failure> {
        let mut mode = self.attr.permissions;
        if self.attr.file_type != FileType::Directory {
            if !user {
                mode &= !S_ISUID;
            }
            if !group {
                mode &= !S_ISGID;
            }
        }
        change_mode(handle, mode).map_err(failed(Action::SetMode))?;
        let mut missing = mode != self.attr.permissions;
        // The kernel drops setgid without a word when the group is not the caller's.
        if mode & S_ISGID != 0 {
            let now = stat(handle).map_err(failed(Action::SetMode))?;
            missing |= now.st_mode & u32::from(S_ISGID) == 0;
        }
        if missing {
            lost.push(What::SetId);
        }
        Ok(())
    }

    fn time(&self, handle: Handle<'_>, lost: &mut Vec<What>) -> Result<(), Failure> {
        let Timestamp { seconds, nanoseconds } = self.attr.mtime;
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() },
        };
        let set = match handle {
            Handle::Open(file) => rustix::fs::futimens(file, &times),
            Handle::Name(directory, name) => {
                rustix::fs::utimensat(directory, name, &times, AtFlags::SYMLINK_NOFOLLOW)
            }
        };
        set.map_err(failed(Action::SetTime))?;
        // Every filesystem stores these; others are clamped without a word.
        let plain = (0..=i64::from(i32::MAX)).contains(&seconds);
        if !plain {
            let now = stat(handle).map_err(failed(Action::SetTime))?;
            if now.st_mtime != seconds {
                lost.push(What::Time);
            }
        }
        Ok(())
    }
}

fn stat(handle: Handle<'_>) -> rustix::io::Result<rustix::fs::Stat> {
    match handle {
        Handle::Open(file) => rustix::fs::fstat(file),
        Handle::Name(directory, name) => {
            rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        }
    }
}

/// Whether the owner could be set. It cannot when the caller may not, or when
/// its user namespace has no such id.
fn change_owner(handle: Handle<'_>, uid: Option<Uid>, gid: Option<Gid>) -> Result<bool, Failure> {
    let changed = match handle {
        Handle::Open(file) => rustix::fs::fchown(file, uid, gid),
        Handle::Name(directory, name) => {
            rustix::fs::chownat(directory, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
        }
    };
    match changed {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => Ok(false),
        Err(errno) => Err(failed(Action::SetOwner)(errno)),
    }
}

fn change_mode(handle: Handle<'_>, mode: u16) -> rustix::io::Result<()> {
    let mode = Mode::from_raw_mode(mode.into());
    match handle {
        Handle::Open(file) => rustix::fs::fchmod(file, mode),
        Handle::Name(directory, name) => {
            // There is no call that sets a mode by name without following
            // links on every kernel; a handle that was not opened has none to follow.
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let object = rustix::fs::openat(directory, name, flags, Mode::empty())?;
            rustix::fs::chmod(format!("/proc/self/fd/{}", object.as_raw_fd()), mode)
        }
    }
}

/// Whether the attribute could be set.
fn set_xattr(handle: Handle<'_>, name: &[u8], value: &[u8]) -> Result<bool, Failure> {
    let Ok(name) = CString::new(name) else { return Ok(false) };
    let flags = XattrFlags::empty();
    let set = match handle {
        Handle::Open(file) => rustix::fs::fsetxattr(file, &*name, value, flags),
        Handle::Name(directory, object) => {
            let mut path = format!("/proc/self/fd/{}/", directory.as_fd().as_raw_fd()).into_bytes();
            path.extend_from_slice(object);
            rustix::fs::lsetxattr(path, &*name, value, flags)
        }
    };
    match set {
        Ok(()) => Ok(true),
        Err(
            Errno::PERM
            | Errno::ACCESS
            | Errno::OPNOTSUPP
            | Errno::INVAL
            | Errno::NOSPC
            | Errno::TOOBIG
            | Errno::RANGE
            | Errno::NOENT
            | Errno::NOTDIR,
        ) => Ok(false),
        Err(errno) => Err(failed(Action::SetXattr)(errno)),
    }
}
