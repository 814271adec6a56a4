//! From a name to one manifest: matching of names, nested indexes, platforms.

use std::collections::HashSet;

use oci_spec::image::Digest;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::descriptor::Descriptor;
use crate::error::{Document, OciError};
use crate::image::{self, BlobSource};
use crate::index::{Index, NestedIndex};
use crate::media_type::{CONTAINERD_IMAGE_NAME, NodeKind};
use crate::platform::{Platform, PlatformRequest};
use crate::reference::Selector;
use crate::store::blob_path;

/// A manifest that a name leads to.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// Position of the entry of `index.json` that leads to it, in the list
    /// that was searched.
    root: usize,
    /// Indexes between `index.json` and it.
    depth: usize,
    pub(crate) manifest: Descriptor,
    platform: Option<Platform>,
}

/// Everything a list of entries leads to.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    pub(crate) found: Vec<Candidate>,
    /// What is neither a manifest nor an index.
    others: Vec<Descriptor>,
    indexes: HashSet<Digest>,
}

/// Chooses the manifest; gives it with the entry of `index.json` it is under.
pub(crate) fn select(
    source: &impl BlobSource,
    selector: &Selector,
    request: &PlatformRequest,
) -> Result<(Descriptor, Descriptor), OciError> {
    let index = source.index()?;
    let roots = match selector {
        Selector::Only => only(source, &index)?,
        Selector::Tag(tag) => tagged(source, &index, tag)?,
        Selector::Digest(digest) => vec![by_digest(source, &index, digest)?],
    };
    let name = match (selector, roots.first()) {
        (Selector::Only, Some(first)) => {
            first.tag().map_or_else(|| format!("@{}", first.digest), str::to_owned)
        }
        _ => selector.to_string(),
    };
    let mut candidates = Candidates::default();
    for (root, descriptor) in roots.iter().enumerate() {
        if roots.len() > 1 && descriptor.is_attestation() {
            continue;
        }
        candidates.collect(source, root, descriptor, None, 0)?;
    }
    let chosen = candidates.choose(source, &name, request, &roots)?;
    let entry = roots.get(chosen.root).unwrap_or(&chosen.manifest).clone();
    Ok((entry, chosen.manifest))
}

/// The entries of the only image. Entries that differ in platform but share
/// one tag are one image, and so are several tags of one digest. Beside a
/// broken entry it cannot be told which image is the only one.
fn only(source: &impl BlobSource, index: &Index) -> Result<Vec<Descriptor>, OciError> {
    let images: Vec<&Descriptor> =
        index.descriptors().filter(|entry| !entry.is_attestation()).collect();
    if let Some(broken) = index.broken().into_iter().next() {
        return Err(broken);
    }
    let Some(first) = images.first() else {
        return Err(OciError::TagRequired {
            layout: source.location().into(),
            available: Vec::new(),
        });
    };
    if images.iter().all(|image| image.digest == first.digest) {
        return Ok(vec![(*first).clone()]);
    }
    if first.tag().is_some() && images.iter().all(|image| image.tag() == first.tag()) {
        return Ok(images.into_iter().cloned().collect());
    }
    Err(OciError::TagRequired { layout: source.location().into(), available: index.names() })
}

/// The entries that a tag means. The first of these rules that matches counts:
/// it is the tag; it is the full image name as containerd notes it; it is the
/// tag part, or the end from a `/` on, of a full image name.
fn tagged(source: &impl BlobSource, index: &Index, tag: &str) -> Result<Vec<Descriptor>, OciError> {
    let full = |entry: &Descriptor| entry.annotation(CONTAINERD_IMAGE_NAME).map(str::to_owned);
    let rules: [&dyn Fn(&Descriptor) -> bool; 3] = [
        &|entry| entry.tag() == Some(tag),
        &|entry| full(entry).as_deref() == Some(tag),
        &|entry| {
            let names = [entry.tag().map(str::to_owned), full(entry)];
            names.into_iter().flatten().any(|name| is_short_for(tag, &name))
        },
    ];
    for (number, rule) in rules.into_iter().enumerate() {
        // A looser rule must not find another image instead of a broken one.
        if number > 0
            && let Some(broken) = index.broken_tag(tag)
        {
            return Err(broken);
        }
        let entries: Vec<Descriptor> =
            index.descriptors().filter(|entry| rule(entry)).cloned().collect();
        if !entries.is_empty() {
            return Ok(entries);
        }
    }
    Err(OciError::TagNotFound {
        layout: source.location().into(),
        tag: tag.to_owned(),
        available: index.names(),
    })
}

/// `v1` and `library/x:v1` are short for `docker.io/library/x:v1`.
pub(crate) fn is_short_for(short: &str, name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    let tag_part = last.split_once(':').map(|(_, tag)| tag);
    let path_end = name.strip_suffix(short).is_some_and(|front| front.ends_with('/'));
    !short.is_empty() && (tag_part == Some(short) || path_end && short.contains(':'))
}

/// The descriptor with a digest: in `index.json`, or in an index below it.
fn by_digest(
    source: &impl BlobSource,
    index: &Index,
    digest: &Digest,
) -> Result<Descriptor, OciError> {
    if let Some(broken) = index.broken_digest(digest) {
        return Err(broken);
    }
    let limit = source.limits().index_depth;
    let mut seen = HashSet::new();
    let mut level: Vec<Descriptor> = index.descriptors().cloned().collect();
    for _ in 0..=limit {
        if let Some(found) = level.iter().find(|entry| entry.digest == *digest) {
            return Ok(found.clone());
        }
        let mut next = Vec::new();
        for entry in level {
            if NodeKind::of(entry.media_type.as_ref()) != NodeKind::Index
                || !seen.insert(entry.digest.clone())
            {
                continue;
            }
            match read_index(source, &entry) {
                Ok(nested) => next.extend(nested.manifests),
                // A layout may lack blobs; what is there can still be used.
                Err(OciError::BlobMissing { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        level = next;
    }
    Err(OciError::DigestNotFound { layout: source.location().into(), digest: digest.clone() })
}

impl Candidates {
    pub(crate) fn collect(
        &mut self,
        source: &impl BlobSource,
        root: usize,
        descriptor: &Descriptor,
        inherited: Option<&Platform>,
        depth: usize,
    ) -> Result<(), OciError> {
        if depth > 0 && descriptor.is_attestation() {
            return Ok(());
        }
        let platform = descriptor.platform.as_ref().or(inherited);
        let kind = match NodeKind::of(descriptor.media_type.as_ref()) {
            NodeKind::Unstated => {
                let limit = source.limits().manifest_bytes;
                let bytes = source.document(descriptor, Document::ManifestOrIndex, limit)?;
                classify(source, descriptor, &bytes)?
            }
            kind => kind,
        };
        match kind {
            NodeKind::Index => {
                let limit = source.limits().index_depth;
                if depth >= limit {
                    return Err(OciError::IndexTooDeep {
                        digest: descriptor.digest.clone(),
                        limit,
                    });
                }
                if self.indexes.insert(descriptor.digest.clone()) {
                    for child in read_index(source, descriptor)?.manifests {
                        self.collect(source, root, &child, platform, depth.saturating_add(1))?;
                    }
                }
            }
            NodeKind::Manifest => self.found.push(Candidate {
                root,
                depth,
                manifest: descriptor.clone(),
                platform: platform.cloned(),
            }),
            NodeKind::Unstated | NodeKind::Other => self.others.push(descriptor.clone()),
        }
        Ok(())
    }

    fn choose(
        mut self,
        source: &impl BlobSource,
        name: &str,
        request: &PlatformRequest,
        roots: &[Descriptor],
    ) -> Result<Candidate, OciError> {
        let mut seen = HashSet::new();
        self.found.retain(|candidate| seen.insert(candidate.manifest.digest.clone()));
        if let ([], [other, ..]) = (self.found.as_slice(), self.others.as_slice()) {
            let media_type = other.media_type.to_string();
            return Err(OciError::NotAnImage { digest: other.digest.clone(), media_type });
        }
        if let ([candidate], PlatformRequest::Host) = (self.found.as_slice(), request)
            && candidate.depth == 0
        {
            return Ok(candidate.clone());
        }
        let wanted = request.platform();
        let mut ranked = Vec::new();
        let mut available: Vec<Platform> = Vec::new();
        for candidate in self.found {
            let platform = match candidate.platform.clone() {
                Some(platform) => platform,
                None => match image::load(source, &candidate.manifest, &candidate.manifest) {
                    Ok(image) => image.platform,
                    Err(OciError::BlobMissing { .. }) => Platform::default(),
                    Err(error) => return Err(error),
                },
            };
            if let Some(rank) = wanted.accepts(&platform) {
                ranked.push((rank, candidate));
            }
            if !available.contains(&platform) {
                available.push(platform);
            }
        }
        let best = ranked.iter().map(|(rank, _)| *rank).max();
        let mut best = ranked.into_iter().filter(|(rank, _)| Some(*rank) == best).map(|(_, c)| c);
        let Some(first) = best.next() else {
            return Err(OciError::NoSuchPlatform {
                name: name.to_owned(),
                wanted: Box::new(wanted),
                available,
            });
        };
        // Inside one index the first that fits counts, by the image
        // specification. Two entries of one name are a different matter.
        let rivals: Vec<Candidate> = best.filter(|rival| rival.root != first.root).collect();
        if rivals.is_empty() {
            return Ok(first);
        }
        let describe = |candidate: &Candidate| {
            let tag = roots.get(candidate.root).and_then(Descriptor::tag).unwrap_or_default();
            format!("{tag}@{}", candidate.manifest.digest)
        };
        Err(OciError::AmbiguousTag {
            layout: source.location().into(),
            tag: name.to_owned(),
            matches: std::iter::once(&first).chain(&rivals).map(describe).collect(),
        })
    }
}

fn read_index(source: &impl BlobSource, descriptor: &Descriptor) -> Result<NestedIndex, OciError> {
    let document = Document::Index;
    let bytes = source.document(descriptor, document, source.limits().manifest_bytes)?;
    classify(source, descriptor, &bytes)?;
    serde_json::from_slice(&bytes).map_err(|error| OciError::Json {
        path: blob_path(source.location(), &descriptor.digest),
        document,
        source: error,
    })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Shape {
    schema_version: Option<u64>,
    media_type: Option<String>,
    manifests: Option<IgnoredAny>,
    layers: Option<IgnoredAny>,
    config: Option<IgnoredAny>,
}

/// Whether a document is an index or a manifest. Its descriptor, its own media
/// type and its fields must not contradict each other.
pub(crate) fn classify(
    source: &impl BlobSource,
    descriptor: &Descriptor,
    bytes: &[u8],
) -> Result<NodeKind, OciError> {
    let document = Document::ManifestOrIndex;
    let path = || blob_path(source.location(), &descriptor.digest);
    let shape: Shape = serde_json::from_slice(bytes).map_err(|error| OciError::Json {
        path: path(),
        document,
        source: error,
    })?;
    let malformed = |rule| OciError::Malformed { path: path(), document, rule };
    let stated = shape.media_type.unwrap_or_default();
    let conflict = |stated: &str| OciError::TypeConflict {
        digest: descriptor.digest.clone(),
        described: descriptor.media_type.to_string(),
        stated: stated.to_owned(),
    };
    if shape.schema_version.is_some_and(|version| version != 2) {
        return Err(malformed("schemaVersion must be 2"));
    }
    let by_shape =
        match (shape.manifests.is_some(), shape.layers.is_some() || shape.config.is_some()) {
            (true, true) => return Err(conflict("both an index and a manifest")),
            (true, false) => NodeKind::Index,
            (false, true) => NodeKind::Manifest,
            (false, false) => NodeKind::Unstated,
        };
    let kinds = [NodeKind::of(descriptor.media_type.as_ref()), NodeKind::of(&stated), by_shape];
    let mut known = kinds.into_iter().filter(|kind| *kind != NodeKind::Unstated);
    let first = known.next().ok_or_else(|| malformed("it has neither manifests nor layers"))?;
    if known.any(|kind| kind != first) {
        return Err(conflict(if stated.is_empty() { "another kind of document" } else { &stated }));
    }
    Ok(first)
}
