//! A new layout: made whole, and removed again when nothing came into it.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::dir::Dir;
use crate::error::OciError;
use crate::index::Index;
use crate::layout::{
    BLOBS, HEADER, INDEX, LOCK, Layout, NEXT_HEADER, NEXT_INDEX, PRIVATE, lock, write_atomically,
};
use crate::lock::Mode;
use crate::session::SESSIONS;

const SHA256: &str = "sha256";

/// What was made for a layout.
#[derive(Debug)]
pub(crate) struct Made {
    /// Folders that were not there, the layout's own first, then its parents.
    folders: Vec<PathBuf>,
}

/// [`Layout::create_or_open`]; with what was made, if this call made it.
pub(crate) fn create_or_open(path: PathBuf) -> Result<(Layout, Option<Made>), OciError> {
    let mut folders = Vec::new();
    if let Err(error) = std::fs::metadata(&path) {
        if error.kind() != std::io::ErrorKind::NotFound {
            return Err(OciError::io("open", path)(error));
        }
        let absolute = std::path::absolute(&path).map_err(OciError::io("create", &path))?;
        let missing = absolute.ancestors().take_while(|folder| !folder.exists());
        folders.extend(missing.map(Path::to_owned));
        std::fs::create_dir_all(&path).map_err(OciError::io("create", &path))?;
        if let Some(parent) = absolute.parent() {
            Dir::open_root(parent)?.sync()?;
        }
    }
    let root = Dir::open_root(&path)?;
    let made = root.file(HEADER)?.is_none() && complete(&root)?;
    Ok((Layout::open(path)?, made.then_some(Made { folders })))
}

/// Makes a layout of an empty folder or of one where this stopped half-way.
/// The header is written last: before that the folder is no layout. `false`
/// when another process was first.
fn complete(root: &Dir) -> Result<bool, OciError> {
    let names = root.names()?;
    // Asked after listing: whatever of ours was listed came later than this folder.
    let started = root.stat(OsStr::new(PRIVATE))?.is_some();
    let ours = |name: &OsStr| {
        name == "lost+found"
            || started && [PRIVATE, BLOBS, INDEX].into_iter().any(|known| name == known)
    };
    if let Some(entry) = names.into_iter().find(|name| !ours(name)) {
        // Another process may have finished since the caller looked.
        if root.file(HEADER)?.is_some() {
            return Ok(false);
        }
        return Err(OciError::NotEmpty { path: root.path().into(), entry });
    }
    let _lock = lock(root, Mode::Exclusive)?;
    if root.file(HEADER)?.is_some() {
        return Ok(false);
    }
    root.make_dir(BLOBS)?.make_dir(SHA256)?;
    if root.file(INDEX)?.is_none() {
        write_atomically(root, NEXT_INDEX, INDEX, &Index::empty()?.to_bytes()?)?;
    }
    write_atomically(root, NEXT_HEADER, HEADER, br#"{"imageLayoutVersion":"1.0.0"}"#)?;
    Ok(true)
}

/// Whether a layout that was open is none any more.
pub(crate) fn is_gone(layout: &Layout) -> bool {
    matches!(layout.root().file(HEADER), Ok(None))
}

/// Removes a layout that this process made, if nothing is in it and no session
/// is at work on it. What cannot be removed stays: a layout, or what the next
/// [`Layout::create_or_open`] completes.
pub(crate) fn remove_unused(layout: &Layout, made: &Made) {
    if matches!(remove(layout.root()), Ok(true)) {
        remove_folders(layout.root(), made);
    }
}

fn remove(root: &Dir) -> Result<bool, OciError> {
    let _lock = lock(root, Mode::Exclusive)?;
    if !is_unused(root)? {
        return Ok(false);
    }
    // Fails where another tool, which takes no lock, has put a blob.
    let Some(blobs) = root.dir(BLOBS)? else { return Ok(false) };
    blobs.remove_dir(OsStr::new(SHA256))?;
    if let Err(error) = root.remove_dir(OsStr::new(BLOBS)) {
        blobs.make_dir(SHA256)?;
        return Err(error);
    }
    root.unlink(OsStr::new(HEADER))?;
    root.unlink(OsStr::new(INDEX))?;
    // The lock last: who waits for it finds that it has no name any more.
    if let Some(private) = root.dir(PRIVATE)? {
        private.remove_dir(OsStr::new(SESSIONS))?;
        private.unlink(OsStr::new(LOCK))?;
    }
    root.remove_dir(OsStr::new(PRIVATE))?;
    Ok(true)
}

/// Whether all that is there is what [`complete`] makes.
fn is_unused(root: &Dir) -> Result<bool, OciError> {
    let only = |dir: Option<Dir>, known: &[&str]| -> Result<bool, OciError> {
        let names = dir.map_or(Ok(Vec::new()), |dir| dir.names())?;
        Ok(names.iter().all(|name| known.iter().any(|known| name == known)))
    };
    let private = root.dir(PRIVATE)?;
    let sessions = private.as_ref().map(|dir| dir.dir(SESSIONS)).transpose()?.flatten();
    let blobs = root.dir(BLOBS)?;
    let sha256 = blobs.as_ref().map(|dir| dir.dir(SHA256)).transpose()?.flatten();
    let whole = only(Some(root.again()?), &[HEADER, INDEX, BLOBS, PRIVATE])?
        && only(private, &[LOCK, SESSIONS])?
        && only(sessions, &[])?
        && only(blobs, &[SHA256])?
        && only(sha256, &[])?;
    if !whole {
        return Ok(false);
    }
    let empty = Index::empty()?.to_bytes()?;
    let limit = u64::try_from(empty.len()).unwrap_or(u64::MAX);
    let index = root.read(INDEX, crate::error::Document::Index, limit)?;
    Ok(index.as_deref() == Some(empty.as_slice()))
}

fn remove_folders(root: &Dir, made: &Made) {
    let Some(path) = made.folders.first() else { return };
    // The path may lead elsewhere by now.
    let same = match (root.own_stat(), std::fs::symlink_metadata(path)) {
        (Ok(ours), Ok(there)) => (ours.st_dev, ours.st_ino) == (there.dev(), there.ino()),
        _ => false,
    };
    if same {
        // Up to the first that holds something.
        let _ = made.folders.iter().try_for_each(std::fs::remove_dir);
    }
}
