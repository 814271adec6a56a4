//! What is in a tree: names, attributes, digests of content.

use std::ffi::{CString, OsStr};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rustix::io::Errno;

use crate::interrupt;

/// Type and content of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Size and digest.
    File(u64, blake3::Hash),
    /// Target.
    Link(Vec<u8>),
    Directory,
    /// Device number; 0 for FIFOs and sockets.
    Special(u64),
}

/// A name with what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Relative to the root, which is the empty path.
    pub path: Vec<u8>,
    pub content: Content,
    /// Type and permissions.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// Seconds; finer is not what every format stores.
    pub mtime: i64,
    pub links: u64,
    /// Names and values.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// All entries; a directory is before what is in it, and names in it are sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub entries: Vec<Entry>,
}

impl Manifest {
    /// Reads a whole tree.
    pub fn of(root: &Path) -> Result<Self> {
        let mut entries = Vec::new();
        let mut todo = vec![Vec::new()];
        let mut buffer = vec![0; 1 << 20];
        while let Some(path) = todo.pop() {
            interrupt::check()?;
            let at = join(root, &path);
            let entry = entry(&at, path, &mut buffer)
                .with_context(|| format!("cannot read {}", at.display()))?;
            if entry.content == Content::Directory {
                let mut below = names(&at, &entry.path)?;
                below.sort_unstable_by(|a, b| b.cmp(a));
                todo.extend(below);
            }
            entries.push(entry);
        }
        Ok(Self { entries })
    }

    /// Regular files of at least one byte, with their sizes.
    pub fn files(&self) -> impl Iterator<Item = (&Entry, u64)> {
        self.entries.iter().filter_map(|entry| match entry.content {
            Content::File(size, _) if size > 0 => Some((entry, size)),
            _ => None,
        })
    }

    /// Whether something has this path.
    pub fn has(&self, path: &str) -> bool {
        self.entries.iter().any(|entry| entry.path == path.as_bytes())
    }

    /// Digest of everything that a builder may see but the times of access and
    /// change.
    pub fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for entry in &self.entries {
            hasher.update(format!("{entry:?}\n").as_bytes());
        }
        hasher.finalize()
    }

    /// Compares with the tree of a mount; the text names what differs, at most
    /// a few. Times finer than a second, link counts, sizes of directories and
    /// extended attributes are not compared, for not all formats have them.
    pub fn differences(&self, mount: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut others = mount.entries.iter().peekable();
        for entry in &self.entries {
            match others.peek() {
                Some(other) if other.path == entry.path => {
                    if let Some(what) = difference(entry, other) {
                        found.push(format!("{}: {what}", text(&entry.path)));
                    }
                    others.next();
                }
                _ => found.push(format!("{}: not where it should be", text(&entry.path))),
            }
            if found.len() >= 5 {
                return found;
            }
        }
        found.extend(others.map(|other| format!("{}: too much", text(&other.path))).take(5));
        found
    }

    /// Paths whose extended attributes are others on the mount of an otherwise
    /// equal tree.
    pub fn other_xattrs(&self, mount: &Self) -> Vec<String> {
        let pairs = self.entries.iter().zip(&mount.entries);
        let differ = pairs.filter(|(entry, other)| entry.xattrs != other.xattrs);
        differ.map(|(entry, _)| text(&entry.path)).collect()
    }
}

/// Removes all extended attributes of a tree.
pub fn strip(root: &Path, manifest: &Manifest) -> Result<()> {
    for entry in &manifest.entries {
        let at = join(root, &entry.path);
        for (name, _) in &entry.xattrs {
            rustix::fs::lremovexattr(&at, CString::new(name.clone())?)
                .with_context(|| format!("cannot strip {}", at.display()))?;
        }
    }
    Ok(())
}

fn difference(entry: &Entry, other: &Entry) -> Option<String> {
    let owner = |entry: &Entry| (entry.uid, entry.gid);
    if entry.content != other.content {
        Some(format!("{:?} became {:?}", entry.content, other.content))
    } else if entry.mode != other.mode {
        Some(format!("mode {:o} became {:o}", entry.mode, other.mode))
    } else if owner(entry) != owner(other) {
        Some(format!("owner {:?} became {:?}", owner(entry), owner(other)))
    } else if entry.mtime != other.mtime {
        Some(format!("time {} became {}", entry.mtime, other.mtime))
    } else {
        None
    }
}

/// A path as text, for messages.
pub fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn join(root: &Path, path: &[u8]) -> PathBuf {
    if path.is_empty() { root.to_owned() } else { root.join(OsStr::from_bytes(path)) }
}

fn names(directory: &Path, path: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let name = entry?.file_name().into_vec();
        names.push(if path.is_empty() { name } else { [path, b"/", &name].concat() });
    }
    Ok(names)
}

fn entry(at: &Path, path: Vec<u8>, buffer: &mut [u8]) -> Result<Entry> {
    let metadata = std::fs::symlink_metadata(at)?;
    Ok(Entry {
        path,
        content: content(at, &metadata, buffer)?,
        mode: metadata.mode(),
        uid: metadata.uid(),
        gid: metadata.gid(),
        mtime: metadata.mtime(),
        links: metadata.nlink(),
        xattrs: xattrs(at)?,
    })
}

fn content(at: &Path, metadata: &Metadata, buffer: &mut [u8]) -> Result<Content> {
    let file_type = metadata.file_type();
    if file_type.is_dir() {
        return Ok(Content::Directory);
    }
    if file_type.is_symlink() {
        return Ok(Content::Link(std::fs::read_link(at)?.into_os_string().into_vec()));
    }
    if !file_type.is_file() {
        return Ok(Content::Special(metadata.rdev()));
    }
    let mut file = File::open(at)?;
    let mut hasher = blake3::Hasher::new();
    let mut length = 0u64;
    loop {
        let count = file.read(buffer)?;
        let Some(read) = buffer.get(..count).filter(|read| !read.is_empty()) else { break };
        hasher.update(read);
        length += count as u64;
    }
    if length != metadata.len() {
        bail!("{length} bytes were read of {}", metadata.len());
    }
    Ok(Content::File(length, hasher.finalize()))
}

/// Sorted by name.
fn xattrs(at: &Path) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut list = vec![0u8; 1 << 16];
    let length = match rustix::fs::llistxattr(at, &mut list) {
        Ok(length) => length,
        Err(Errno::NOTSUP | Errno::NOSYS) => 0,
        Err(error) => return Err(error.into()),
    };
    let mut found = Vec::new();
    for name in list.get(..length).unwrap_or_default().split(|byte| *byte == 0) {
        if name.is_empty() {
            continue;
        }
        let mut value = vec![0u8; 1 << 16];
        let length = rustix::fs::lgetxattr(at, CString::new(name)?, &mut value)?;
        value.truncate(length);
        found.push((name.to_vec(), value));
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::XattrFlags;

    use super::{Content, Manifest, strip};

    #[test]
    fn a_tree_is_listed_and_compared() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path();
        fs::create_dir(root.join("b")).unwrap();
        fs::write(root.join("b/file"), "text").unwrap();
        fs::write(root.join("a"), "").unwrap();
        std::os::unix::fs::symlink("b/file", root.join("c")).unwrap();
        let manifest = Manifest::of(root).unwrap();
        let paths: Vec<_> = manifest.entries.iter().map(|entry| entry.path.as_slice()).collect();
        assert_eq!(paths, [&b""[..], b"a", b"b", b"b/file", b"c"]);
        assert_eq!(manifest.entries[3].content, Content::File(4, blake3::hash(b"text")));
        assert_eq!(manifest.entries[4].content, Content::Link(b"b/file".to_vec()));
        assert_eq!(manifest.files().count(), 1);
        assert!(manifest.has("b/file") && !manifest.has("file"));
        assert_eq!(manifest.differences(&manifest), Vec::<String>::new());

        let before = manifest.digest();
        rustix::fs::setxattr(root.join("a"), "user.name", b"value", XattrFlags::empty()).unwrap();
        let other = Manifest::of(root).unwrap();
        assert_eq!(other.entries[1].xattrs, [(b"user.name".to_vec(), b"value".to_vec())]);
        assert_ne!(other.digest(), before);
        assert_eq!(manifest.differences(&other), Vec::<String>::new());
        assert_eq!(manifest.other_xattrs(&other), ["a"]);
        strip(root, &other).unwrap();
        assert_eq!(Manifest::of(root).unwrap(), manifest);

        fs::set_permissions(root.join("a"), fs::Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(root.join("c")).unwrap();
        let changed = Manifest::of(root).unwrap();
        assert_ne!(changed.digest(), before);
        let found = manifest.differences(&changed);
        assert!(found.iter().any(|line| line.starts_with("a: mode ")), "{found:?}");
        assert!(found.iter().any(|line| line == "c: not where it should be"), "{found:?}");
        assert!(changed.differences(&manifest).iter().any(|line| line == "c: too much"));
    }
}
