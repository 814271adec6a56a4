//! Which blobs the images of a layout refer to.
//!
//! Anything that looks like a descriptor counts, wherever it stands in a
//! document: `config`, `layers`, `manifests`, `subject`, and what later
//! versions of the specification may add. Annotations do not count.

use std::collections::HashSet;

use oci_spec::image::{Digest, DigestAlgorithm, MediaType};
use serde_json::Value;

use crate::descriptor::Descriptor;
use crate::error::{Document, OciError};
use crate::layout::{INDEX, Layout};
use crate::media_type::{LayerKind, NodeKind, is_image_config};
use crate::store::{blob_dir, blob_path};

/// All that is referred to.
#[derive(Debug, Default)]
pub(super) struct Marks {
    pub(super) reachable: HashSet<Digest>,
    pub(super) missing: Vec<Digest>,
    followed: HashSet<Digest>,
    queue: Vec<Descriptor>,
}

impl Marks {
    /// Follows all references from `index.json`.
    pub(super) fn of(layout: &Layout) -> Result<Self, OciError> {
        let mut marks = Self::default();
        let index = layout.index()?;
        if let Some(broken) = index.broken().into_iter().next() {
            return Err(broken);
        }
        index.descriptors().for_each(|descriptor| marks.add(descriptor.clone()));
        // Fields beside `manifests`, such as `subject`.
        let document = Document::Index;
        let path = layout.path().join(INDEX);
        let whole: Value = serde_json::from_slice(&layout.index_bytes()?)
            .map_err(|source| OciError::Json { path, document, source })?;
        marks.walk(&whole).map_err(|source| OciError::Json {
            path: layout.path().join(INDEX),
            document,
            source,
        })?;
        while let Some(descriptor) = marks.queue.pop() {
            marks.follow(layout, &descriptor)?;
        }
        Ok(marks)
    }

    fn add(&mut self, descriptor: Descriptor) {
        self.reachable.insert(descriptor.digest.clone());
        if !is_leaf(&descriptor) && !self.followed.contains(&descriptor.digest) {
            self.queue.push(descriptor);
        }
    }

    fn follow(&mut self, layout: &Layout, descriptor: &Descriptor) -> Result<(), OciError> {
        let kind = NodeKind::of(descriptor.media_type.as_ref());
        let limit = layout.limits().manifest_bytes;
        if self.followed.contains(&descriptor.digest)
            || kind == NodeKind::Other && descriptor.size > limit
        {
            return Ok(());
        }
        let bytes = match self.read(layout, descriptor, limit) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                if kind != NodeKind::Other && !self.missing.contains(&descriptor.digest) {
                    self.missing.push(descriptor.digest.clone());
                }
                return Ok(());
            }
            // Damaged, but nothing that could refer to anything.
            Err(_) if kind == NodeKind::Other => return Ok(()),
            Err(error) => return Err(error),
        };
        let parsed = serde_json::from_slice::<Value>(&bytes).and_then(|value| self.walk(&value));
        match parsed {
            Err(source) if kind != NodeKind::Other => Err(OciError::Json {
                path: blob_path(layout.path(), &descriptor.digest),
                document: Document::ManifestOrIndex,
                source,
            }),
            // An unknown type that is not JSON, or has no descriptors in it.
            _ => {
                self.followed.insert(descriptor.digest.clone());
                Ok(())
            }
        }
    }

    fn read(
        &self,
        layout: &Layout,
        descriptor: &Descriptor,
        limit: u64,
    ) -> Result<Option<Vec<u8>>, OciError> {
        if !matches!(
            descriptor.digest.algorithm(),
            DigestAlgorithm::Sha256 | DigestAlgorithm::Sha512
        ) {
            // It cannot be verified; if it is there it could refer to others.
            let present = match blob_dir(layout.root(), &descriptor.digest)? {
                Some(dir) => dir.file(descriptor.digest.digest())?.is_some(),
                None => false,
            };
            let digest = descriptor.digest.clone();
            return if present { Err(OciError::UnsupportedAlgorithm { digest }) } else { Ok(None) };
        }
        match layout.read_blob_verified(descriptor, Document::ManifestOrIndex, limit) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(OciError::BlobMissing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Adds every descriptor inside a document. JSON nests at most 128 deep.
    fn walk(&mut self, value: &Value) -> Result<(), serde_json::Error> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.walk(item)),
            Value::Object(fields) => {
                if fields.get("digest").is_some_and(Value::is_string) {
                    self.add(serde_json::from_value(value.clone())?);
                }
                let children = fields.iter().filter(|(key, _)| *key != "annotations");
                children.map(|(_, child)| child).try_for_each(|child| self.walk(child))
            }
            _ => Ok(()),
        }
    }
}

/// Types that never refer to other blobs.
fn is_leaf(descriptor: &Descriptor) -> bool {
    let media_type = &descriptor.media_type;
    is_image_config(media_type)
        || *media_type == MediaType::EmptyJSON
        || LayerKind::of(media_type) != LayerKind::Unknown
}
