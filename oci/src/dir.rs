//! Files and folders named relative to an open folder, links never followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{Document, OciError};

/// Mode of new files and folders before the umask.
const FILE_MODE: Mode = Mode::from_raw_mode(0o666);
const DIR_MODE: Mode = Mode::from_raw_mode(0o777);

/// An open folder. The descriptor decides; the path is for messages.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl Dir {
    /// Opens a folder named by the user, where links are followed.
    pub(crate) fn open_root(path: &Path) -> Result<Self, OciError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd =
            rustix::fs::open(path, flags, Mode::empty()).map_err(OciError::sys("open", path))?;
        Ok(Self { fd, path: path.into() })
    }

    /// The path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What the folder itself is.
    pub(crate) fn own_stat(&self) -> Result<Stat, OciError> {
        rustix::fs::fstat(&self.fd).map_err(OciError::sys("examine", &self.path))
    }

    /// The same folder once more.
    pub(crate) fn again(&self) -> Result<Self, OciError> {
        let fd = self.fd.try_clone().map_err(OciError::io("open", &self.path))?;
        Ok(Self { fd, path: self.path.clone() })
    }

    /// The target of a symbolic link below; `None` when it is something else.
    pub(crate) fn read_link(&self, name: &str) -> Result<Option<Vec<u8>>, OciError> {
        match rustix::fs::readlinkat(&self.fd, name, Vec::new()) {
            Ok(target) => Ok(Some(target.into_bytes())),
            Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(OciError::sys("read", self.path.join(name))(errno)),
        }
    }

    /// Opens a folder below; `None` when there is nothing of that name.
    pub(crate) fn dir(&self, name: &str) -> Result<Option<Self>, OciError> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { fd, path })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(OciError::WrongType { path, expected: "folder" })
            }
            Err(errno) => Err(OciError::sys("open", path)(errno)),
        }
    }

    /// Opens a folder below, created durably when absent.
    pub(crate) fn make_dir(&self, name: &str) -> Result<Self, OciError> {
        if let Some(dir) = self.dir(name)? {
            return Ok(dir);
        }
        self.create_dir(name)?;
        self.sync()?;
        self.dir(name)?.ok_or_else(|| OciError::sys("open", self.path.join(name))(Errno::NOENT))
    }

    /// Creates a folder below; `false` when the name was taken already.
    pub(crate) fn create_dir(&self, name: &str) -> Result<bool, OciError> {
        match rustix::fs::mkdirat(&self.fd, name, DIR_MODE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(OciError::sys("create", self.path.join(name))(errno)),
        }
    }

    /// Opens a regular file below for reading; `None` when absent.
    pub(crate) fn file(&self, name: &str) -> Result<Option<File>, OciError> {
        self.file_with(name, OFlags::RDONLY)
    }

    /// Opens a regular file below, created when absent.
    pub(crate) fn make_file(&self, name: &str) -> Result<File, OciError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::APPEND;
        self.file_with(name, flags)?
            .ok_or_else(|| OciError::sys("create", self.path.join(name))(Errno::NOENT))
    }

    /// Creates a regular file that was not there before.
    pub(crate) fn create_file(&self, name: &str) -> Result<File, OciError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.file_with(name, flags)?
            .ok_or_else(|| OciError::sys("create", self.path.join(name))(Errno::NOENT))
    }

    fn file_with(&self, name: &str, access: OFlags) -> Result<Option<File>, OciError> {
        let path = self.path.join(name);
        // NONBLOCK: opening a pipe must fail the type check, not wait for a peer.
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(&self.fd, name, flags, FILE_MODE) {
            Ok(fd) => fd,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => {
                return Err(OciError::WrongType { path, expected: "file" });
            }
            Err(errno) => return Err(OciError::sys("open", path)(errno)),
        };
        let stat = rustix::fs::fstat(&fd).map_err(OciError::sys("examine", &path))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(OciError::WrongType { path, expected: "file" });
        }
        Ok(Some(File::from(fd)))
    }

    /// Reads a whole regular file below; `None` when absent.
    pub(crate) fn read(
        &self,
        name: &str,
        document: Document,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, OciError> {
        let Some(file) = self.file(name)? else { return Ok(None) };
        let path = self.path.join(name);
        let too_large = |size| OciError::TooLarge { path: path.clone(), document, size, limit };
        let size = file.metadata().map_err(OciError::io("examine", &path))?.len();
        if size > limit {
            return Err(too_large(size));
        }
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(OciError::io("read", &path))?;
        match u64::try_from(bytes.len()) {
            Ok(size) if size <= limit => Ok(Some(bytes)),
            _ => Err(too_large(limit.saturating_add(1))),
        }
    }

    /// What a name below is, links not followed; `None` when absent.
    pub(crate) fn stat(&self, name: &OsStr) -> Result<Option<Stat>, OciError> {
        match rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(OciError::sys("examine", self.path.join(name))(errno)),
        }
    }

    /// Renames a file below to a name in another folder, replacing that.
    pub(crate) fn rename(&self, name: &str, to: &Self, new: &str) -> Result<(), OciError> {
        rustix::fs::renameat(&self.fd, name, &to.fd, new)
            .map_err(OciError::sys("put in place", to.path.join(new)))
    }

    /// Removes a name that is no folder; `false` when it was gone already.
    pub(crate) fn unlink(&self, name: &OsStr) -> Result<bool, OciError> {
        self.remove(name, AtFlags::empty())
    }

    /// Removes an empty folder; `false` when it was gone already.
    pub(crate) fn remove_dir(&self, name: &OsStr) -> Result<bool, OciError> {
        self.remove(name, AtFlags::REMOVEDIR)
    }

    fn remove(&self, name: &OsStr, flags: AtFlags) -> Result<bool, OciError> {
        match rustix::fs::unlinkat(&self.fd, name, flags) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(OciError::sys("remove", self.path.join(name))(errno)),
        }
    }

    /// The names below, sorted by bytes.
    pub(crate) fn names(&self) -> Result<Vec<OsString>, OciError> {
        let error = |errno| OciError::sys("list", &self.path)(errno);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.fd).map_err(error)? {
            let name = OsStr::from_bytes(entry.map_err(error)?.file_name().to_bytes()).to_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Makes renames, creations and removals below durable.
    pub(crate) fn sync(&self) -> Result<(), OciError> {
        match rustix::fs::fsync(&self.fd) {
            // Some filesystems cannot sync a folder: nothing more can be done there.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(OciError::sys("sync", &self.path)(errno)),
        }
    }
}

/// Makes a file's content durable.
pub(crate) fn sync_file(file: impl AsFd, path: &Path) -> Result<(), OciError> {
    rustix::fs::fsync(file).map_err(OciError::sys("sync", path))
}
