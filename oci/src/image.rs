//! One image: its manifest, config and layers, verified.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use oci_spec::image::{Digest, ImageConfiguration};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::config::{ConfigDocument, ConfigOptions};
use crate::descriptor::Descriptor;
use crate::error::{Document, OciError};
use crate::index::{Index, NestedIndex};
use crate::json::null_default;
use crate::layout::Layout;
use crate::limits::Limits;
use crate::media_type::{LayerKind, NodeKind, is_image_config};
use crate::platform::{Platform, PlatformRequest};
use crate::reference::Selector;
use crate::select::{classify, select};
use crate::store::blob_path;
use crate::verified::parse_digest;

/// How often an image that changes while it is opened is looked up again.
const RETRIES: usize = 8;

/// Where images can be read from: a layout folder, or anything else that has
/// an index and blobs.
pub trait BlobSource {
    /// Path of the source, for messages.
    fn location(&self) -> &Path;

    /// The limits that hold for reading it.
    fn limits(&self) -> &Limits;

    /// The top index.
    ///
    /// # Errors
    /// Any [`OciError`].
    fn index(&self) -> Result<Index, OciError>;

    /// The bytes of a JSON document: verified by digest and size, and at most
    /// `limit` long.
    ///
    /// # Errors
    /// [`OciError::BlobMissing`] when it is not there; [`OciError::TooLarge`];
    /// any other [`OciError`].
    fn document(
        &self,
        descriptor: &Descriptor,
        document: Document,
        limit: u64,
    ) -> Result<Vec<u8>, OciError>;
}

impl BlobSource for Layout {
    fn location(&self) -> &Path {
        self.path()
    }

    fn limits(&self) -> &Limits {
        Self::limits(self)
    }

    fn index(&self) -> Result<Index, OciError> {
        Self::index(self)
    }

    fn document(
        &self,
        descriptor: &Descriptor,
        document: Document,
        limit: u64,
    ) -> Result<Vec<u8>, OciError> {
        self.read_blob_verified(descriptor, document, limit)
    }
}

/// A layer of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageLayer {
    /// Descriptor from the manifest, annotations included.
    pub descriptor: Descriptor,
    /// Digest of the layer without its outer compression, from the config.
    /// Not verified here: that takes reading the layer.
    pub diff_id: Digest,
    /// What the media type says.
    pub kind: LayerKind,
}

/// An image whose manifest and config were read and verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The entry of `index.json` it was found under: the manifest itself or an
    /// index.
    pub entry: Descriptor,
    /// Descriptor of the manifest.
    pub manifest: Descriptor,
    /// The manifest as stored.
    pub manifest_json: Vec<u8>,
    /// The manifest's own annotations.
    pub annotations: BTreeMap<String, String>,
    /// Descriptor of the config.
    pub config: Descriptor,
    /// The config as stored.
    pub config_json: Vec<u8>,
    /// The platform, from the config.
    pub platform: Platform,
    /// `created` of the config.
    pub created: Option<String>,
    /// Layers, base first.
    pub layers: Vec<ImageLayer>,
}

impl Image {
    /// The tag it was found under.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.entry.tag()
    }

    /// Bytes of all layers as stored.
    #[must_use]
    pub fn layers_size(&self) -> u64 {
        self.layers.iter().fold(0, |sum, layer| sum.saturating_add(layer.descriptor.size))
    }

    /// What the config says about running it.
    ///
    /// # Errors
    /// [`OciError::Json`] when the `config` object is malformed.
    pub fn options(&self) -> Result<ConfigOptions, OciError> {
        self.parse_config().map(|config: ConfigDocument| config.config)
    }

    /// The whole config as a typed value. Fields that the type does not know
    /// are missing from it; [`Image::config_json`] has everything.
    ///
    /// # Errors
    /// [`OciError::Json`] when a field has not the type the specification
    /// gives it.
    pub fn configuration(&self) -> Result<ImageConfiguration, OciError> {
        let mut value: serde_json::Value = self.parse_config()?;
        // Go writes an empty list as null, where the type wants a list.
        if let Some(list) = value.pointer_mut("/rootfs/diff_ids").filter(|list| list.is_null()) {
            *list = serde_json::Value::Array(Vec::new());
        }
        serde_json::from_value(value).map_err(|source| self.config_error(source))
    }

    /// Entries of the config's history that stand for a layer; `None` without
    /// history, which is optional. Where there is one, it should have as many
    /// of them as there are layers.
    ///
    /// # Errors
    /// [`OciError::Json`] when the history is malformed.
    pub fn history_layers(&self) -> Result<Option<usize>, OciError> {
        let config: HistoryDocument = self.parse_config()?;
        let layers =
            |history: &Vec<HistoryEntry>| history.iter().filter(|entry| !entry.empty_layer).count();
        Ok(config.history.as_ref().filter(|history| !history.is_empty()).map(layers))
    }

    fn parse_config<T: DeserializeOwned>(&self) -> Result<T, OciError> {
        serde_json::from_slice(&self.config_json).map_err(|source| self.config_error(source))
    }

    fn config_error(&self, source: serde_json::Error) -> OciError {
        let path = self.config.digest.as_ref().into();
        OciError::Json { path, document: Document::Config, source }
    }
}

/// Finds an image of any source.
///
/// - Entries that share the name asked for are one image when their platforms
///   tell them apart; if two different ones fit equally, the name is ambiguous
///   and refused, not guessed. A tag also matches as the last part of a full
///   image name, if no entry has it exactly.
/// - Indexes are followed; build attestations are passed over. Inside one
///   index the first manifest that fits best is taken.
/// - Manifest and config are verified by digest and size; layers are not read.
///
/// # Errors
/// [`OciError::TagNotFound`], [`OciError::TagRequired`],
/// [`OciError::AmbiguousTag`], [`OciError::DigestNotFound`],
/// [`OciError::NoSuchPlatform`], [`OciError::NotAnImage`],
/// [`OciError::TypeConflict`], [`OciError::LayerCount`],
/// [`OciError::TooManyLayers`], [`OciError::DiffIdMismatch`] for a microfs
/// layer, [`OciError::IndexTooDeep`], and what reading
/// a blob can give.
pub fn resolve(
    source: &impl BlobSource,
    selector: &Selector,
    request: &PlatformRequest,
) -> Result<Image, OciError> {
    let (entry, manifest) = select(source, selector, request)?;
    load(source, &entry, &manifest)
}

impl Layout {
    /// [`resolve`] for this layout.
    ///
    /// # Errors
    /// As [`resolve`].
    pub fn resolve(
        &self,
        selector: &Selector,
        request: &PlatformRequest,
    ) -> Result<Image, OciError> {
        retry(self, || resolve(self, selector, request))
    }

    /// Finds an image and opens its layers, base first. What is open stays
    /// readable whatever happens to the tag and to the blobs.
    ///
    /// If the image is replaced and collected between the two steps, the new
    /// one is looked up.
    ///
    /// # Errors
    /// As [`resolve`] and [`Layout::open_blob`].
    pub fn resolve_and_open(
        &self,
        selector: &Selector,
        request: &PlatformRequest,
    ) -> Result<(Image, Vec<File>), OciError> {
        retry(self, || {
            let image = resolve(self, selector, request)?;
            let open = |layer: &ImageLayer| {
                self.open_blob(&layer.descriptor.digest, layer.descriptor.size)
            };
            let files = image.layers.iter().map(open).collect::<Result<_, _>>()?;
            Ok((image, files))
        })
    }
}

/// Tries again when a blob was missing and the index is another one by now.
fn retry<T>(layout: &Layout, attempt: impl Fn() -> Result<T, OciError>) -> Result<T, OciError> {
    let mut before = layout.index_bytes()?;
    for _ in 0..RETRIES {
        match attempt() {
            Err(error) if error.is_missing_blob() => {
                let now = layout.index_bytes()?;
                if now == before {
                    return Err(error);
                }
                before = now;
            }
            result => return result,
        }
    }
    attempt()
}

#[derive(Deserialize)]
struct HistoryDocument {
    history: Option<Vec<HistoryEntry>>,
}

#[derive(Deserialize)]
struct HistoryEntry {
    #[serde(default, deserialize_with = "null_default")]
    empty_layer: bool,
}

#[derive(Deserialize)]
struct ManifestDocument {
    config: Option<Descriptor>,
    #[serde(default, deserialize_with = "null_default")]
    layers: Vec<Descriptor>,
    #[serde(default, deserialize_with = "null_default")]
    annotations: BTreeMap<String, String>,
}

fn read_manifest(
    source: &impl BlobSource,
    manifest: &Descriptor,
) -> Result<(Vec<u8>, ManifestDocument), OciError> {
    let document = Document::Manifest;
    let bytes = source.document(manifest, document, source.limits().manifest_bytes)?;
    if classify(source, manifest, &bytes)? != NodeKind::Manifest {
        let media_type = manifest.media_type.to_string();
        return Err(OciError::NotAnImage { digest: manifest.digest.clone(), media_type });
    }
    let path = blob_path(source.location(), &manifest.digest);
    let parsed = serde_json::from_slice(&bytes);
    Ok((bytes, parsed.map_err(|error| OciError::Json { path, document, source: error })?))
}

/// Reads and checks the image of a manifest.
pub(crate) fn load(
    source: &impl BlobSource,
    entry: &Descriptor,
    manifest: &Descriptor,
) -> Result<Image, OciError> {
    let (manifest_json, parsed) = read_manifest(source, manifest)?;
    let config = parsed.config.ok_or_else(|| OciError::Malformed {
        path: blob_path(source.location(), &manifest.digest),
        document: Document::Manifest,
        rule: "it has no config",
    })?;
    if !is_image_config(&config.media_type) {
        let media_type = config.media_type.to_string();
        return Err(OciError::NotAnImage { digest: manifest.digest.clone(), media_type });
    }
    let (count, limit) = (parsed.layers.len(), source.limits().layers);
    if count > limit {
        return Err(OciError::TooManyLayers { layers: count, limit });
    }
    let document = Document::Config;
    let config_json = source.document(&config, document, source.limits().config_bytes)?;
    let path = blob_path(source.location(), &config.digest);
    let described: ConfigDocument = serde_json::from_slice(&config_json)
        .map_err(|error| OciError::Json { path: path.clone(), document, source: error })?;
    let diff_ids = described.diff_ids(&path)?;
    if diff_ids.len() != count {
        return Err(OciError::LayerCount {
            digest: manifest.digest.clone(),
            layers: count,
            diff_ids: diff_ids.len(),
        });
    }
    let layers = parsed.layers.into_iter().zip(diff_ids).enumerate();
    Ok(Image {
        entry: entry.clone(),
        manifest: manifest.clone(),
        manifest_json,
        annotations: parsed.annotations,
        config,
        config_json,
        platform: described.platform(),
        created: described.created.clone(),
        layers: layers.map(|(number, pair)| layer(number, pair)).collect::<Result<_, _>>()?,
    })
}

fn layer(number: usize, (descriptor, diff_id): (Descriptor, &str)) -> Result<ImageLayer, OciError> {
    let diff_id = parse_digest(diff_id)?;
    let kind = LayerKind::of(&descriptor.media_type);
    // A tar type may be mislabelled and compressed all the same; ours may not.
    let same_algorithm = diff_id.algorithm() == descriptor.digest.algorithm();
    if kind == LayerKind::Microfs && same_algorithm && diff_id != descriptor.digest {
        return Err(OciError::DiffIdMismatch { number, digest: descriptor.digest, diff_id });
    }
    Ok(ImageLayer { descriptor, diff_id, kind })
}

/// The blobs that must be there for a document to be tagged: config and layers
/// of a manifest, but not layers that registries may withhold. An index may
/// be sparse: nothing below it has to be there.
pub(crate) fn references(
    source: &impl BlobSource,
    document: &Descriptor,
) -> Result<Vec<Descriptor>, OciError> {
    if NodeKind::of(document.media_type.as_ref()) == NodeKind::Index {
        let bytes = source.document(document, Document::Index, source.limits().manifest_bytes)?;
        let path = blob_path(source.location(), &document.digest);
        let parsed = serde_json::from_slice::<NestedIndex>(&bytes);
        return match parsed {
            Ok(_) => Ok(Vec::new()),
            Err(source) => Err(OciError::Json { path, document: Document::Index, source }),
        };
    }
    let (_, parsed) = read_manifest(source, document)?;
    let present = |layer: &Descriptor| {
        !matches!(LayerKind::of(&layer.media_type), LayerKind::Tar { distributable: false, .. })
    };
    Ok(parsed.config.into_iter().chain(parsed.layers.into_iter().filter(present)).collect())
}
