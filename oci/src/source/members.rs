//! Files by name, inside an archive or an unpacked one.

use std::path::Path;

use crate::error::{Document, OciError};
use crate::limits::Limits;
use crate::source::error::SourceError;
use crate::source::stored::Stored;

/// Links that are followed on the way to one file, as many as Linux follows.
const LINKS: usize = 40;

/// A tree of files with links inside.
pub(super) trait Members {
    /// Path of the whole, for messages.
    fn path(&self) -> &Path;

    /// The limits that hold for reading it.
    fn limits(&self) -> &Limits;

    /// The regular file of a name; `None` when there is nothing. Links are
    /// followed, but not out of the tree.
    fn find(&self, name: &[u8]) -> Result<Option<Stored>, OciError>;

    /// All of a document; `None` when there is nothing of that name.
    fn read(
        &self,
        name: &str,
        document: Document,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, OciError> {
        let stored = self.find(name.as_bytes())?;
        stored.map(|stored| stored.read(&self.path().join(name), document, limit)).transpose()
    }
}

/// The parts of a name without those that mean nothing. `..` stays.
pub(super) fn parts(name: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    name.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".")
}

/// The name of what `name` leads to when links are followed. `link` gives the
/// target of a name that is a link; a target that starts with a slash counts
/// from the root of the tree. `None` when it leads out of the tree.
pub(super) fn resolve(
    tree: &Path,
    name: &[u8],
    mut link: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>, OciError>,
) -> Result<Option<Vec<u8>>, OciError> {
    let mut todo: Vec<Vec<u8>> = parts(name).rev().map(<[u8]>::to_vec).collect();
    let mut done: Vec<Vec<u8>> = Vec::new();
    let mut links = 0_usize;
    while let Some(part) = todo.pop() {
        if part == b".." {
            if done.pop().is_none() {
                return Ok(None);
            }
            continue;
        }
        done.push(part);
        if let Some(target) = link(&done.join(&b'/'))? {
            links = links.saturating_add(1);
            if links > LINKS {
                return Err(SourceError::TooManyLinks {
                    path: tree.into(),
                    member: name.to_vec(),
                    limit: LINKS,
                }
                .into());
            }
            done.pop();
            if target.starts_with(b"/") {
                done.clear();
            }
            todo.extend(parts(&target).rev().map(<[u8]>::to_vec));
        }
    }
    Ok(Some(done.join(&b'/')))
}
