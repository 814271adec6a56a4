//! Images to be converted, in all the forms they are handed around in.
//!
//! | SOURCE | meaning |
//! |---|---|
//! | `DIR`, `DIR:TAG`, `DIR@DIGEST` | an OCI layout |
//! | `FILE`, `FILE:TAG`, `FILE@DIGEST` | an OCI layout as a tar archive, or what `docker save` writes |
//! | `DIR`, … | a docker archive that was unpacked |
//! | `FILE` | an archive that is one layer |
//! | `-`, `-:TAG`, `-@DIGEST` | any of the archives, from standard input |
//!
//! # Rules
//!
//! - The text is split at the longest prefix that can be read as one of these.
//! - Archives are told apart by content: `oci-layout` at the top makes a
//!   layout, a `manifest.json` that is a list makes a docker archive, anything
//!   else is a layer. An archive with both (docker since version 25) is a
//!   layout; names that its index does not have are looked up in
//!   `manifest.json`.
//! - An archive may be compressed as a whole. It is then unpacked into an
//!   unlinked temporary file, and so is standard input unless it is a file:
//!   members are read in place, by several threads at once. A single layer is
//!   not unpacked, it is decompressed while it is read.
//! - Of several members of one name the last counts. Links are followed inside
//!   the archive only.
//! - Documents are verified when the image is looked up, layers when they are
//!   read. All layers must be there from the start, with the size stated.

mod archive;
mod docker;
mod error;
mod folder;
mod image;
mod layer;
mod listing;
mod locate;
mod members;
mod recognise;
mod shape;
mod spool;
mod stored;

use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

pub use error::{LayerName, SourceError};
pub use image::{SourceImage, SourceLayer};
pub use layer::{LayerReader, VerifiedLayer};

use crate::error::OciError;
use crate::image::resolve;
use crate::limits::Limits;
use crate::platform::PlatformRequest;
use crate::reference::Selector;
use recognise::Content;
use stored::Stored;

/// Something images are read from, and which of them is meant.
#[derive(Debug)]
pub struct Source {
    content: Content,
    selector: Selector,
}

/// What a [`Source`] turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// The folder of an OCI layout.
    Layout,
    /// An OCI layout in an archive.
    LayoutArchive,
    /// An archive of `docker save`.
    DockerArchive,
    /// The same, unpacked.
    DockerFolder,
    /// One layer.
    Layer,
}

impl Source {
    /// Opens what the text of a SOURCE argument means. Temporary files are
    /// made in the folder `spool`, if any are needed.
    ///
    /// # Errors
    /// [`SourceError::NotASource`], also for a stream that begins like no
    /// archive; [`SourceError::NoSpace`], [`SourceError::Empty`],
    /// [`SourceError::Archive`], [`SourceError::Incomplete`],
    /// [`SourceError::TooManyMembers`]; [`OciError::Io`];
    /// [`OciError::InvalidDigest`] and [`OciError::InvalidTag`] for what
    /// follows the path; as [`crate::Layout::open`] for a layout.
    pub fn open(text: &OsStr, spool: &Path) -> Result<Self, OciError> {
        Self::open_with(text, spool, Limits::default())
    }

    /// [`Source::open`] with other limits.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn open_with(text: &OsStr, spool: &Path, limits: Limits) -> Result<Self, OciError> {
        let (place, selector) = locate::locate(text)?;
        Ok(Self { content: Content::open(place, spool, limits)?, selector })
    }

    /// Reads an archive from a stream, as from standard input. `name` is for
    /// messages.
    ///
    /// # Errors
    /// As [`Source::open`].
    pub fn from_stream(
        mut stream: impl Read,
        name: &Path,
        selector: Selector,
        spool: &Path,
    ) -> Result<Self, OciError> {
        let start = spool::start_of(&mut stream, name)?;
        let mut whole = start.as_slice().chain(stream);
        let stored = spool::spool(&mut whole, spool, OciError::io("read", name))?;
        let content = Content::of_file(name, stored, spool, Limits::default())?;
        Ok(Self { content, selector })
    }

    /// What it is.
    #[must_use]
    pub fn kind(&self) -> SourceKind {
        match &self.content {
            Content::Layout(_) => SourceKind::Layout,
            Content::LayoutArchive(_) => SourceKind::LayoutArchive,
            Content::DockerArchive(_) => SourceKind::DockerArchive,
            Content::DockerFolder(_) => SourceKind::DockerFolder,
            Content::Layer(..) => SourceKind::Layer,
        }
    }

    /// Finds the image that is meant and opens its layers.
    ///
    /// A single layer has no platform: any request is taken as true of it.
    ///
    /// # Errors
    /// As [`crate::image::resolve`] and [`crate::Layout::open_blob`];
    /// [`SourceError::NotALayer`], [`SourceError::MissingMember`],
    /// [`SourceError::CutMember`], [`SourceError::TooManyLinks`];
    /// [`OciError::TagNotFound`] and [`OciError::DigestNotFound`] for a single
    /// layer, which has neither.
    pub fn image(&self, request: &PlatformRequest) -> Result<SourceImage, OciError> {
        let selector = &self.selector;
        match &self.content {
            Content::Layout(layout) => {
                let (image, files) = layout.resolve_and_open(selector, request)?;
                let stored = files.into_iter().map(|file| Stored::whole(file, layout.path()));
                SourceImage::of_image(image, stored.collect::<Result<_, _>>()?)
            }
            Content::LayoutArchive(archive) => match resolve(archive, selector, request) {
                Ok(image) => {
                    let layers = archive.layers(&image)?;
                    SourceImage::of_image(image, layers)
                }
                Err(error @ OciError::TagNotFound { .. }) => {
                    docker::image(archive, selector, request).map_err(|_| error)
                }
                Err(error) => Err(error),
            },
            Content::DockerArchive(archive) => docker::image(archive, selector, request),
            Content::DockerFolder(folder) => docker::image(folder, selector, request),
            Content::Layer(path, stored) => match selector.clone() {
                Selector::Only => Ok(SourceImage::of_layer(path, stored.clone())),
                Selector::Tag(tag) => {
                    let (layout, available) = (path.clone(), Vec::new());
                    Err(OciError::TagNotFound { layout, tag, available })
                }
                Selector::Digest(digest) => {
                    Err(OciError::DigestNotFound { layout: path.clone(), digest })
                }
            },
        }
    }
}
