//! A tree as a plan, and its making on a filesystem, in any order of names.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};

use super::content::Content;
use super::random::Random;

/// What an object is.
#[derive(Debug, Clone)]
pub enum What {
    Directory,
    File(Content),
    Symlink(Vec<u8>),
    Fifo,
    Socket,
    CharDevice(u32, u32),
    BlockDevice(u32, u32),
}

/// Attributes; all are set explicitly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    /// Seconds since 1970, and nanoseconds to be added.
    pub mtime: (i64, u32),
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Meta {
    /// Root's, with nothing special.
    pub fn plain(permissions: u16) -> Self {
        Self { permissions, uid: 0, gid: 0, mtime: (1_700_000_000, 0), xattrs: Vec::new() }
    }
}

#[derive(Debug, Clone)]
pub struct Object {
    pub what: What,
    pub meta: Meta,
}

/// An object's number in its plan; the root is 0.
pub type Number = usize;

#[derive(Debug, Clone)]
struct Name {
    name: Vec<u8>,
    object: Number,
}

/// A tree to be made.
#[derive(Debug, Clone)]
pub struct Plan {
    objects: Vec<Object>,
    /// By object; empty for what is no directory.
    children: Vec<Vec<Name>>,
    names: Vec<u32>,
}

pub const ROOT: Number = 0;

impl Plan {
    pub fn new(root: Meta) -> Self {
        let root = Object { what: What::Directory, meta: root };
        Self { objects: vec![root], children: vec![Vec::new()], names: vec![1] }
    }

    pub fn add(&mut self, parent: Number, name: &[u8], what: What, meta: Meta) -> Number {
        assert!(!self.has(parent, name), "{} twice", name.escape_ascii());
        self.add_unchecked(parent, name, what, meta)
    }

    /// As [`Self::add`] for directories so large that looking is too slow.
    pub fn add_unchecked(&mut self, at: Number, name: &[u8], what: What, meta: Meta) -> Number {
        let number = self.objects.len();
        self.objects.push(Object { what, meta });
        self.children.push(Vec::new());
        self.names.push(0);
        self.link_unchecked(at, name, number);
        number
    }

    /// Gives an object one more name.
    pub fn link(&mut self, parent: Number, name: &[u8], object: Number) {
        assert!(!self.has(parent, name), "{} twice", name.escape_ascii());
        self.link_unchecked(parent, name, object);
    }

    pub fn link_unchecked(&mut self, parent: Number, name: &[u8], object: Number) {
        self.children[parent].push(Name { name: name.to_vec(), object });
        self.names[object] += 1;
    }

    pub fn has(&self, parent: Number, name: &[u8]) -> bool {
        self.children[parent].iter().any(|child| child.name == name)
    }

    pub fn object(&self, number: Number) -> &Object {
        &self.objects[number]
    }

    pub fn object_mut(&mut self, number: Number) -> &mut Object {
        &mut self.objects[number]
    }

    /// The names in a directory and what they stand for.
    pub fn names(&self, directory: Number) -> Vec<(Vec<u8>, Number)> {
        self.children[directory].iter().map(|name| (name.name.clone(), name.object)).collect()
    }

    /// Takes a name away, and with a directory everything below it.
    pub fn remove(&mut self, parent: Number, name: &[u8]) {
        self.children[parent].retain(|child| child.name != name);
    }

    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Makes the tree in an empty directory; in the order of the plan or, with
    /// a seed, in another.
    pub fn make(&self, root: &Path, order: Option<u64>) {
        let directory = File::open(root).unwrap();
        let mut maker = Maker { plan: self, made: HashMap::new(), order: order.map(Random::new) };
        maker.fill(ROOT, directory.as_fd(), b"").unwrap_or_else(|(path, error)| {
            panic!("cannot make {:?}: {error}", path.escape_ascii().to_string())
        });
    }
}

struct Maker<'a> {
    plan: &'a Plan,
    /// Objects of several names that have one.
    made: HashMap<Number, OwnedFd>,
    order: Option<Random>,
}

type Made = Result<(), (Vec<u8>, io::Error)>;

impl Maker<'_> {
    fn fill(&mut self, directory: Number, fd: BorrowedFd<'_>, path: &[u8]) -> Made {
        let mut children: Vec<&Name> = self.plan.children[directory].iter().collect();
        if let Some(random) = &mut self.order {
            random.shuffle(&mut children);
        }
        for child in children {
            let path = [path, b"/", &child.name].concat();
            let object = &self.plan.objects[child.object];
            if matches!(object.what, What::Directory) {
                let opened = make_directory(fd, &child.name).map_err(|e| (path.clone(), e))?;
                self.fill(child.object, opened.as_fd(), &path)?;
                set_directory(opened.as_fd(), &object.meta).map_err(|e| (path, e))?;
            } else {
                self.object(fd, child, object).map_err(|e| (path, e))?;
            }
        }
        if directory == ROOT {
            set_directory(fd, &self.plan.objects[ROOT].meta).map_err(|e| (path.to_vec(), e))?;
        }
        Ok(())
    }

    fn object(&mut self, fd: BorrowedFd<'_>, child: &Name, object: &Object) -> io::Result<()> {
        let name = OsStr::from_bytes(&child.name);
        if let Some(made) = self.made.get(&child.object) {
            return Ok(rustix::fs::linkat(made, c"", fd, name, AtFlags::EMPTY_PATH)?);
        }
        make_object(fd, &child.name, &object.what)?;
        set_object(fd, &child.name, object)?;
        if self.plan.names[child.object] > 1 {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = rustix::fs::openat(fd, name, flags, Mode::empty())?;
            self.made.insert(child.object, made);
        }
        Ok(())
    }
}

fn make_directory(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o700))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
}

fn make_object(parent: BorrowedFd<'_>, name: &[u8], what: &What) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o600);
    let node = |kind, device| rustix::fs::mknodat(parent, name, kind, mode, device);
    match what {
        What::Directory => unreachable!("directories are made elsewhere"),
        What::File(content) => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(parent, name, flags, mode)?);
            content.write(&file)?;
        }
        What::Symlink(target) => rustix::fs::symlinkat(target.as_slice(), parent, name)?,
        What::Fifo => node(FileType::Fifo, 0)?,
        What::Socket => node(FileType::Socket, 0)?,
        What::CharDevice(major, minor) => {
            node(FileType::CharacterDevice, rustix::fs::makedev(*major, *minor))?;
        }
        What::BlockDevice(major, minor) => {
            node(FileType::BlockDevice, rustix::fs::makedev(*major, *minor))?;
        }
    }
    Ok(())
}

/// Owner before permissions before attributes, because each may clear the
/// next; times last.
fn set_object(parent: BorrowedFd<'_>, name: &[u8], object: &Object) -> io::Result<()> {
    let meta = &object.meta;
    let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
    let nofollow = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(parent, name, Some(uid), Some(gid), nofollow)?;
    if !matches!(object.what, What::Symlink(_)) {
        let mode = Mode::from_raw_mode(u32::from(meta.permissions));
        rustix::fs::chmodat(parent, name, mode, AtFlags::empty())?;
    }
    let path = [format!("/proc/self/fd/{}/", parent.as_raw_fd()).as_bytes(), name].concat();
    for (key, value) in &meta.xattrs {
        let set = rustix::fs::lsetxattr(&*path, &**key, value, XattrFlags::CREATE);
        set.map_err(|errno| xattr_error(key, errno.into()))?;
    }
    Ok(rustix::fs::utimensat(parent, name, &times(meta), nofollow)?)
}

fn set_directory(fd: BorrowedFd<'_>, meta: &Meta) -> io::Result<()> {
    rustix::fs::fchown(fd, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)))?;
    rustix::fs::fchmod(fd, Mode::from_raw_mode(u32::from(meta.permissions)))?;
    for (key, value) in &meta.xattrs {
        let set = rustix::fs::fsetxattr(fd, &**key, value, XattrFlags::CREATE);
        set.map_err(|errno| xattr_error(key, errno.into()))?;
    }
    Ok(rustix::fs::futimens(fd, &times(meta))?)
}

fn xattr_error(key: &[u8], error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("xattr {}: {error}", key.escape_ascii()))
}

fn times(meta: &Meta) -> Timestamps {
    let (seconds, nanoseconds) = meta.mtime;
    let time = Timespec { tv_sec: seconds, tv_nsec: i64::from(nanoseconds) };
    Timestamps { last_access: time, last_modification: time }
}
