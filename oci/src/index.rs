//! `index.json`: the list of images of a layout, edited without loss.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oci_spec::image::{Digest, MediaType};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::descriptor::Descriptor;
use crate::error::{Document, OciError};
use crate::json::JsonObject;
use crate::media_type;
use crate::platform::Platform;

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

    /// Whether it has the tag and can be understood.
    fn is_readable_as(&self, tag: &str) -> bool {
        self.descriptor.as_ref().is_ok_and(|descriptor| descriptor.tag() == Some(tag))
    }

    /// Whether it has the tag, broken or not.
    fn has_tag(&self, tag: &str) -> bool {
        self.is_readable_as(tag)
            || self.descriptor.is_err() && Fault::of(&self.raw).tag.as_deref() == Some(tag)
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

/// What a broken entry still says of itself.
struct Fault {
    tag: Option<String>,
    digest: Option<String>,
    /// The first field that is not as the specification has it, and why.
    field: Option<(&'static str, serde_json::Error)>,
}

impl Fault {
    fn of(raw: &RawValue) -> Self {
        let value: Value = serde_json::from_str(raw.get()).unwrap_or_default();
        let text = |place: &str| value.pointer(place).and_then(Value::as_str).map(str::to_owned);
        let name = format!("/annotations/{}", media_type::REF_NAME);
        let fields = [
            ("digest", required::<Digest>(&value, "digest")),
            ("size", required::<u64>(&value, "size")),
            ("mediaType", optional::<MediaType>(&value, "mediaType")),
            ("annotations", optional::<BTreeMap<String, String>>(&value, "annotations")),
            ("platform", optional::<Platform>(&value, "platform")),
        ];
        let broken = fields.into_iter().find_map(|(name, error)| Some((name, error?)));
        Self {
            tag: text(&name).filter(|tag| !tag.is_empty()),
            digest: text("/digest"),
            field: broken.filter(|_| value.is_object()),
        }
    }
}

fn required<T: DeserializeOwned>(value: &Value, key: &'static str) -> Option<serde_json::Error> {
    match value.get(key) {
        None => Some(serde::de::Error::missing_field(key)),
        Some(field) => serde_json::from_value::<T>(field.clone()).err(),
    }
}

fn optional<T: DeserializeOwned>(value: &Value, key: &'static str) -> Option<serde_json::Error> {
    let field = value.get(key)?.clone();
    serde_json::from_value::<Option<T>>(field).err()
}

/// A parsed `index.json`. Fields and entries that are not understood are kept
/// byte for byte when it is written again.
#[derive(Debug)]
pub struct Index {
    object: JsonObject,
    entries: Vec<Entry>,
    /// For messages.
    path: PathBuf,
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
        Ok(Self { object, entries: Vec::new(), path: PathBuf::new() })
    }

    /// Parses an index; `path` is for messages.
    ///
    /// An entry that cannot be parsed does not make the index invalid.
    ///
    /// # Errors
    /// [`OciError::Json`] when it is no index, [`OciError::Malformed`] when
    /// `schemaVersion` is not 2 or there is no list `manifests`; `null` counts
    /// as an empty one, as some programs write it.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, OciError> {
        let index = Self::parse_to_edit(bytes, path)?;
        if index.object.has("manifests") {
            return Ok(index);
        }
        let rule = "it has no list \"manifests\"";
        Err(OciError::Malformed { path: path.into(), document: Document::Index, rule })
    }

    /// The same for an edit, which gives an index its list where it is missing.
    pub(crate) fn parse_to_edit(bytes: &[u8], path: &Path) -> Result<Self, OciError> {
        let json = |source| OciError::Json { path: path.into(), document: Document::Index, source };
        let object: JsonObject = serde_json::from_slice(bytes).map_err(json)?;
        let version: Option<u64> = object.field("schemaVersion").map_err(json)?;
        if version.is_some_and(|version| version != 2) {
            let rule = "schemaVersion must be 2";
            return Err(OciError::Malformed { path: path.into(), document: Document::Index, rule });
        }
        let entries: Option<Vec<Box<RawValue>>> = object.field("manifests").map_err(json)?;
        let entries = entries.unwrap_or_default().into_iter().map(Entry::parse).collect();
        Ok(Self { object, entries, path: path.into() })
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

    /// Each entry that cannot be understood, as the [`OciError::BrokenEntry`]
    /// that names it and its field.
    #[must_use]
    pub fn broken(&self) -> Vec<OciError> {
        self.broken_where(|_| true).collect()
    }

    /// The first broken entry with a tag.
    pub(crate) fn broken_tag(&self, tag: &str) -> Option<OciError> {
        self.broken_where(|fault| fault.tag.as_deref() == Some(tag)).next()
    }

    /// The first broken entry with a digest.
    pub(crate) fn broken_digest(&self, digest: &Digest) -> Option<OciError> {
        self.broken_where(|fault| fault.digest.as_deref() == Some(digest.as_ref())).next()
    }

    fn broken_where(&self, wanted: impl Fn(&Fault) -> bool) -> impl Iterator<Item = OciError> {
        self.entries.iter().enumerate().filter_map(move |(place, entry)| {
            entry.descriptor.as_ref().err()?;
            let fault = Fault::of(&entry.raw);
            if !wanted(&fault) {
                return None;
            }
            let (field, source) = match fault.field {
                Some((field, source)) => (Some(field), source),
                // A repeated key, or no object at all.
                None => (None, serde_json::from_str::<Descriptor>(entry.raw.get()).err()?),
            };
            let path = self.path.clone();
            Some(OciError::BrokenEntry { path, place, tag: fault.tag, field, source })
        })
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

    /// Gives everything tagged `old` the tag `new` as well, but what is broken;
    /// `false` when nothing is tagged `old`.
    pub(crate) fn copy(&mut self, old: &str, new: &str) -> Result<bool, OciError> {
        let tagged = self.entries.iter().filter(|entry| entry.is_readable_as(old));
        let copies: Vec<Entry> =
            tagged.map(|entry| entry.renamed(new)).collect::<Result<_, _>>().map_err(encode)?;
        let found = !copies.is_empty();
        if !found && let Some(broken) = self.broken_tag(old) {
            return Err(broken);
        }
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
