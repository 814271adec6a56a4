//! Blobs: written under a temporary name and hashed on the way, read back
//! under their digest and never trusted.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use oci_spec::image::{Digest, DigestAlgorithm};

use crate::descriptor::Descriptor;
use crate::dir::{self, Dir};
use crate::error::{Document, OciError};
use crate::layout::{BLOBS, Layout};
use crate::session::Session;
use crate::verified::{Hasher, VerifiedReader};

/// A stored blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Its sha256 digest.
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
}

/// A blob being written. Append only; unbuffered, so write in large pieces.
///
/// Nothing is visible under `blobs/` before [`BlobWriter::commit`]. Dropped
/// without it, the temporary file is removed.
#[derive(Debug)]
pub struct BlobWriter {
    session: Session,
    name: String,
    file: File,
    hasher: Hasher,
    size: u64,
    placed: bool,
}

impl BlobWriter {
    pub(crate) fn create(session: Session, name: String) -> Result<Self, OciError> {
        let file = session.dir().create_file(&name)?;
        Ok(Self { session, name, file, hasher: Hasher::sha256(), size: 0, placed: false })
    }

    /// The temporary file, for reading back at an offset what was written.
    /// Writing to it directly makes [`BlobWriter::commit`] fail or, worse,
    /// store content under a digest that is not its own.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Bytes written so far.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Path of the temporary file, for messages.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.session.dir().path().join(&self.name)
    }

    /// Makes the blob durable and gives it its name.
    ///
    /// A blob of that name is replaced, never trusted: if its content or size
    /// was wrong it is right now, and whoever has it open keeps what they
    /// opened.
    ///
    /// # Errors
    /// [`OciError::Io`]; [`OciError::TemporaryChanged`] when the file was
    /// changed behind the writer's back.
    pub fn commit(mut self) -> Result<Blob, OciError> {
        let path = self.path();
        let found = self.file.metadata().map_err(OciError::io("examine", &path))?.len();
        if found != self.size {
            return Err(OciError::TemporaryChanged { path, expected: self.size, found });
        }
        dir::sync_file(&self.file, &path)?;
        let digest = self.hasher.digest()?;
        self.session.place(&self.name, &digest)?;
        self.placed = true;
        Ok(Blob { digest, size: self.size })
    }
}

impl Write for BlobWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hasher.update(bytes.get(..count).unwrap_or_default());
        self.size = self.size.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for BlobWriter {
    fn drop(&mut self) {
        if !self.placed {
            // What cannot be removed here is removed by the next gc.
            let _ = self.session.dir().unlink(OsStr::new(&self.name));
        }
    }
}

/// Where a blob lies, for messages.
pub(crate) fn blob_path(layout: &Path, digest: &Digest) -> PathBuf {
    layout.join(BLOBS).join(digest.algorithm().as_ref()).join(digest.digest())
}

/// The folder of a digest's algorithm; `None` when absent.
pub(crate) fn blob_dir(root: &Dir, digest: &Digest) -> Result<Option<Dir>, OciError> {
    match root.dir(BLOBS)? {
        Some(blobs) => blobs.dir(digest.algorithm().as_ref()),
        None => Ok(None),
    }
}

pub(crate) fn make_blob_dir(root: &Dir, digest: &Digest) -> Result<Dir, OciError> {
    root.make_dir(BLOBS)?.make_dir(digest.algorithm().as_ref())
}

impl Layout {
    /// Opens a blob for reading. The content is not read, see
    /// [`Layout::verify_blob`] and [`VerifiedReader`].
    ///
    /// No symbolic link is followed below the layout's folder.
    ///
    /// # Errors
    /// [`OciError::BlobMissing`]; [`OciError::BlobSize`] when it has not
    /// exactly `size` bytes; [`OciError::WrongType`] when it is no regular
    /// file; [`OciError::UnsupportedAlgorithm`].
    pub fn open_blob(&self, digest: &Digest, size: u64) -> Result<File, OciError> {
        let (file, found) = self.open_any_size(digest)?;
        if found == size {
            Ok(file)
        } else {
            Err(OciError::BlobSize { digest: digest.clone(), expected: size, found })
        }
    }

    pub(crate) fn open_any_size(&self, digest: &Digest) -> Result<(File, u64), OciError> {
        if !matches!(digest.algorithm(), DigestAlgorithm::Sha256 | DigestAlgorithm::Sha512) {
            return Err(OciError::UnsupportedAlgorithm { digest: digest.clone() });
        }
        let file = match blob_dir(self.root(), digest)? {
            Some(dir) => dir.file(digest.digest())?,
            None => None,
        };
        let file = file.ok_or_else(|| OciError::BlobMissing {
            layout: self.path().into(),
            digest: digest.clone(),
        })?;
        let path = blob_path(self.path(), digest);
        let size = file.metadata().map_err(OciError::io("examine", path))?.len();
        Ok((file, size))
    }

    /// A reader of a blob that checks digest and size.
    ///
    /// # Errors
    /// As [`Layout::open_blob`].
    pub fn reader(&self, descriptor: &Descriptor) -> Result<VerifiedReader<File>, OciError> {
        let file = self.open_blob(&descriptor.digest, descriptor.size)?;
        VerifiedReader::new(file, &descriptor.digest, descriptor.size)
    }

    /// Reads a whole blob into memory and verifies it. `document` and
    /// `limit` (bytes) bound what is worth reading.
    ///
    /// # Errors
    /// [`OciError::TooLarge`] before anything is read; as [`Layout::open_blob`];
    /// [`OciError::BlobDigest`].
    pub fn read_blob_verified(
        &self,
        descriptor: &Descriptor,
        document: Document,
        limit: u64,
    ) -> Result<Vec<u8>, OciError> {
        let path = blob_path(self.path(), &descriptor.digest);
        if descriptor.size > limit {
            return Err(OciError::TooLarge { path, document, size: descriptor.size, limit });
        }
        read_all(self.reader(descriptor)?, &path)
    }

    /// Reads a whole blob and discards it, to see that it is intact.
    ///
    /// # Errors
    /// As [`Layout::open_blob`]; [`OciError::BlobDigest`].
    pub fn verify_blob(&self, descriptor: &Descriptor) -> Result<(), OciError> {
        let path = blob_path(self.path(), &descriptor.digest);
        match self.reader(descriptor)?.finish() {
            Ok(_) => Ok(()),
            Err(error) => Err(OciError::from_read(error, &path)),
        }
    }
}

/// Reads a verified source to its end. Its size was checked against a limit.
pub(crate) fn read_all<R: Read>(
    mut source: VerifiedReader<R>,
    path: &Path,
) -> Result<Vec<u8>, OciError> {
    let mut bytes = Vec::new();
    match source.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(OciError::from_read(error, path)),
    }
}
