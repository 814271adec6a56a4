//! Nothing can be changed on a mount: every way to try gives EROFS.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

/// Tries on the root of a mount, and on a regular file, symbolic link and
/// directory in it, whichever there are.
#[track_caller]
pub fn assert_read_only(mount: &Path) {
    let directory = std::fs::File::open(mount).unwrap();
    let fd = directory.as_fd();
    let new = "microfs-test-new";
    refused(
        mount,
        "create",
        rustix::fs::openat(fd, new, OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).map(drop),
    );
    refused(mount, "mkdir", rustix::fs::mkdirat(fd, new, Mode::RWXU));
    refused(mount, "symlink", rustix::fs::symlinkat("target", fd, new));
    let fifo = rustix::fs::mknodat(fd, new, FileType::Fifo, Mode::RUSR, 0);
    refused(mount, "mknod", fifo);
    attributes(mount);
    let mut tried = 0;
    for entry in std::fs::read_dir(mount).unwrap() {
        let entry = entry.unwrap();
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            refused(&path, "rmdir", rustix::fs::rmdir(&path));
        } else {
            refused(&path, "unlink", rustix::fs::unlink(&path));
            let link = rustix::fs::linkat(fd, entry.file_name(), fd, new, AtFlags::empty());
            refused(&path, "link", link);
        }
        refused(&path, "rename", rustix::fs::renameat(fd, entry.file_name(), fd, new));
        if kind.is_file() {
            refused(
                &path,
                "truncate",
                rustix::fs::open(&path, OFlags::WRONLY | OFlags::TRUNC, Mode::empty()).map(drop),
            );
            let write = rustix::fs::open(&path, OFlags::RDWR, Mode::empty());
            refused(&path, "open for writing", write.map(drop));
        }
        if !kind.is_symlink() {
            attributes(&path);
        }
        tried += 1;
        if tried == 20 {
            break;
        }
    }
}

#[track_caller]
fn attributes(path: &Path) {
    refused(path, "chmod", rustix::fs::chmod(path, Mode::RUSR));
    let owner = rustix::fs::chown(path, Some(Uid::from_raw(1)), Some(Gid::from_raw(1)));
    refused(path, "chown", owner);
    let time = Timespec { tv_sec: 1, tv_nsec: 1 };
    let times = Timestamps { last_access: time, last_modification: time };
    let utimens = rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::empty());
    refused(path, "utimens", utimens);
    let set = rustix::fs::setxattr(path, c"user.new", b"value", XattrFlags::empty());
    refused(path, "setxattr", set);
    let remove = rustix::fs::removexattr(path, c"user.new");
    refused(path, "removexattr", remove);
}

#[track_caller]
fn refused(path: &Path, what: &str, result: Result<(), Errno>) {
    assert_eq!(result, Err(Errno::ROFS), "{what} {}", path.display());
}
