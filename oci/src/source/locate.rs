//! Where the text of a SOURCE argument points.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::error::OciError;
use crate::layout::Layout;
use crate::reference::{Selector, meant, splits};
use crate::source::docker;
use crate::source::error::SourceError;

/// A place to read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Standard input.
    Standard,
    /// A folder with `oci-layout`.
    Layout(PathBuf),
    /// A folder with `manifest.json`.
    Docker(PathBuf),
    /// Anything that is no folder.
    File(PathBuf),
}

/// Splits the text at the longest prefix that is such a place.
pub(super) fn locate(text: &OsStr) -> Result<(Place, Selector), OciError> {
    let splits = splits(text);
    for split in &splits {
        if let Some(place) = place(split.path) {
            return Ok((place, split.reference()?.selector));
        }
    }
    let meant = meant(text, &splits, |path| place(path).is_some())?;
    Err(SourceError::NotASource { path: meant.to_owned() }.into())
}

fn place(path: &Path) -> Option<Place> {
    if path == Path::new("-") {
        return Some(Place::Standard);
    }
    let path_buf = || path.to_owned();
    if Layout::is_layout(path) {
        Some(Place::Layout(path_buf()))
    } else if path.is_dir() {
        path.join(docker::MANIFEST).is_file().then(|| Place::Docker(path_buf()))
    } else {
        path.exists().then(|| Place::File(path_buf()))
    }
}
