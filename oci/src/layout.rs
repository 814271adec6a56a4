//! The layout folder: made whole, changed atomically.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use serde::Deserialize;

use crate::create;
use crate::dir::{self, Dir};
use crate::error::{Document, OciError};
use crate::index::Index;
use crate::limits::Limits;
use crate::lock::{Lock, Mode};
use crate::session::Session;

pub(crate) const HEADER: &str = "oci-layout";
pub(crate) const INDEX: &str = "index.json";
pub(crate) const BLOBS: &str = "blobs";
pub(crate) const PRIVATE: &str = ".microfs";
pub(crate) const LOCK: &str = "lock";
pub(crate) const NEXT_INDEX: &str = "index.json.new";
pub(crate) const NEXT_HEADER: &str = "oci-layout.new";

/// Nothing real comes near: the specification's header has one short field.
pub(crate) const HEADER_LIMIT: u64 = 64 << 10;

/// An open OCI image layout. Clones share the open folder.
///
/// The folder stays the one that was opened, whatever happens to its path and
/// to the working directory of the process.
#[derive(Clone, Debug)]
pub struct Layout {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: Dir,
    limits: Limits,
}

#[derive(Deserialize)]
struct Header {
    #[serde(rename = "imageLayoutVersion")]
    version: String,
}

impl Layout {
    /// Whether a folder has an `oci-layout` file.
    #[must_use]
    pub fn is_layout(path: &Path) -> bool {
        path.join(HEADER).is_file()
    }

    /// Opens an existing layout. Nothing is written and no lock is taken.
    ///
    /// # Errors
    /// [`OciError::NotALayout`], [`OciError::LayoutVersion`] unless
    /// `imageLayoutVersion` is 1.x, [`OciError::Io`].
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, OciError> {
        Self::open_with(path, Limits::default())
    }

    /// [`Layout::open`] with other limits.
    ///
    /// # Errors
    /// As [`Layout::open`].
    pub fn open_with(path: impl Into<PathBuf>, limits: Limits) -> Result<Self, OciError> {
        let path = path.into();
        let root = match Dir::open_root(&path) {
            Err(OciError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotADirectory =>
            {
                return Err(OciError::NotALayout { path });
            }
            other => other?,
        };
        check_header(&root)?;
        Ok(Self { inner: Arc::new(Inner { root, limits }) })
    }

    /// Opens a layout, or makes one where there is no folder or an empty one.
    ///
    /// Any number of processes may do this at once. A kill in the middle
    /// leaves a folder that the next call completes.
    ///
    /// # Errors
    /// [`OciError::NotEmpty`] for a folder that holds something else; as
    /// [`Layout::open`] for one that is a layout.
    pub fn create_or_open(path: impl Into<PathBuf>) -> Result<Self, OciError> {
        create::create_or_open(path.into()).map(|(layout, _)| layout)
    }

    /// The path it was opened by.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.inner.root.path()
    }

    /// The limits that hold for reading it.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub(crate) fn root(&self) -> &Dir {
        &self.inner.root
    }

    /// Reads `index.json`.
    ///
    /// # Errors
    /// [`OciError::Io`] when it is missing, [`OciError::TooLarge`], and those
    /// of [`Index::parse`].
    pub fn index(&self) -> Result<Index, OciError> {
        Index::parse(&self.index_bytes()?, &self.path().join(INDEX))
    }

    pub(crate) fn index_bytes(&self) -> Result<Vec<u8>, OciError> {
        let bytes = self.root().read(INDEX, Document::Index, self.limits().index_bytes)?;
        bytes.ok_or_else(|| OciError::sys("read", self.path().join(INDEX))(Errno::NOENT))
    }

    /// Starts a session, in which blobs can be written and tagged.
    ///
    /// # Errors
    /// [`OciError::Io`].
    pub fn begin(&self) -> Result<Session, OciError> {
        Session::begin(self)
    }

    /// For a writer that holds the lock: whoever made the layout may have
    /// removed it before.
    pub(crate) fn check_present(&self) -> Result<(), OciError> {
        match self.root().file(HEADER)? {
            Some(_) => Ok(()),
            None => Err(OciError::NotALayout { path: self.path().into() }),
        }
    }

    /// Takes the lock of the layout, making the file for it when needed.
    pub(crate) fn lock(&self, mode: Mode) -> Result<Lock, OciError> {
        lock(self.root(), mode)
    }

    /// The same for a reader: without the file there was no writer yet, and
    /// then there is nothing to wait for.
    pub(crate) fn lock_if_possible(&self, mode: Mode) -> Result<Option<Lock>, OciError> {
        let Some(private) = self.root().dir(PRIVATE)? else { return Ok(None) };
        let Some(file) = private.file(LOCK)? else { return Ok(None) };
        Lock::wait(file, &private.path().join(LOCK), mode).map(Some)
    }

    /// Changes `index.json` alone: the lock is held from reading to renaming.
    /// When `edit` fails nothing is written.
    pub(crate) fn edit_index<T>(
        &self,
        edit: impl FnOnce(&mut Index) -> Result<T, OciError>,
    ) -> Result<T, OciError> {
        let _lock = self.lock(Mode::Exclusive)?;
        let before = self.index_bytes()?;
        let mut index = Index::parse_to_edit(&before, &self.path().join(INDEX))?;
        let result = edit(&mut index)?;
        let after = index.to_bytes()?;
        if after != before {
            let limit = self.limits().index_bytes;
            let size = u64::try_from(after.len()).unwrap_or(u64::MAX);
            if size > limit {
                let path = self.path().join(INDEX);
                return Err(OciError::TooLarge { path, document: Document::Index, size, limit });
            }
            write_atomically(self.root(), NEXT_INDEX, INDEX, &after)?;
        }
        Ok(result)
    }
}

fn check_header(root: &Dir) -> Result<(), OciError> {
    let path = root.path().join(HEADER);
    let bytes = root.read(HEADER, Document::LayoutHeader, HEADER_LIMIT)?;
    let bytes = bytes.ok_or_else(|| OciError::NotALayout { path: root.path().into() })?;
    check_header_text(&bytes, &path)
}

/// Checks the content of an `oci-layout` file; `path` is for messages.
pub(crate) fn check_header_text(bytes: &[u8], path: &Path) -> Result<(), OciError> {
    let header: Header = serde_json::from_slice(bytes).map_err(|source| OciError::Json {
        path: path.into(),
        document: Document::LayoutHeader,
        source,
    })?;
    match header.version.split_once('.') {
        Some(("1", _)) => Ok(()),
        _ => Err(OciError::LayoutVersion { path: path.into(), version: header.version }),
    }
}

pub(crate) fn lock(root: &Dir, mode: Mode) -> Result<Lock, OciError> {
    let take = || loop {
        let private = root.make_dir(PRIVATE)?;
        let lock = Lock::wait(private.make_file(LOCK)?, &private.path().join(LOCK), mode)?;
        // Whoever had it may have removed the layout, and this file with it.
        if lock.is_linked(&private.path().join(LOCK))? {
            return Ok(lock);
        }
    };
    take().map_err(|source| OciError::NotWritable {
        layout: root.path().into(),
        source: Box::new(source),
    })
}

/// Replaces a file of the layout. The caller holds the lock alone, so the
/// temporary name is free or a left-over.
pub(crate) fn write_atomically(
    root: &Dir,
    temporary: &str,
    name: &str,
    bytes: &[u8],
) -> Result<(), OciError> {
    let private = root.make_dir(PRIVATE)?;
    private.unlink(OsStr::new(temporary))?;
    let path = private.path().join(temporary);
    let write = || {
        let mut file = private.create_file(temporary)?;
        if let Some(old) = root.stat(OsStr::new(name))? {
            let mode = rustix::fs::Mode::from_raw_mode(old.st_mode & 0o777);
            rustix::fs::fchmod(&file, mode).map_err(OciError::sys("set the mode of", &path))?;
        }
        std::io::Write::write_all(&mut file, bytes).map_err(OciError::io("write", &path))?;
        dir::sync_file(&file, &path)?;
        private.rename(temporary, root, name)
    };
    if let Err(error) = write() {
        // The cause is worth more than a second failure while tidying up.
        let _ = private.unlink(OsStr::new(temporary));
        return Err(error);
    }
    root.sync()
}
