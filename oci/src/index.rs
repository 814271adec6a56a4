//! `index.json`: the list of images of a layout, edited without loss.

use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::descriptor::Descriptor;
use crate::error::{Document, OciError};
use crate::json::JsonObject;
use crate::media_type;

/// One entry of an index: its text, and what it means if that is understood.
#[derive(Debug)]
pub(crate) struct Entry {
    raw: Box<RawValue>,
    pub(crate) descriptor: Result<Descriptor, serde_json::Error>,
}

impl Entry {
    fn parse(raw: Box<RawValue>) -> Self {
        let descriptor = serde_json::from_str(raw.get());
        Self { raw, descriptor }
    }

    fn has_tag(&self, tag: &str) -> bool {
        self.descriptor.as_ref().is_ok_and(|descriptor| descriptor.tag() == Some(tag))
    }

    /// The same entry under another tag. Everything else is kept, but the full
    /// image name of containerd, which would go on naming the old one.
    fn renamed(&self, tag: &str) -> serde_json::Result<Self> {
        let mut object: JsonObject = serde_json::from_str(self.raw.get())?;
        let mut annotations: JsonObject = object.field("annotations")?.unwrap_or_default();
        annotations.remove(media_type::CONTAINERD_IMAGE_NAME);
        annotations.set(media_type::REF_NAME, tag)?;
        object.set("annotations", &annotations)?;
        Ok(Self::parse(serde_json::value::to_raw_value(&object)?))
    }
}

/// A parsed `index.json`. Fields and entries that are not understood are kept
/// byte for byte when it is written again.
#[derive(Debug)]
pub struct Index {
    object: JsonObject,
    entries: Vec<Entry>,
}

impl Index {
    /// The index of a new layout.
    pub(crate) fn empty() -> Result<Self, OciError> {
        let mut object = JsonObject::default();
        object
            .set("schemaVersion", &2)
            .and_then(|()| object.set("mediaType", "application/vnd.oci.image.index.v1+json"))
            .and_then(|()| object.set("manifests", &[(); 0]))
            .map_err(encode)?;
        Ok(Self { object, entries: Vec::new() })
    }

    /// Parses an index; `path` is for messages.
    ///
    /// An entry that cannot be parsed does not make the index invalid.
    ///
    /// # Errors
    /// [`OciError::Json`] when it is no index, [`OciError::Malformed`] when
    /// `schemaVersion` is not 2.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, OciError> {
        let json = |source| OciError::Json { path: path.into(), document: Document::Index, source };
        let object: JsonObject = serde_json::from_slice(bytes).map_err(json)?;
        let version: Option<u64> = object.field("schemaVersion").map_err(json)?;
        if version.is_some_and(|version| version != 2) {
            let rule = "schemaVersion must be 2";
            return Err(OciError::Malformed { path: path.into(), document: Document::Index, rule });
        }
        let entries: Option<Vec<Box<RawValue>>> = object.field("manifests").map_err(json)?;
        let entries = entries.unwrap_or_default().into_iter().map(Entry::parse).collect();
        Ok(Self { object, entries })
    }

    /// The entries that can be understood, in order.
    pub fn descriptors(&self) -> impl Iterator<Item = &Descriptor> {
        self.entries.iter().filter_map(|entry| entry.descriptor.as_ref().ok())
    }

    /// How many entries cannot be understood: no object, no digest, no size.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        self.entries.iter().filter(|entry| entry.descriptor.is_err()).count()
    }

    pub(crate) fn into_entries(self) -> Vec<Entry> {
        self.entries
    }

    /// Names to show to a user who has to choose: tags, and for images
    /// without one `@` and the digest; each once, in order of the index.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for descriptor in self.descriptors().filter(|descriptor| !descriptor.is_attestation()) {
            let name = match descriptor.tag() {
                Some(tag) => tag.to_owned(),
                None => format!("@{}", descriptor.digest),
            };
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Gives `descriptor` the tag. It takes the place of the entries that had
    /// it, or comes last.
    pub(crate) fn put(&mut self, tag: &str, descriptor: &Descriptor) -> Result<(), OciError> {
        let mut descriptor = descriptor.clone();
        descriptor.annotations.insert(media_type::REF_NAME.to_owned(), tag.to_owned());
        let raw = serde_json::value::to_raw_value(&descriptor).map_err(encode)?;
        self.replace(tag, vec![Entry::parse(raw)]);
        Ok(())
    }

    /// Gives everything tagged `old` the tag `new` as well; `false` when
    /// nothing is tagged `old`.
    pub(crate) fn copy(&mut self, old: &str, new: &str) -> Result<bool, OciError> {
        let tagged = self.entries.iter().filter(|entry| entry.has_tag(old));
        let copies: Vec<Entry> =
            tagged.map(|entry| entry.renamed(new)).collect::<Result<_, _>>().map_err(encode)?;
        let found = !copies.is_empty();
        if found && old != new {
            self.replace(new, copies);
        }
        Ok(found)
    }

    /// Removes the entries with the tag; `false` when there are none.
    pub(crate) fn remove(&mut self, tag: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| !entry.has_tag(tag));
        self.entries.len() != before
    }

    fn replace(&mut self, tag: &str, new: Vec<Entry>) {
        let place = self.entries.iter().position(|entry| entry.has_tag(tag));
        let place = place.unwrap_or(self.entries.len());
        self.remove(tag);
        let tail = self.entries.split_off(place.min(self.entries.len()));
        self.entries.extend(new);
        self.entries.extend(tail);
    }

    /// The text to write.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, OciError> {
        let mut object = self.object.clone();
        let entries: Vec<&RawValue> = self.entries.iter().map(|entry| entry.raw.as_ref()).collect();
        object.set("manifests", &entries).map_err(encode)?;
        serde_json::to_vec(&object).map_err(encode)
    }
}

fn encode(source: serde_json::Error) -> OciError {
    OciError::Encode { document: Document::Index, source }
}

/// A nested index, of which only the entries matter.
#[derive(Debug, Deserialize)]
pub(crate) struct NestedIndex {
    #[serde(default, deserialize_with = "crate::json::null_default")]
    pub(crate) manifests: Vec<Descriptor>,
}
