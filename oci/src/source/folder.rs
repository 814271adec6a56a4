//! A docker archive that was unpacked into a folder.

use std::path::Path;

use crate::dir::Dir;
use crate::error::OciError;
use crate::limits::Limits;
use crate::source::members::{self, Members};
use crate::source::stored::Stored;

/// An open folder. Links in it are followed as if it were the root.
#[derive(Debug)]
pub(super) struct Folder {
    root: Dir,
    limits: Limits,
}

impl Folder {
    pub(super) fn open(path: &Path, limits: Limits) -> Result<Self, OciError> {
        Ok(Self { root: Dir::open_root(path)?, limits })
    }

    /// The folder that a name is in, and its last part; `None` when there is none.
    fn parent<'a>(&self, name: &'a str) -> Result<Option<(Dir, &'a str)>, OciError> {
        let (front, last) = name.rsplit_once('/').unwrap_or(("", name));
        let mut dir = self.root.again()?;
        for part in front.split('/').filter(|part| !part.is_empty()) {
            match dir.dir(part)? {
                Some(next) => dir = next,
                None => return Ok(None),
            }
        }
        Ok(Some((dir, last)))
    }
}

impl Members for Folder {
    fn path(&self) -> &Path {
        self.root.path()
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn find(&self, name: &[u8]) -> Result<Option<Stored>, OciError> {
        // A name that is not UTF-8 cannot stand in manifest.json.
        let link = |name: &[u8]| {
            let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
            match self.parent(name)? {
                Some((dir, last)) => dir.read_link(last),
                None => Ok(None),
            }
        };
        let Some(name) = members::resolve(self.path(), name, link)? else { return Ok(None) };
        let Ok(name) = std::str::from_utf8(&name) else { return Ok(None) };
        let Some((dir, last)) = self.parent(name)? else { return Ok(None) };
        let path = self.path().join(name);
        dir.file(last)?.map(|file| Stored::whole(file, &path)).transpose()
    }
}
