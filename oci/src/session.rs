//! Leases: what a running builder relies on is not garbage.
//!
//! # The rule
//!
//! [`crate::gc`] keeps a blob when an image refers to it **or** when the lease
//! of a live session lists it. A session appends a digest to its lease *before*
//! the blob gets its final name, and drops the lease only after the tag is
//! written. Putting a blob in place holds the layout's lock shared; gc holds it
//! alone from reading the leases to the last removal. So gc sees either the
//! lease or the tag, never neither.
//!
//! A session is live while its lease file is flocked. The lock dies with the
//! process, so a killed builder blocks nothing: the next gc removes what it
//! left. Other tools do not take part; where they write into the same layout,
//! [`crate::GcOptions::keep_newer_than`] protects what they stored recently.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use oci_spec::image::Digest;

use crate::create::{self, Made};
use crate::descriptor::Descriptor;
use crate::dir::{self, Dir};
use crate::error::OciError;
use crate::layout::{Layout, PRIVATE};
use crate::lock::{Lock, Mode};
use crate::media_type::NodeKind;
use crate::reference::check_tag;
use crate::store::{self, Blob, BlobWriter};

pub(crate) const SESSIONS: &str = "sessions";
pub(crate) const LEASE: &str = "lease";

/// How often a layout that was removed meanwhile is made again.
const RETRIES: usize = 8;

/// A builder at work on a layout. Clones share one lease, which ends when the
/// last of them is dropped, [`BlobWriter`]s included.
#[derive(Clone, Debug)]
pub struct Session {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    layout: Layout,
    sessions: Dir,
    dir: Dir,
    name: String,
    lease: File,
    next: AtomicU64,
    /// Only where this session made the layout.
    made: Option<Made>,
    published: AtomicBool,
    _live: Lock,
}

impl Session {
    /// Starts a session in a layout, which is made where there is none. When
    /// the session ends and has published nothing, a layout that it made is
    /// removed again, unless anything is in it or anybody else is at work.
    ///
    /// # Errors
    /// As [`Layout::create_or_open`] and [`Layout::begin`].
    pub fn in_new(path: impl Into<PathBuf>) -> Result<Self, OciError> {
        let path = path.into();
        let mut again = 0..RETRIES;
        loop {
            let (layout, made) = create::create_or_open(path.clone())?;
            match Self::start(&layout, made) {
                // Whoever made it has removed it meanwhile.
                Err(_) if create::is_gone(&layout) && again.next().is_some() => {}
                result => return result,
            }
        }
    }

    pub(crate) fn begin(layout: &Layout) -> Result<Self, OciError> {
        Self::start(layout, None)
    }

    fn start(layout: &Layout, made: Option<Made>) -> Result<Self, OciError> {
        // Shared: gc must not find the lease between its creation and its lock.
        let _lock = layout.lock(Mode::Shared)?;
        layout.check_present()?;
        let sessions = layout.root().make_dir(PRIVATE)?.make_dir(SESSIONS)?;
        let process = std::process::id();
        let mut number = 0_u64;
        let name = loop {
            let name = format!("{process}-{number}");
            if sessions.create_dir(&name)? {
                break name;
            }
            number = number.saturating_add(1);
        };
        let taken = sessions.make_dir(&name).and_then(|dir| {
            let (lease, live) = take_lease(&dir).inspect_err(|_| remove_lease(&dir))?;
            Ok((dir, lease, live))
        });
        let (dir, lease, live) = taken.inspect_err(|_| remove_session(&sessions, &name))?;
        let inner = Inner {
            layout: layout.clone(),
            sessions,
            dir,
            name,
            lease,
            next: AtomicU64::new(0),
            made,
            published: AtomicBool::new(false),
            _live: live,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The layout this session works on.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    /// Starts a new blob.
    ///
    /// # Errors
    /// [`OciError::Io`].
    pub fn blob(&self) -> Result<BlobWriter, OciError> {
        let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
        BlobWriter::create(self.clone(), format!("{number}.tmp"))
    }

    /// Stores bytes that are at hand as a blob.
    ///
    /// # Errors
    /// [`OciError::Io`].
    pub fn put(&self, bytes: &[u8]) -> Result<Blob, OciError> {
        let mut writer = self.blob()?;
        writer.write_all(bytes).map_err(OciError::io("write", writer.path()))?;
        writer.commit()
    }

    /// Relies on a blob that is in the layout already: from here to the end of
    /// the session gc keeps it. `false` when it is not there, or has another
    /// size, and so has to be made. The content is not read.
    ///
    /// # Errors
    /// [`OciError::Io`], [`OciError::WrongType`].
    pub fn reuse(&self, digest: &Digest, size: u64) -> Result<bool, OciError> {
        let _lock = self.inner.layout.lock(Mode::Shared)?;
        self.add_to_lease(digest)?;
        let file = match self.inner.layout.open_blob(digest, size) {
            Ok(file) => file,
            Err(OciError::BlobMissing { .. } | OciError::BlobSize { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        // Whoever stored it may not have made it durable; a tag soon relies on it.
        let path = store::blob_path(self.inner.layout.path(), digest);
        dir::sync_file(&file, &path)?;
        if let Some(dir) = store::blob_dir(self.inner.layout.root(), digest)? {
            dir.sync()?;
        }
        Ok(true)
    }

    /// Gives a manifest (or an index) of this layout a tag, instead of whatever
    /// had it.
    ///
    /// All blobs that the document names directly must be present with the
    /// right size, which is checked under the lock; the tag appears
    /// atomically, after they are durable.
    ///
    /// # Errors
    /// [`OciError::InvalidTag`], [`OciError::NotAnImage`] when the media type
    /// is another one, [`OciError::BlobMissing`], [`OciError::BlobSize`], [`OciError::TooLarge`] when `index.json` would
    /// become too large to read, [`OciError::Io`].
    pub fn publish(&self, tag: &str, manifest: &Descriptor) -> Result<(), OciError> {
        check_tag(tag)?;
        if !matches!(
            NodeKind::of(manifest.media_type.as_ref()),
            NodeKind::Manifest | NodeKind::Index
        ) {
            return Err(OciError::NotAnImage {
                digest: manifest.digest.clone(),
                media_type: manifest.media_type.to_string(),
            });
        }
        let layout = &self.inner.layout;
        layout.edit_index(|index| {
            for descriptor in crate::image::references(layout, manifest)? {
                layout.open_blob(&descriptor.digest, descriptor.size)?;
            }
            index.put(tag, manifest)
        })?;
        self.inner.published.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Puts a finished temporary file in place of its blob.
    pub(crate) fn place(&self, temporary: &str, digest: &Digest) -> Result<(), OciError> {
        let layout = &self.inner.layout;
        let lock = layout.lock(Mode::Shared)?;
        self.add_to_lease(digest)?;
        let dir = store::make_blob_dir(layout.root(), digest)?;
        self.inner.dir.rename(temporary, &dir, digest.digest())?;
        drop(lock);
        dir.sync()
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.inner.dir
    }

    /// One line a digest. A single append, so threads do not mix their lines.
    fn add_to_lease(&self, digest: &Digest) -> Result<(), OciError> {
        let line = format!("{digest}\n");
        let written = (&self.inner.lease).write_all(line.as_bytes());
        written.map_err(OciError::io("write", self.lease_path()))
    }

    fn lease_path(&self) -> PathBuf {
        self.inner.dir.path().join(LEASE)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        remove_lease(&self.dir);
        remove_session(&self.sessions, &self.name);
        if let Some(made) = self.made.take()
            && !self.published.load(Ordering::Relaxed)
        {
            create::remove_unused(&self.layout, &made);
        }
    }
}

/// Makes the lease in a session's folder, and locks it.
fn take_lease(dir: &Dir) -> Result<(File, Lock), OciError> {
    let path = dir.path().join(LEASE);
    let lease = dir.make_file(LEASE)?;
    let handle = lease.try_clone().map_err(OciError::io("open", &path))?;
    let live = Lock::wait(handle, &path, Mode::Exclusive)?;
    Ok((lease, live))
}

// What cannot be removed by these is removed by the next gc.

fn remove_lease(dir: &Dir) {
    let _ = dir.unlink(OsStr::new(LEASE));
}

fn remove_session(sessions: &Dir, name: &str) {
    let _ = sessions.remove_dir(OsStr::new(name));
}
