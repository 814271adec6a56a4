//! From words of the command line to an opened stack.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use microfs::ReadAt;
use microfs::stack::{LayerSource, Stack, StackOptions};
use microfs_oci::media_type::{LayerKind, SUPERBLOCK_DIGEST};
use microfs_oci::{
    History, HistoryBuilder, Image, ImageLayer, Layout, OciError, PlatformRequest, Reference,
    Selector, verified,
};

use crate::exit::UsageError;

/// Splits words into the image they begin with and what follows it: the image
/// is `OCI-DIR TAG` or `OCI-DIR:TAG`, and `after` words follow.
pub fn split(words: &[OsString], after: usize) -> anyhow::Result<(Reference, &[OsString])> {
    let count = words.len().saturating_sub(after);
    match (words, count) {
        ([layout, tag, rest @ ..], 2) => Ok((Reference::from_parts(layout, tag)?, rest)),
        ([image, rest @ ..], 1) => Ok((Reference::parse(image)?, rest)),
        _ => bail!("an image is named OCI-DIR TAG or OCI-DIR:TAG"),
    }
}

/// The tag of an image that is to be written.
pub fn tag_to_write(reference: &Reference) -> anyhow::Result<&str> {
    reference.tag_to_write().map_err(|error| match error {
        OciError::NoTagGiven { layout } => {
            let layout = layout.display();
            UsageError::of(format!("a tag is missing: {layout} TAG or {layout}:TAG")).into()
        }
        other => other.into(),
    })
}

/// The new tag for an image of a layout: a tag alone.
pub fn new_tag<'a>(layout: &Path, word: Option<&'a OsString>) -> anyhow::Result<&'a str> {
    let Some(tag) = word.and_then(|word| word.to_str()) else {
        bail!("the new tag is not UTF-8");
    };
    match without_layout(layout, tag) {
        None => Ok(tag),
        Some(rest) => {
            let text = format!("{tag:?}: a new tag is written without its layout: {rest}");
            Err(UsageError::of(text).into())
        }
    }
}

/// What follows in a name that begins with the path of this layout and a colon.
pub fn without_layout<'a>(layout: &Path, name: &'a str) -> Option<&'a str> {
    let colons = name.match_indices(':').filter_map(|(at, _)| name.split_at_checked(at));
    colons.into_iter().find_map(|(front, rest)| {
        let is_layout = Path::new(front) == layout
            || !front.is_empty() && is_same(Path::new(front), layout).unwrap_or(false);
        is_layout.then(|| rest.strip_prefix(':')).flatten()
    })
}

/// Splits words into an image and paths inside it, however many.
pub fn split_paths(words: &[OsString]) -> anyhow::Result<(Reference, &[OsString])> {
    let [image, rest @ ..] = words else { bail!("an image is named OCI-DIR TAG or OCI-DIR:TAG") };
    let reference = Reference::parse(image)?;
    match rest {
        [tag, paths @ ..] if reference.selector == Selector::Only && !is_path(tag) => {
            Ok((Reference::from_parts(image, tag)?, paths))
        }
        paths => Ok((reference, paths)),
    }
}

fn is_path(word: &OsStr) -> bool {
    word.as_encoded_bytes().starts_with(b"/")
}

/// An image whose layers are open.
pub struct Opened {
    /// Its layout.
    pub layout: Layout,
    /// Manifest and config.
    pub image: Image,
    /// The merged tree.
    pub stack: Arc<Stack>,
}

/// Finds an image and opens its layers, every one checked against the
/// manifest: by the digest of its superblock where the manifest has it, else
/// by reading all of it.
pub fn open(
    reference: &Reference,
    platform: &PlatformRequest,
    options: &StackOptions,
) -> anyhow::Result<Opened> {
    let layout = Layout::open(&reference.layout)?;
    let (image, files) = layout.resolve_and_open(&reference.selector, platform)?;
    let mut layers = Vec::new();
    for (layer, file) in image.layers.iter().zip(files) {
        if layer.kind != LayerKind::Microfs {
            bail!(
                "layer {} has media type {}: not a microfs layer",
                layer.descriptor.digest,
                layer.descriptor.media_type
            );
        }
        verify(&layout, layer, &file)?;
        layers.push(LayerSource { sha256: sha256_of(layer), source: Box::new(file) });
    }
    if layers.is_empty() {
        let empty = microfs::writer::empty_layer()?;
        layers.push(LayerSource { source: Box::new(empty), sha256: None });
    }
    let stack = Stack::open(layers, options)
        .with_context(|| format!("cannot open image {}", reference_text(reference)))?;
    Ok(Opened { layout, image, stack: Arc::new(stack) })
}

/// Checks a layer's file against what the manifest says of it.
pub fn verify(layout: &Layout, layer: &ImageLayer, file: &File) -> anyhow::Result<()> {
    let Some(expected) = layer.descriptor.annotation(SUPERBLOCK_DIGEST) else {
        return Ok(layout.verify_blob(&layer.descriptor)?);
    };
    let mut superblock = [0; 4096];
    let at = layer.descriptor.size.checked_sub(4096);
    let found = at.map(|at| ReadAt::read_exact_at(file, at, &mut superblock));
    let digest = verified::sha256(&superblock)?.to_string();
    match found {
        Some(Ok(())) if digest == expected => Ok(()),
        Some(Err(error)) => {
            Err(error).context(format!("cannot read layer {}", layer.descriptor.digest))
        }
        _ => bail!(
            "layer {} is damaged: its superblock has not the digest that the manifest records",
            layer.descriptor.digest
        ),
    }
}

fn sha256_of(layer: &ImageLayer) -> Option<[u8; 32]> {
    let digest = layer.descriptor.digest.to_string();
    let hex = digest.strip_prefix("sha256:")?;
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// An entry for the history of an image that is made of another. It has that
/// one's date, or that of 1970: programs fail on an entry without date.
pub fn history_entry(image: &Image, created_by: &str) -> anyhow::Result<History> {
    let mut entry = HistoryBuilder::default().created_by(created_by).build()?;
    let created = image.created.as_deref().unwrap_or("1970-01-01T00:00:00Z");
    entry.set_created(Some(created.to_owned()));
    Ok(entry)
}

/// Says which verb has to write, when the layout does not let it.
pub fn writing<T>(verb: &str, result: Result<T, OciError>) -> anyhow::Result<T> {
    match result {
        Err(error @ OciError::NotWritable { .. }) => {
            Err(error).with_context(|| format!("{verb} has to write to the layout"))
        }
        other => Ok(other?),
    }
}

/// Whether two paths lead to one folder.
pub fn is_same(one: &Path, other: &Path) -> anyhow::Result<bool> {
    let canonical = |path: &Path| {
        path.canonicalize().with_context(|| format!("cannot find {}", path.display()))
    };
    Ok(canonical(one)? == canonical(other)?)
}

/// `OCI-DIR:TAG` as a user would write it.
pub fn reference_text(reference: &Reference) -> String {
    match &reference.selector {
        Selector::Only => reference.layout.display().to_string(),
        Selector::Tag(tag) => format!("{}:{tag}", reference.layout.display()),
        Selector::Digest(digest) => format!("{}@{digest}", reference.layout.display()),
    }
}
