//! A temporary directory and short ways to fill it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, XattrFlags, lsetxattr,
    makedev, mkdirat, mknodat, openat, renameat_with, unlinkat, utimensat,
};
use tempfile::TempDir;

use crate::scan::{Scan, ScanOptions, Scanned};
use crate::tree::{Node, NodeId, Target, Tree};

pub(crate) struct Fixture {
    directory: TempDir,
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("microfs-test-").tempdir().unwrap();
        Self { directory }
    }

    /// On a tmpfs, which has files of 2^63 - 1 bytes.
    pub(crate) fn in_memory() -> Self {
        let directory = tempfile::Builder::new().prefix("microfs-test-").tempdir_in("/dev/shm");
        Self { directory: directory.unwrap() }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn join(&self, name: impl AsRef<[u8]>) -> PathBuf {
        self.path().join(std::ffi::OsStr::from_bytes(name.as_ref()))
    }

    pub(crate) fn file(&self, name: impl AsRef<[u8]>, content: &[u8]) -> &Self {
        fs::write(self.join(name), content).unwrap();
        self
    }

    pub(crate) fn directory(&self, name: impl AsRef<[u8]>) -> &Self {
        fs::create_dir(self.join(name)).unwrap();
        self
    }

    pub(crate) fn symlink(&self, name: impl AsRef<[u8]>, target: &[u8]) -> &Self {
        symlink(std::ffi::OsStr::from_bytes(target), self.join(name)).unwrap();
        self
    }

    pub(crate) fn link(&self, old: &str, new: &str) -> &Self {
        fs::hard_link(self.join(old), self.join(new)).unwrap();
        self
    }

    pub(crate) fn node(&self, name: &str, file_type: FileType, major: u32, minor: u32) -> &Self {
        let mode = Mode::from_raw_mode(0o640);
        mknodat(CWD, self.join(name), file_type, mode, makedev(major, minor)).unwrap();
        self
    }

    pub(crate) fn socket(&self, name: &str) -> &Self {
        drop(std::os::unix::net::UnixListener::bind(self.join(name)).unwrap());
        self
    }

    /// A file of a size, holes but for the given pieces.
    pub(crate) fn sparse(&self, name: &str, size: u64, pieces: &[(u64, &[u8])]) -> &Self {
        let file = File::create(self.join(name)).unwrap();
        file.set_len(size).unwrap();
        for (offset, bytes) in pieces {
            file.write_all_at(bytes, *offset).unwrap();
        }
        self
    }

    pub(crate) fn xattr(&self, name: &str, key: &str, value: &[u8]) -> &Self {
        lsetxattr(self.join(name), key, value, XattrFlags::empty()).unwrap();
        self
    }

    /// Sets access and modification time.
    pub(crate) fn times(&self, name: &str, seconds: i64, nanoseconds: i64) -> &Self {
        set_times(&self.join(name), seconds, nanoseconds);
        self
    }

    pub(crate) fn scan(&self) -> Scanned {
        self.scan_with(&ScanOptions::default())
    }

    pub(crate) fn scan_with(&self, options: &ScanOptions) -> Scanned {
        Scan::run(self.path(), options).unwrap()
    }

    /// A chain of directories called `d`, with a file called `f` in each of
    /// those levels; the path of the deepest has twice as many bytes as levels.
    pub(crate) fn chain(&self, depth: usize, with_file: impl Fn(usize) -> bool) -> &Self {
        let mut at: OwnedFd = openat(CWD, self.path(), directory_flags(), Mode::empty()).unwrap();
        for level in 0..depth {
            mkdirat(&at, "d", Mode::from_raw_mode(0o755)).unwrap();
            at = openat(&at, "d", directory_flags(), Mode::empty()).unwrap();
            if with_file(level) {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
                let file = openat(&at, "f", flags, Mode::from_raw_mode(0o644)).unwrap();
                rustix::io::write(file, level.to_string().as_bytes()).unwrap();
            }
        }
        self
    }

    /// Takes down what [`Fixture::chain`] made, one level at a time: paths
    /// would be too long, and `std` goes down by recursion.
    pub(crate) fn remove_chain(&self) {
        let root = openat(CWD, self.path(), directory_flags(), Mode::empty()).unwrap();
        let root = root.as_fd();
        loop {
            let _ = unlinkat(root, "d/f", AtFlags::empty());
            let more = renameat_with(root, "d/d", root, "next", RenameFlags::NOREPLACE).is_ok();
            unlinkat(root, "d", AtFlags::REMOVEDIR).unwrap();
            if !more {
                return;
            }
            renameat_with(root, "next", root, "d", RenameFlags::NOREPLACE).unwrap();
        }
    }
}

pub(crate) fn set_times(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn directory_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

/// An access or default list: owner rwx, one named user r-x, group and mask
/// r-x, others nothing (acl(5); layout of `posix_acl_xattr.h`).
pub(crate) fn access_list(user: u32) -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let mut value = 2u32.to_le_bytes().to_vec();
    let entries: [(u16, u16, u32); 5] =
        [(0x01, 7, NO_ID), (0x02, 5, user), (0x04, 5, NO_ID), (0x10, 5, NO_ID), (0x20, 0, NO_ID)];
    for (tag, permissions, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(permissions.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

/// `cap_net_raw+ep`, as `setcap` writes it (`struct vfs_cap_data`, revision 2).
pub(crate) fn capability() -> Vec<u8> {
    [0x0200_0001u32, 1 << 13, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Every path of a tree with its node.
pub(crate) fn paths(tree: &Tree) -> BTreeMap<Vec<u8>, NodeId> {
    let mut directories = BTreeMap::from([(NodeId::ROOT, Vec::new())]);
    let mut found = BTreeMap::from([(Vec::new(), NodeId::ROOT)]);
    for dentry in tree.dentries() {
        // A directory's own name comes before the names in it.
        let mut path: Vec<u8> = directories[&dentry.parent].clone();
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(tree.bytes(dentry.name));
        let Target::Node(node) = dentry.target else { panic!("no whiteouts on disk") };
        if tree.node(node).kind.is_directory() {
            directories.insert(node, path.clone());
        }
        assert!(found.insert(path, node).is_none());
    }
    found
}

pub(crate) fn names(tree: &Tree) -> Vec<String> {
    paths(tree).into_keys().map(|path| String::from_utf8(path).unwrap()).collect()
}

pub(crate) fn find<'t>(tree: &'t Tree, path: &str) -> (NodeId, &'t Node) {
    let node = paths(tree)[path.as_bytes()];
    (node, tree.node(node))
}
