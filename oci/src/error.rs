//! What can go wrong with a layout, and where.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use oci_spec::image::Digest;

use crate::platform::Platform;
use crate::reference::TagRule;
use crate::source::SourceError;

/// Any failure of this crate. Every variant says which file, digest or name it
/// is about; text that came from a layout is escaped when displayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OciError {
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or folder it was tried on.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no `oci-layout` file.
    #[error("{} is not an OCI image layout", path.display())]
    NotALayout {
        /// The folder named by the user.
        path: PathBuf,
    },
    /// A layout was to be created in a folder that holds something else.
    #[error("{} is not empty and not an OCI image layout (it holds {entry:?})", path.display())]
    NotEmpty {
        /// The folder named by the user.
        path: PathBuf,
        /// One of the entries found there.
        entry: OsString,
    },
    /// `imageLayoutVersion` is not 1.x.
    #[error("{}: image layout version {version:?} is not supported, only 1.x", path.display())]
    LayoutVersion {
        /// The `oci-layout` file.
        path: PathBuf,
        /// The version it states.
        version: String,
    },
    /// A document is not JSON, or not of the shape the specification gives it.
    #[error("{}: not a valid {document}", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What it should have been.
        document: Document,
        /// Where parsing stopped.
        source: serde_json::Error,
    },
    /// A document parses but breaks a rule of the specification.
    #[error("{}: {document}: {rule}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What it is.
        document: Document,
        /// The rule that is broken.
        rule: &'static str,
    },
    /// An entry of `index.json` that cannot be understood. The others can be
    /// used; writing or removing its tag replaces or removes it.
    #[error("{}: entry {place}{}: {}", path.display(), Tagged(tag), BrokenField(*field))]
    BrokenEntry {
        /// The file.
        path: PathBuf,
        /// Position in `manifests`, the first is 0.
        place: usize,
        /// Its tag, if that much can be told.
        tag: Option<String>,
        /// The field that is broken, if it is a single one.
        field: Option<&'static str>,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The lock that writing takes cannot be had: a read-only layout.
    #[error("cannot lock the layout {} for writing", layout.display())]
    NotWritable {
        /// The layout.
        layout: PathBuf,
        /// What failed.
        source: Box<OciError>,
    },
    /// A document would not be written because it breaks JSON's own limits.
    #[error("cannot write {document}")]
    Encode {
        /// What was to be written.
        document: Document,
        /// Why not.
        source: serde_json::Error,
    },
    /// A document is larger than [`crate::Limits`] allow.
    #[error("{}: {document} of {size} bytes, the limit is {limit}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What it is.
        document: Document,
        /// Its size in bytes.
        size: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A symbolic link, folder, pipe or device where a file or folder of the
    /// layout belongs. Links are never followed inside a layout.
    #[error("{} is not a plain {expected}", path.display())]
    WrongType {
        /// The object.
        path: PathBuf,
        /// `file` or `folder`.
        expected: &'static str,
    },
    /// A blob is not in the layout.
    #[error("missing blob {digest} in {}", layout.display())]
    BlobMissing {
        /// The layout.
        layout: PathBuf,
        /// The digest asked for.
        digest: Digest,
    },
    /// A blob's size differs from its descriptor.
    #[error("size mismatch: blob {digest} has {found} bytes, its descriptor says {expected}")]
    BlobSize {
        /// The digest asked for.
        digest: Digest,
        /// Size in the descriptor, bytes.
        expected: u64,
        /// Size found, bytes; where reading stopped early, a lower bound.
        found: u64,
    },
    /// A blob's content differs from its name.
    #[error("digest mismatch: blob {digest} has content {found}")]
    BlobDigest {
        /// The digest asked for.
        digest: Digest,
        /// The digest of what is there.
        found: String,
    },
    /// Content cannot be verified: only sha256 and sha512 are registered.
    #[error("unsupported digest algorithm in {digest}: only sha256 and sha512")]
    UnsupportedAlgorithm {
        /// The digest.
        digest: Digest,
    },
    /// Text that should be a digest is not one.
    #[error("{text:?} is not a digest")]
    InvalidDigest {
        /// The text.
        text: String,
    },
    /// Nothing has the tag asked for.
    #[error("no image {tag:?} in {}{}", layout.display(), Names("it has", available))]
    TagNotFound {
        /// The layout.
        layout: PathBuf,
        /// The tag asked for.
        tag: String,
        /// Names that exist; an untagged image as `@` and its digest.
        available: Vec<String>,
    },
    /// No tag was given and there is more than one image, or none.
    #[error("a tag is needed to choose an image in {}{}", layout.display(), Names("it has", available))]
    TagRequired {
        /// The layout.
        layout: PathBuf,
        /// Names that exist; an untagged image as `@` and its digest.
        available: Vec<String>,
    },
    /// Several different images answer to the name.
    #[error("ambiguous reference {tag:?} in {}{}", layout.display(), Names("it could be", matches))]
    AmbiguousTag {
        /// The layout.
        layout: PathBuf,
        /// The tag asked for.
        tag: String,
        /// What it could mean, each as name and digest.
        matches: Vec<String>,
    },
    /// No image of the layout has the manifest digest asked for.
    #[error("no image with digest {digest} in {}", layout.display())]
    DigestNotFound {
        /// The layout.
        layout: PathBuf,
        /// The digest asked for.
        digest: Digest,
    },
    /// The image exists, but not for this platform.
    #[error("no manifest for platform {wanted} in {name:?}{}", Platforms(available))]
    NoSuchPlatform {
        /// The image's name or digest.
        name: String,
        /// The platform asked for, or the host's.
        wanted: Box<Platform>,
        /// The platforms it has.
        available: Vec<Platform>,
    },
    /// The name leads to something that is no container image.
    #[error("{digest} is not an image: its type is {media_type:?}")]
    NotAnImage {
        /// Manifest digest.
        digest: Digest,
        /// The media type that gives it away (of the manifest or its config).
        media_type: String,
    },
    /// A document states another type than the descriptor that led to it, or
    /// could be read as two kinds of document. Such are refused, since two
    /// readers could see different images (CVE-2021-41190).
    #[error("{digest} is described as {described:?} but says it is {stated:?}")]
    TypeConflict {
        /// Digest of the document.
        digest: Digest,
        /// Media type of the descriptor.
        described: String,
        /// Media type, or telling field, in the document.
        stated: String,
    },
    /// `layers` and `rootfs.diff_ids` differ in number.
    #[error("image {digest} has {layers} layers but {diff_ids} diff_ids")]
    LayerCount {
        /// Manifest digest.
        digest: Digest,
        /// Layers in the manifest.
        layers: usize,
        /// Entries of `rootfs.diff_ids` in the config.
        diff_ids: usize,
    },
    /// More layers than [`crate::Limits::layers`].
    #[error("image has {layers} layers, the limit is {limit}")]
    TooManyLayers {
        /// Layers in the manifest.
        layers: usize,
        /// The limit.
        limit: usize,
    },
    /// A layer without outer compression whose diff_id is not its digest.
    #[error("layer {number} ({digest}) is not compressed, yet its diff_id is {diff_id}")]
    DiffIdMismatch {
        /// Position of the layer, base layer 0.
        number: usize,
        /// Digest of the layer.
        digest: Digest,
        /// Its entry in `rootfs.diff_ids`.
        diff_id: Digest,
    },
    /// Indexes nest deeper than [`crate::Limits::index_depth`].
    #[error("index {digest} is nested more than {limit} deep")]
    IndexTooDeep {
        /// The index that is too deep.
        digest: Digest,
        /// The limit.
        limit: usize,
    },
    /// A tag breaks the grammar of `org.opencontainers.image.ref.name`.
    #[error("{tag:?} is not a valid tag: {rule}")]
    InvalidTag {
        /// The tag.
        tag: OsString,
        /// The rule it breaks.
        rule: TagRule,
    },
    /// A tag to write was asked for, and a reference without one was given.
    #[error("{} names no tag", layout.display())]
    NoTagGiven {
        /// The layout part of the reference.
        layout: PathBuf,
    },
    /// Text that should name a layout is empty.
    #[error("{text:?} names no layout folder")]
    InvalidReference {
        /// The text.
        text: OsString,
    },
    /// Text that should be `OS/ARCH` or `OS/ARCH/VARIANT` is not.
    #[error("{text:?} is not a platform: expected OS/ARCH or OS/ARCH/VARIANT")]
    InvalidPlatform {
        /// The text.
        text: String,
    },
    /// An image config needs a platform, and neither options nor a source
    /// config give one.
    #[error("no platform was given for the image")]
    PlatformMissing,
    /// The file behind a [`crate::BlobWriter`] was changed by someone else.
    #[error("{} has {found} bytes, {expected} were written", path.display())]
    TemporaryChanged {
        /// The temporary file.
        path: PathBuf,
        /// Bytes written through the writer.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// Garbage collection stopped before deleting anything, because something
    /// that could refer to blobs cannot be read.
    #[error("nothing was removed from {}: not all references could be followed", layout.display())]
    UnsafeToCollect {
        /// The layout.
        layout: PathBuf,
        /// What could not be followed.
        source: Box<OciError>,
    },
    /// A source to be converted is at fault.
    #[error(transparent)]
    Source(Box<SourceError>),
}

impl From<SourceError> for OciError {
    fn from(error: SourceError) -> Self {
        Self::Source(Box::new(error))
    }
}

impl OciError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    pub(crate) fn sys(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(rustix::io::Errno) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source: source.into() }
    }

    /// Takes an error of this crate back out of an [`io::Error`], as
    /// [`crate::VerifiedReader`] wraps it; any other becomes [`OciError::Io`].
    #[must_use]
    pub fn from_read(source: io::Error, path: &Path) -> Self {
        match source.downcast::<Self>() {
            Ok(inner) => inner,
            Err(source) => Self::Io { action: "read", path: path.into(), source },
        }
    }

    /// Whether this is a blob that is not there, which is legal in a layout
    /// and may also mean that the image was replaced and collected meanwhile.
    #[must_use]
    pub fn is_missing_blob(&self) -> bool {
        matches!(self, Self::BlobMissing { .. })
    }
}

/// The kinds of JSON document of a layout, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// The file `oci-layout`.
    LayoutHeader,
    /// `index.json` or a nested index.
    Index,
    /// An image manifest.
    Manifest,
    /// An image config.
    Config,
    /// A manifest or an index: which one is not known yet.
    ManifestOrIndex,
    /// `manifest.json` of a docker archive.
    DockerManifest,
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LayoutHeader => "oci-layout header",
            Self::Index => "image index",
            Self::Manifest => "image manifest",
            Self::Config => "image config",
            Self::ManifestOrIndex => "image manifest or index",
            Self::DockerManifest => "manifest.json of a docker archive",
        })
    }
}

/// How many names a message lists; the fields of the error hold all.
const LISTED: usize = 20;

struct Names<'a>(&'static str, &'a [String]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(lead, names) = self;
        if names.is_empty() {
            return f.write_str("; it has no images");
        }
        for (place, name) in names.iter().take(LISTED).enumerate() {
            let before = if place == 0 { format!("; {lead} ") } else { ", ".into() };
            write!(f, "{before}{}", name.escape_debug())?;
        }
        match names.len().saturating_sub(LISTED) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

struct Tagged<'a>(&'a Option<String>);

impl fmt::Display for Tagged<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(tag) => write!(f, " with the tag {tag:?}, which `untag` removes"),
            None => Ok(()),
        }
    }
}

struct BrokenField(Option<&'static str>);

impl fmt::Display for BrokenField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(field) => write!(f, "its field {field:?} is broken"),
            None => f.write_str("it is broken"),
        }
    }
}

struct Platforms<'a>(&'a [Platform]);

impl fmt::Display for Platforms<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(Platform::to_string).collect();
        if names.is_empty() { f.write_str("; it has none") } else { Names("it has", &names).fmt(f) }
    }
}
