//! How a user names an image of a layout.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use oci_spec::image::Digest;

use crate::error::OciError;
use crate::layout::{HEADER, Layout};
use crate::verified::parse_digest;

/// Which image of a layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Selector {
    /// No name was given: the only image there is.
    #[default]
    Only,
    /// The image with this tag.
    Tag(String),
    /// The image whose manifest (or index) has this digest.
    Digest(Digest),
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only => Ok(()),
            Self::Tag(tag) => write!(f, "{}", tag.escape_debug()),
            Self::Digest(digest) => write!(f, "@{digest}"),
        }
    }
}

/// A layout and one of its images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Folder of the layout.
    pub layout: PathBuf,
    /// Which image.
    pub selector: Selector,
}

impl Reference {
    /// Parses `OCI-DIR`, `OCI-DIR:TAG` or `OCI-DIR@DIGEST` that names an image
    /// to read.
    ///
    /// Folder names may contain colons and tags may too, so the text is split
    /// at the longest prefix that is a layout. An empty tag means none.
    ///
    /// # Errors
    /// When no prefix is one: [`OciError::InvalidDigest`] for a layout, `@` and
    /// something else; [`OciError::Io`] with the system's reason when nothing
    /// is there or it cannot be looked at; else [`OciError::NotALayout`].
    /// [`OciError::InvalidTag`] for a tag that is not UTF-8.
    pub fn parse(text: &OsStr) -> Result<Self, OciError> {
        let splits = splits(text);
        if let Some(split) = splits.iter().find(|split| Layout::is_layout(split.path)) {
            return split.reference();
        }
        let path = meant(text, &splits, Layout::is_layout)?.to_owned();
        Err(OciError::NotALayout { path })
    }

    /// Parses the same for an image to write: where no prefix is a layout yet,
    /// the first colon separates the folder from the tag, but no folder that
    /// exists is torn apart: it is the first colon behind those.
    ///
    /// # Errors
    /// As [`Reference::parse`], but a layout need not exist;
    /// [`OciError::InvalidReference`] when the folder would be empty.
    pub fn parse_new(text: &OsStr) -> Result<Self, OciError> {
        let splits = splits(text);
        if let Some(known) = splits.iter().find(|split| Layout::is_layout(split.path)) {
            return known.reference();
        }
        refuse_malformed_digest(text, Layout::is_layout)?;
        match new_split(text, &splits) {
            Some(split) if !split.path.as_os_str().is_empty() => split.reference(),
            _ => Err(OciError::InvalidReference { text: text.to_owned() }),
        }
    }

    /// A folder and a tag that were given apart. An empty tag means none; one
    /// that starts with `@` is a digest.
    ///
    /// # Errors
    /// [`OciError::InvalidReference`] when the folder is empty;
    /// [`OciError::InvalidDigest`]; [`OciError::InvalidTag`] for a tag that is
    /// not UTF-8.
    pub fn from_parts(layout: &OsStr, tag: &OsStr) -> Result<Self, OciError> {
        if layout.is_empty() {
            return Err(OciError::InvalidReference { text: layout.to_owned() });
        }
        let (mark, rest) = match tag.as_bytes().split_first() {
            Some((b'@', digest)) => (Some(b'@'), OsStr::from_bytes(digest)),
            _ => (Some(b':'), tag),
        };
        Split { path: Path::new(layout), mark, rest }.reference()
    }

    /// The tag to write.
    ///
    /// # Errors
    /// [`OciError::NoTagGiven`] when there is none;
    /// [`OciError::InvalidTag`] by [`check_tag`].
    pub fn tag_to_write(&self) -> Result<&str, OciError> {
        match &self.selector {
            Selector::Tag(tag) => check_tag(tag).map(|()| tag.as_str()),
            _ => Err(OciError::NoTagGiven { layout: self.layout.clone() }),
        }
    }
}

/// One way to read the text: a path, the mark behind it, and the rest.
pub(crate) struct Split<'a> {
    pub(crate) path: &'a Path,
    mark: Option<u8>,
    rest: &'a OsStr,
}

impl Split<'_> {
    pub(crate) fn reference(&self) -> Result<Reference, OciError> {
        let layout = self.path.to_owned();
        let invalid = || OciError::InvalidTag { tag: self.rest.to_owned(), rule: TagRule::Utf8 };
        let selector = match (self.mark, self.rest.to_str()) {
            (_, None) => return Err(invalid()),
            (Some(b'@'), Some(digest)) => Selector::Digest(parse_digest(digest)?),
            (_, Some("")) => Selector::Only,
            (_, Some(tag)) => Selector::Tag(tag.to_owned()),
        };
        Ok(Reference { layout, selector })
    }
}

/// All ways to read the text, the longest path first. `@` separates only where
/// a digest follows.
pub(crate) fn splits(text: &OsStr) -> Vec<Split<'_>> {
    let bytes = text.as_bytes();
    let mut splits = vec![Split { path: Path::new(text), mark: None, rest: OsStr::new("") }];
    for (place, mark) in bytes.iter().enumerate().rev() {
        let Some((path, [_, rest @ ..])) = bytes.split_at_checked(place) else { continue };
        let rest = OsStr::from_bytes(rest);
        let digest = || rest.to_str().is_some_and(|rest| parse_digest(rest).is_ok());
        if *mark == b':' || *mark == b'@' && digest() {
            splits.push(Split {
                path: Path::new(OsStr::from_bytes(path)),
                mark: Some(*mark),
                rest,
            });
        }
    }
    splits
}

/// How the text is split when no layout it could name exists: at the first
/// colon behind the folders that exist.
fn new_split<'s, 'a>(text: &OsStr, splits: &'s [Split<'a>]) -> Option<&'s Split<'a>> {
    let folders = existing_folders(text);
    let behind = |split: &&Split<'_>| split.path.as_os_str().len() >= folders;
    let mut colons = splits.iter().rev().filter(|split| split.mark == Some(b':'));
    colons.find(behind).or(splits.first())
}

/// How many bytes of the text, up to and with a slash, are a path of folders.
fn existing_folders(text: &OsStr) -> usize {
    let bytes = text.as_bytes();
    let ends = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
    let fronts = ends.filter_map(|(slash, _)| bytes.get(..=slash));
    fronts
        .into_iter()
        .find(|front| Path::new(OsStr::from_bytes(front)).is_dir())
        .map_or(0, <[u8]>::len)
}

/// When no prefix is such a place: the existing path that the user most likely
/// meant, or why nothing can be there.
pub(crate) fn meant<'a>(
    text: &OsStr,
    splits: &[Split<'a>],
    is_place: impl Fn(&Path) -> bool,
) -> Result<&'a Path, OciError> {
    refuse_malformed_digest(text, is_place)?;
    // What cannot be looked at may be it. The shortest is what others are below.
    for path in splits.iter().rev().map(|split| split.path) {
        if let Err(error) = std::fs::metadata(path.join(HEADER))
            && !is_absence(&error)
            && !path.as_os_str().is_empty()
        {
            return Err(OciError::io("open", path)(error));
        }
    }
    if let Some(existing) = splits.iter().find(|split| split.path.exists()) {
        return Ok(existing.path);
    }
    match new_split(text, splits).map(|split| split.path) {
        Some(path) if !path.as_os_str().is_empty() => {
            std::fs::metadata(path).map_err(OciError::io("open", path))?;
            Ok(path)
        }
        _ => Err(OciError::InvalidReference { text: text.to_owned() }),
    }
}

/// Whether a failure only says that there is nothing of that name.
fn is_absence(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

/// Refuses a place, `@` and something that is no digest.
fn refuse_malformed_digest(text: &OsStr, is_place: impl Fn(&Path) -> bool) -> Result<(), OciError> {
    let bytes = text.as_bytes();
    let places = bytes.iter().enumerate().rev().filter(|(_, byte)| **byte == b'@');
    for (place, _) in places {
        let Some((path, [_, rest @ ..])) = bytes.split_at_checked(place) else { continue };
        if is_place(Path::new(OsStr::from_bytes(path))) {
            parse_digest(&String::from_utf8_lossy(rest))?;
        }
    }
    Ok(())
}

/// The rule of the tag grammar that a tag breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TagRule {
    /// It is empty.
    Empty,
    /// It is not UTF-8.
    Utf8,
    /// It holds a character other than letters, digits and `-._:@+/`.
    Character(char),
    /// A separator is not between letters or digits.
    Separator,
}

impl fmt::Display for TagRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::Utf8 => f.write_str("it is not UTF-8"),
            Self::Character(c) => {
                write!(f, "it contains {c:?}; letters, digits and - . _ : @ + / are allowed")
            }
            Self::Separator => {
                f.write_str("each of - . _ : @ + / must stand between letters or digits")
            }
        }
    }
}

/// Checks a tag to be written against the grammar that the OCI image
/// specification gives `org.opencontainers.image.ref.name`:
///
/// ```text
/// ref       = component *( "/" component )
/// component = alphanum *( separator alphanum )
/// alphanum  = 1*( A-Z / a-z / 0-9 )
/// separator = "-" / "." / "_" / ":" / "@" / "+" / "--"
/// ```
///
/// Tags that are read may be anything: what exists can be used.
///
/// # Errors
/// [`OciError::InvalidTag`] with the rule that is broken.
pub fn check_tag(tag: &str) -> Result<(), OciError> {
    match broken_rule(tag) {
        None => Ok(()),
        Some(rule) => Err(OciError::InvalidTag { tag: OsString::from(tag), rule }),
    }
}

fn broken_rule(tag: &str) -> Option<TagRule> {
    if tag.is_empty() {
        return Some(TagRule::Empty);
    }
    let separator = |c: char| matches!(c, '-' | '.' | '_' | ':' | '@' | '+' | '/');
    if let Some(c) = tag.chars().find(|c| !c.is_ascii_alphanumeric() && !separator(*c)) {
        return Some(TagRule::Character(c));
    }
    // "--" counts as one separator, and only these two characters do.
    let single = tag.replace("--", "-");
    let triple = tag.contains("---");
    let misplaced = triple || single.split(separator).any(str::is_empty);
    misplaced.then_some(TagRule::Separator)
}
