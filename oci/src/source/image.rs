//! An image of a source, and its layers ready to be read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use oci_spec::image::{Digest, MediaType};

use crate::error::OciError;
use crate::image::Image;
use crate::media_type::{Compression, LayerKind};
use crate::platform::Platform;
use crate::source::error::{LayerName, SourceError};
use crate::source::layer::LayerReader;
use crate::source::stored::Stored;

/// An image whose documents were read and verified and whose layers are open.
#[derive(Clone, Debug, Default)]
pub struct SourceImage {
    /// The config as stored; `None` for a single layer archive.
    pub config_json: Option<Vec<u8>>,
    /// The platform, from the config; `None` for a single layer archive.
    pub platform: Option<Platform>,
    /// Digest of the manifest, where there is an OCI manifest.
    pub manifest_digest: Option<Digest>,
    /// Annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
    /// The name it was found under, or the first it has.
    pub tag: Option<String>,
    /// Layers, base first. The same layer may occur several times.
    pub layers: Vec<SourceLayer>,
}

impl SourceImage {
    /// `stored` are the layers in order, each of the size its descriptor has.
    pub(super) fn of_image(image: Image, stored: Vec<Stored>) -> Result<Self, OciError> {
        let tag = image.tag().map(str::to_owned);
        let mut layers = Vec::new();
        for (number, (layer, stored)) in image.layers.into_iter().zip(stored).enumerate() {
            let descriptor = layer.descriptor;
            if layer.kind == LayerKind::Unknown {
                let (digest, media_type) = (descriptor.digest, descriptor.media_type);
                return Err(SourceError::NotALayer { number, digest, media_type }.into());
            }
            layers.push(SourceLayer {
                name: LayerName { number, origin: descriptor.digest.as_ref().into() },
                digest: Some(descriptor.digest),
                diff_id: Some(layer.diff_id),
                kind: layer.kind,
                media_type: Some(descriptor.media_type),
                annotations: descriptor.annotations,
                stored,
            });
        }
        Ok(Self {
            config_json: Some(image.config_json),
            platform: Some(image.platform),
            manifest_digest: Some(image.manifest.digest),
            annotations: image.annotations,
            tag,
            layers,
        })
    }

    /// An image of one layer about which nothing else is known.
    pub(super) fn of_layer(path: &Path, stored: Stored) -> Self {
        let name = LayerName { number: 0, origin: path.into() };
        let layers = vec![SourceLayer::unstated(name, stored)];
        Self { layers, ..Self::default() }
    }
}

/// A layer of a [`SourceImage`]. It is open: whatever happens to the source's
/// name, its bytes can be read, by several threads at once.
#[derive(Clone, Debug)]
pub struct SourceLayer {
    /// How messages name it.
    pub name: LayerName,
    /// Digest of the bytes as stored, where one is stated. It is verified when
    /// the layer is read, not before.
    pub digest: Option<Digest>,
    /// Digest of the layer without its compression, where a config states it.
    /// Also verified when it is read.
    pub diff_id: Option<Digest>,
    /// What the media type says. Its compression is no more than a hint.
    pub kind: LayerKind,
    /// The media type, where one is stated.
    pub media_type: Option<MediaType>,
    /// Annotations of the layer's descriptor.
    pub annotations: BTreeMap<String, String>,
    stored: Stored,
}

const PLAIN_TAR: LayerKind = LayerKind::Tar { compression: Compression::None, distributable: true };

impl SourceLayer {
    fn unstated(name: LayerName, stored: Stored) -> Self {
        let (digest, diff_id, media_type) = (None, None, None);
        let annotations = BTreeMap::new();
        Self { name, digest, diff_id, kind: PLAIN_TAR, media_type, annotations, stored }
    }

    /// A layer of a docker archive.
    pub(super) fn saved(
        number: usize,
        member: &str,
        digest: Option<Digest>,
        diff_id: Digest,
        stored: Stored,
    ) -> Self {
        let name = LayerName { number, origin: OsString::from(member) };
        Self { digest, diff_id: Some(diff_id), ..Self::unstated(name, stored) }
    }

    /// Bytes as stored. Where a descriptor states a size, this is it.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.stored.size()
    }

    /// Starts reading the layer from its beginning.
    ///
    /// # Errors
    /// [`OciError::UnsupportedAlgorithm`] for digests that cannot be verified;
    /// [`SourceError::LayerRead`].
    pub fn open(&self) -> Result<LayerReader, OciError> {
        LayerReader::open(self, &self.stored)
    }
}
