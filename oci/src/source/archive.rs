//! An image archive: members read in place, and an OCI layout inside.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use oci_spec::image::DigestAlgorithm;

use crate::descriptor::Descriptor;
use crate::error::{Document, OciError};
use crate::image::{BlobSource, Image};
use crate::index::Index;
use crate::layout::{self, HEADER, INDEX};
use crate::limits::Limits;
use crate::source::error::SourceError;
use crate::source::listing::{End, Listing, Member};
use crate::source::members::{Members, resolve};
use crate::source::stored::Stored;
use crate::store::{blob_path, read_all};
use crate::verified::VerifiedReader;

/// An image archive whose members are known.
#[derive(Debug)]
pub(super) struct Archive {
    path: PathBuf,
    stored: Stored,
    members: HashMap<Vec<u8>, Member>,
    limits: Limits,
}

impl Archive {
    /// `listing` is that of `stored`.
    ///
    /// # Errors
    /// [`SourceError::Archive`], [`SourceError::TooManyMembers`] unless the
    /// listing is complete.
    pub(super) fn new(
        path: &Path,
        stored: Stored,
        listing: Listing,
        limits: Limits,
    ) -> Result<Self, OciError> {
        let path = path.to_owned();
        match listing.end {
            End::Complete | End::Foreign => {}
            End::Failed(source) => return Err(SourceError::Archive { path, source }.into()),
            End::TooMany => {
                let limit = limits.archive_members;
                return Err(SourceError::TooManyMembers { path, limit }.into());
            }
        }
        Ok(Self { path, stored, members: listing.members, limits })
    }

    /// Checks that the layout inside is of a version that is known.
    pub(super) fn check_layout(&self) -> Result<(), OciError> {
        let header = self.read(HEADER, Document::LayoutHeader, layout::HEADER_LIMIT)?;
        let header = header.ok_or_else(|| OciError::NotALayout { path: self.path.clone() })?;
        layout::check_header_text(&header, &self.path.join(HEADER))
    }

    /// The layers of an image of the layout inside, base first.
    pub(super) fn layers(&self, image: &Image) -> Result<Vec<Stored>, OciError> {
        image.layers.iter().map(|layer| self.blob(&layer.descriptor)).collect()
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Stored, OciError> {
        let digest = descriptor.digest.clone();
        if !matches!(digest.algorithm(), DigestAlgorithm::Sha256 | DigestAlgorithm::Sha512) {
            return Err(OciError::UnsupportedAlgorithm { digest });
        }
        let name = blob_path(Path::new(""), &digest);
        let found = self.find(name.as_os_str().as_encoded_bytes())?;
        let stored = found.ok_or_else(|| OciError::BlobMissing {
            layout: self.path.clone(),
            digest: digest.clone(),
        })?;
        match (stored.size(), descriptor.size) {
            (found, expected) if found != expected => {
                Err(OciError::BlobSize { digest, expected, found })
            }
            _ => Ok(stored),
        }
    }
}

impl Members for Archive {
    fn path(&self) -> &Path {
        &self.path
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn find(&self, name: &[u8]) -> Result<Option<Stored>, OciError> {
        let link = |name: &[u8]| match self.members.get(name) {
            Some(Member::Link(target)) => Ok(Some(target.clone())),
            _ => Ok(None),
        };
        let Some(name) = resolve(&self.path, name, link)? else { return Ok(None) };
        match self.members.get(&name) {
            None | Some(Member::Link(_)) => Ok(None),
            Some(Member::File { offset, size }) => {
                let path = self.path.clone();
                let cut = || SourceError::CutMember { path, member: name.clone(), size: *size };
                self.stored.part(*offset, *size).ok_or_else(cut).map(Some).map_err(Into::into)
            }
            Some(Member::Other) => {
                let path = self.path.join(String::from_utf8_lossy(&name).as_ref());
                Err(OciError::WrongType { path, expected: "file" })
            }
        }
    }
}

impl BlobSource for Archive {
    fn location(&self) -> &Path {
        &self.path
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn index(&self) -> Result<Index, OciError> {
        let bytes = self.read(INDEX, Document::Index, self.limits.index_bytes)?;
        let missing =
            || SourceError::MissingMember { path: self.path.clone(), member: INDEX.into() };
        Index::parse(&bytes.ok_or_else(missing)?, &self.path.join(INDEX))
    }

    fn document(
        &self,
        descriptor: &Descriptor,
        document: Document,
        limit: u64,
    ) -> Result<Vec<u8>, OciError> {
        let path = blob_path(&self.path, &descriptor.digest);
        let size = descriptor.size;
        if size > limit {
            return Err(OciError::TooLarge { path, document, size, limit });
        }
        let reader = self.blob(descriptor)?.reader();
        read_all(VerifiedReader::new(reader, &descriptor.digest, size)?, &path)
    }
}
