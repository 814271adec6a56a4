//! Descriptors: media type, digest and size of one blob.

use std::collections::BTreeMap;

use oci_spec::image::{Digest, MediaType};
use serde::{Deserialize, Serialize};

use crate::json::null_default;
use crate::media_type;
use crate::platform::Platform;

/// The descriptor of the OCI image specification, as far as it is used here.
///
/// Annotations are sorted, so it serialises to the same bytes every time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// Media type of the blob; empty when the document left it out.
    #[serde(rename = "mediaType", default = "unstated", deserialize_with = "media_type_or_null")]
    pub media_type: MediaType,
    /// Digest of the blob.
    pub digest: Digest,
    /// Size of the blob in bytes.
    pub size: u64,
    /// Annotations.
    #[serde(
        default,
        deserialize_with = "null_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub annotations: BTreeMap<String, String>,
    /// Platform, on descriptors in an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
}

fn unstated() -> MediaType {
    MediaType::Other(String::new())
}

fn media_type_or_null<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<MediaType, D::Error> {
    Ok(Option::<MediaType>::deserialize(deserializer)?.unwrap_or_else(unstated))
}

impl Descriptor {
    /// A descriptor without annotations.
    #[must_use]
    pub fn new(media_type: MediaType, digest: Digest, size: u64) -> Self {
        Self { media_type, digest, size, annotations: BTreeMap::new(), platform: None }
    }

    /// The tag, on descriptors in `index.json`. An empty one counts as none.
    #[must_use]
    pub fn tag(&self) -> Option<&str> {
        self.annotation(media_type::REF_NAME)
    }

    /// A non-empty annotation.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// Whether this is a build attestation that stands beside images in an
    /// index: marked by annotation, or by the platform `unknown/unknown`.
    #[must_use]
    pub fn is_attestation(&self) -> bool {
        self.annotation(media_type::DOCKER_REFERENCE_TYPE) == Some("attestation-manifest")
            || self.platform.as_ref().is_some_and(Platform::is_unknown)
    }
}
