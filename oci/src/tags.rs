//! What a layout holds, and the names of it.

use crate::descriptor::Descriptor;
use crate::error::OciError;
use crate::image::{Image, ImageLayer, load};
use crate::index::Index;
use crate::layout::{INDEX, Layout};
use crate::reference::check_tag;
use crate::select::Candidates;

/// An entry of `index.json`.
#[derive(Debug)]
pub struct ListedImage {
    /// The entry: tag, digest, media type.
    pub entry: Descriptor,
    /// The manifests it leads to, one for an ordinary image, several for one
    /// of many platforms; or why they cannot be told.
    pub manifests: Result<Vec<ListedManifest>, OciError>,
}

/// A manifest that an entry of `index.json` leads to.
#[derive(Debug)]
pub struct ListedManifest {
    /// Descriptor of the manifest.
    pub manifest: Descriptor,
    /// The image, or why it cannot be read: a layout may lack blobs.
    pub image: Result<Image, OciError>,
}

impl Layout {
    /// Lists all entries that can be understood, in order of the index. A
    /// broken image does not hide the others. Build attestations are left out.
    ///
    /// # Errors
    /// As [`Layout::index`].
    pub fn list(&self) -> Result<Vec<ListedImage>, OciError> {
        Ok(self.list_of(&self.index()?))
    }

    /// The same of an index of this layout that was read before.
    #[must_use]
    pub fn list_of(&self, index: &Index) -> Vec<ListedImage> {
        let entries = index.descriptors().filter(|entry| !entry.is_attestation());
        entries.map(|entry| self.list_entry(entry)).collect()
    }

    fn list_entry(&self, entry: &Descriptor) -> ListedImage {
        let mut candidates = Candidates::default();
        let manifests = candidates.collect(self, 0, entry, None, 0).map(|()| {
            let manifests = candidates.found.into_iter().map(|candidate| candidate.manifest);
            manifests
                .map(|manifest| ListedManifest { image: load(self, entry, &manifest), manifest })
                .collect()
        });
        ListedImage { entry: entry.clone(), manifests }
    }

    /// Layers of readable images that satisfy a condition, in order of the
    /// index: to find what was converted already, by its annotations.
    /// Before one is used, [`crate::Session::reuse`] must say it is there.
    ///
    /// # Errors
    /// As [`Layout::index`].
    pub fn find_layers(
        &self,
        wanted: impl Fn(&ImageLayer) -> bool,
    ) -> Result<Vec<ImageLayer>, OciError> {
        // A list that is missing is made by the tag that is about to be written.
        let index = Index::parse_to_edit(&self.index_bytes()?, &self.path().join(INDEX))?;
        let listed = self.list_of(&index).into_iter();
        let manifests = listed.filter_map(|listed| listed.manifests.ok()).flatten();
        let images = manifests.filter_map(|listed| listed.image.ok());
        Ok(images.flat_map(|image| image.layers).filter(|layer| wanted(layer)).collect())
    }

    /// Gives the image tagged `old` the tag `new` as well, instead of whatever
    /// had that. The entry is copied with all its fields.
    ///
    /// # Errors
    /// [`OciError::InvalidTag`] for `new`; [`OciError::TagNotFound`] unless
    /// `old` is exactly the tag of an entry; [`OciError::BrokenEntry`] when
    /// that one cannot be understood; [`OciError::TooLarge`];
    /// [`OciError::Io`].
    pub fn tag(&self, old: &str, new: &str) -> Result<(), OciError> {
        check_tag(new)?;
        self.edit_index(|index| {
            if index.copy(old, new)? { Ok(()) } else { Err(self.no_tag(old, index.names())) }
        })
    }

    /// Removes a tag, and with it the entries that had it. The blobs stay
    /// until [`Layout::gc`].
    ///
    /// # Errors
    /// [`OciError::TagNotFound`] unless it is exactly the tag of an entry;
    /// [`OciError::Io`].
    pub fn untag(&self, tag: &str) -> Result<(), OciError> {
        self.edit_index(|index| {
            if index.remove(tag) { Ok(()) } else { Err(self.no_tag(tag, index.names())) }
        })
    }

    fn no_tag(&self, tag: &str, available: Vec<String>) -> OciError {
        OciError::TagNotFound { layout: self.path().into(), tag: tag.to_owned(), available }
    }
}
