//! From layers and options to a config and a manifest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use oci_spec::image::{Digest, History, MediaType};
use serde::Serialize;

use crate::config::{self, ConfigDocument, ConfigOptions};
use crate::descriptor::Descriptor;
use crate::error::{Document, OciError};
use crate::json::JsonObject;
use crate::platform::Platform;
use crate::session::Session;
use crate::store::Blob;

/// A layer that is in the layout already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLayer {
    /// Media type, digest, size and annotations of the blob.
    pub descriptor: Descriptor,
    /// Digest of the layer without its outer compression.
    pub diff_id: Digest,
}

impl NewLayer {
    /// A layer without outer compression: its diff_id is its digest.
    #[must_use]
    pub fn opaque(media_type: MediaType, blob: Blob) -> Self {
        let diff_id = blob.digest.clone();
        Self { descriptor: Descriptor::new(media_type, blob.digest, blob.size), diff_id }
    }

    /// The same layer with one more annotation on its descriptor.
    #[must_use]
    pub fn annotate(mut self, key: &str, value: impl Into<String>) -> Self {
        self.descriptor.annotations.insert(key.to_owned(), value.into());
        self
    }
}

/// What becomes of the history of the source config.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum HistoryChange {
    /// It stays as it is, byte for byte; absent without a source config.
    #[default]
    Keep,
    /// These entries follow it.
    Append(Vec<History>),
    /// These entries take its place; with none there is no history.
    Replace(Vec<History>),
}

/// An image to be assembled. The result is a function of this value alone.
#[derive(Clone, Debug, Default)]
pub struct ImageSpec {
    /// Layers, base first.
    pub layers: Vec<NewLayer>,
    /// A config to start from, as stored. Everything that the other fields do
    /// not change is kept, unknown fields included.
    pub source_config: Option<Vec<u8>>,
    /// What to run, and how.
    pub options: ConfigOptions,
    /// Platform; `None` keeps that of the source config.
    pub platform: Option<Platform>,
    /// RFC 3339 time of creation; `None` keeps that of the source config, or
    /// leaves it out.
    pub created: Option<String>,
    /// History.
    pub history: HistoryChange,
    /// Annotations of the manifest.
    pub annotations: BTreeMap<String, String>,
}

/// An image whose config and manifest are stored, not yet tagged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// Descriptor of the manifest, with its platform: what
    /// [`Session::publish`] takes.
    pub manifest: Descriptor,
    /// Descriptor of the config.
    pub config: Descriptor,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ManifestText<'a> {
    schema_version: u8,
    media_type: MediaType,
    config: &'a Descriptor,
    layers: Vec<&'a Descriptor>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct RootFsText<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    diff_ids: Vec<&'a Digest>,
}

impl Session {
    /// Stores config and manifest of an image.
    ///
    /// # Errors
    /// [`OciError::PlatformMissing`]; [`OciError::TooManyLayers`] and
    /// [`OciError::TooLarge`] for what could not be read back;
    /// [`OciError::Json`] for a source config that is none; [`OciError::Io`].
    pub fn assemble(&self, spec: &ImageSpec) -> Result<Assembled, OciError> {
        let limits = *self.layout().limits();
        if spec.layers.len() > limits.layers {
            return Err(OciError::TooManyLayers {
                layers: spec.layers.len(),
                limit: limits.layers,
            });
        }
        let (config, platform) = config_bytes(spec)?;
        let config = self.put_document(
            &config,
            Document::Config,
            MediaType::ImageConfig,
            limits.config_bytes,
        )?;
        let manifest = ManifestText {
            schema_version: 2,
            media_type: MediaType::ImageManifest,
            config: &config,
            layers: spec.layers.iter().map(|layer| &layer.descriptor).collect(),
            annotations: &spec.annotations,
        };
        let manifest = serde_json::to_vec(&manifest)
            .map_err(|source| OciError::Encode { document: Document::Manifest, source })?;
        let mut manifest = self.put_document(
            &manifest,
            Document::Manifest,
            MediaType::ImageManifest,
            limits.manifest_bytes,
        )?;
        manifest.platform = Some(platform);
        Ok(Assembled { manifest, config })
    }

    fn put_document(
        &self,
        bytes: &[u8],
        document: Document,
        media_type: MediaType,
        limit: u64,
    ) -> Result<Descriptor, OciError> {
        let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if size > limit {
            return Err(OciError::TooLarge {
                path: self.layout().path().into(),
                document,
                size,
                limit,
            });
        }
        let blob = self.put(bytes)?;
        Ok(Descriptor::new(media_type, blob.digest, blob.size))
    }
}

/// The config and the platform it states.
fn config_bytes(spec: &ImageSpec) -> Result<(Vec<u8>, Platform), OciError> {
    let document = Document::Config;
    let encode = |source| OciError::Encode { document, source };
    let source_error =
        |source| OciError::Json { path: PathBuf::from("source config"), document, source };
    let mut object = JsonObject::default();
    let mut platform = spec.platform.clone();
    if let Some(bytes) = &spec.source_config {
        object = serde_json::from_slice(bytes).map_err(source_error)?;
        let parsed: ConfigDocument = serde_json::from_slice(bytes).map_err(source_error)?;
        platform = platform.or(Some(parsed.platform()));
    }
    let platform = platform
        .filter(|platform| !platform.os.is_empty() && !platform.architecture.is_empty())
        .ok_or(OciError::PlatformMissing)?;
    if let Some(created) = &spec.created {
        object.set("created", created).map_err(encode)?;
    }
    if spec.platform.is_some() || spec.source_config.is_none() {
        set_platform(&mut object, &platform).map_err(encode)?;
    }
    let mut config: JsonObject = object.field("config").map_err(source_error)?.unwrap_or_default();
    if spec.options != ConfigOptions::default() {
        config::apply(&mut config, &spec.options).map_err(encode)?;
        if config.is_empty() {
            object.remove("config");
        } else {
            object.set("config", &config).map_err(encode)?;
        }
    }
    let diff_ids = spec.layers.iter().map(|layer| &layer.diff_id).collect();
    object.set("rootfs", &RootFsText { kind: "layers", diff_ids }).map_err(encode)?;
    set_history(&mut object, &spec.history).map_err(encode)?;
    Ok((serde_json::to_vec(&object).map_err(encode)?, platform))
}

fn set_platform(object: &mut JsonObject, platform: &Platform) -> serde_json::Result<()> {
    object.set("architecture", &platform.architecture)?;
    object.set("os", &platform.os)?;
    for (key, value) in [("variant", &platform.variant), ("os.version", &platform.os_version)] {
        match value {
            Some(value) => object.set(key, value)?,
            None => object.remove(key),
        }
    }
    if platform.os_features.is_empty() {
        object.remove("os.features");
        return Ok(());
    }
    object.set("os.features", &platform.os_features)
}

fn set_history(object: &mut JsonObject, change: &HistoryChange) -> serde_json::Result<()> {
    match change {
        HistoryChange::Keep => {}
        HistoryChange::Append(entries) => {
            let mut history: Vec<Box<serde_json::value::RawValue>> =
                object.field("history")?.unwrap_or_default();
            for entry in entries {
                history.push(serde_json::value::to_raw_value(entry)?);
            }
            object.set("history", &history)?;
        }
        HistoryChange::Replace(entries) if entries.is_empty() => object.remove("history"),
        HistoryChange::Replace(entries) => object.set("history", entries)?,
    }
    Ok(())
}
