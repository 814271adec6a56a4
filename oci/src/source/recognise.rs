//! What a file or folder is.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::decompress::{Decompressed, detect};
use crate::error::OciError;
use crate::layout::{HEADER, Layout};
use crate::limits::Limits;
use crate::media_type::Compression;
use crate::source::archive::Archive;
use crate::source::docker;
use crate::source::error::SourceError;
use crate::source::folder::Folder;
use crate::source::listing::{Forward, Listing};
use crate::source::locate::Place;
use crate::source::spool::{spool, start_of};
use crate::source::stored::Stored;

/// How messages call standard input.
const STANDARD_INPUT: &str = "standard input";
/// Bytes that show how a file is compressed.
const DETECT_BYTES: u64 = 10;
/// Bytes of `manifest.json` that show whether it is a list.
const MANIFEST_START: u64 = 4096;

/// An opened source.
#[derive(Debug)]
pub(super) enum Content {
    Layout(Layout),
    LayoutArchive(Archive),
    DockerArchive(Archive),
    DockerFolder(Folder),
    /// Its path, for messages, and its bytes.
    Layer(PathBuf, Stored),
}

impl Content {
    pub(super) fn open(place: Place, folder: &Path, limits: Limits) -> Result<Self, OciError> {
        let (file, path) = match place {
            Place::Layout(path) => return Layout::open_with(path, limits).map(Self::Layout),
            Place::Docker(path) => return Folder::open(&path, limits).map(Self::DockerFolder),
            Place::File(path) => (File::open(&path).map_err(OciError::io("open", &path))?, path),
            Place::Standard => {
                let path = PathBuf::from(STANDARD_INPUT);
                let fd = io::stdin().as_fd().try_clone_to_owned();
                (File::from(fd.map_err(OciError::io("open", &path))?), path)
            }
        };
        let stored = keep(file, &path, folder)?;
        Self::of_file(&path, stored, folder, limits)
    }

    /// Finds out what a file is. `folder` is for temporary files.
    pub(super) fn of_file(
        path: &Path,
        stored: Stored,
        folder: &Path,
        limits: Limits,
    ) -> Result<Self, OciError> {
        if stored.size() == 0 {
            return Err(SourceError::Empty { path: path.into() }.into());
        }
        let failed = || OciError::io("read", path);
        let start = stored.start(DETECT_BYTES).map_err(failed())?;
        if detect(&start) == Compression::None {
            let content = Self::of_archive(path, stored.clone(), limits)?;
            return Ok(content.unwrap_or_else(|| Self::Layer(path.into(), stored)));
        }
        let unpacked = || Decompressed::new(stored.reader()).map_err(failed());
        let listing = Listing::read(Forward::new(unpacked()?), limits.archive_members, true);
        if listing.is_marked() {
            let broken = |source| SourceError::Archive { path: path.into(), source }.into();
            let plain = spool(&mut unpacked()?, folder, broken)?;
            if let Some(content) = Self::of_archive(path, plain, limits)? {
                return Ok(content);
            }
        } else {
            refuse_incomplete(path, &listing)?;
        }
        Ok(Self::Layer(path.into(), stored))
    }

    /// An image archive that is not compressed; `None` when it is a layer, or
    /// whatever else.
    fn of_archive(path: &Path, stored: Stored, limits: Limits) -> Result<Option<Self>, OciError> {
        let listing = Listing::read(stored.reader(), limits.archive_members, false);
        if listing.has(HEADER) {
            let archive = Archive::new(path, stored, listing, limits)?;
            archive.check_layout()?;
            return Ok(Some(Self::LayoutArchive(archive)));
        }
        let start = listing.start_of(docker::MANIFEST, &stored, MANIFEST_START);
        let start = start.map_err(OciError::io("read", path))?;
        if start.is_some_and(|start| docker::is_manifest(&start)) {
            let archive = Archive::new(path, stored, listing, limits)?;
            return Ok(Some(Self::DockerArchive(archive)));
        }
        refuse_incomplete(path, &listing).map(|()| None)
    }
}

/// An image archive that was cut before the member it is recognised by must not
/// pass for a layer.
fn refuse_incomplete(path: &Path, listing: &Listing) -> Result<(), OciError> {
    if listing.is_image_shaped() {
        return Err(SourceError::Incomplete { path: path.into() }.into());
    }
    Ok(())
}

/// Makes a file readable at offsets: a regular one that stands at its start is,
/// the rest of anything else goes into a temporary file.
fn keep(mut file: File, path: &Path, folder: &Path) -> Result<Stored, OciError> {
    let regular = file.metadata().map_err(OciError::io("examine", path))?.is_file();
    if regular && rustix::fs::tell(&file).is_ok_and(|position| position == 0) {
        return Stored::whole(file, path);
    }
    let start = start_of(&mut file, path)?;
    spool(&mut start.as_slice().chain(file), folder, OciError::io("read", path))
}
