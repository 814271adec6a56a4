//! What `docker save` and its like write: `manifest.json`, configs, layers.

use std::path::{Path, PathBuf};

use oci_spec::image::Digest;
use serde::Deserialize;

use crate::config::ConfigDocument;
use crate::error::{Document, OciError};
use crate::json::null_default;
use crate::platform::PlatformRequest;
use crate::reference::Selector;
use crate::select::is_short_for;
use crate::source::error::SourceError;
use crate::source::image::{SourceImage, SourceLayer};
use crate::source::members::Members;
use crate::verified::{self, Hasher, parse_digest};

pub(super) const MANIFEST: &str = "manifest.json";

/// An entry of `manifest.json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default, deserialize_with = "null_default")]
    repo_tags: Vec<String>,
    #[serde(default, deserialize_with = "null_default")]
    layers: Vec<String>,
}

/// Whether a `manifest.json` is that of a docker archive: web applications have
/// a file of that name too, but it holds an object, not a list.
pub(super) fn is_manifest(start: &[u8]) -> bool {
    start.trim_ascii_start().first() == Some(&b'[')
}

/// Finds an image.
///
/// A tag is an image's name as it stands there, the same with what docker
/// leaves out (`docker.io/library/`, `:latest`), or its end. A digest is that
/// of the config, docker's image ID.
///
/// # Errors
/// [`OciError::TagNotFound`], [`OciError::TagRequired`],
/// [`OciError::AmbiguousTag`], [`OciError::DigestNotFound`],
/// [`OciError::NoSuchPlatform`], [`OciError::LayerCount`],
/// [`OciError::TooManyLayers`], [`OciError::BlobDigest`] for a config whose
/// name is another digest, [`SourceError::MissingMember`].
pub(super) fn image(
    archive: &impl Members,
    selector: &Selector,
    request: &PlatformRequest,
) -> Result<SourceImage, OciError> {
    let (saved, tag) = choose(archive, selector)?;
    let (config_json, digest) = config(archive, &saved.config)?;
    let path = archive.path().join(&saved.config);
    let document = Document::Config;
    let config: ConfigDocument = serde_json::from_slice(&config_json)
        .map_err(|source| OciError::Json { path: path.clone(), document, source })?;
    let platform = config.platform();
    let wanted = request.platform();
    if matches!(request, PlatformRequest::Exact(_)) && wanted.accepts(&platform).is_none() {
        return Err(OciError::NoSuchPlatform {
            name: tag.unwrap_or_else(|| format!("@{digest}")),
            wanted: Box::new(wanted),
            available: vec![platform],
        });
    }
    let diff_ids = config.diff_ids(&path)?;
    let (layers, limit) = (saved.layers.len(), archive.limits().layers);
    if layers > limit {
        return Err(OciError::TooManyLayers { layers, limit });
    }
    if layers != diff_ids.len() {
        return Err(OciError::LayerCount { digest, layers, diff_ids: diff_ids.len() });
    }
    let layers = saved.layers.iter().zip(diff_ids).enumerate().map(|(number, (name, diff_id))| {
        let stored = find(archive, name, || archive.find(name.as_bytes()))?;
        Ok(SourceLayer::saved(number, name, digest_in(name), parse_digest(diff_id)?, stored))
    });
    Ok(SourceImage {
        layers: layers.collect::<Result<_, OciError>>()?,
        config_json: Some(config_json),
        platform: Some(platform),
        tag,
        ..SourceImage::default()
    })
}

fn find<T>(
    archive: &impl Members,
    name: &str,
    find: impl FnOnce() -> Result<Option<T>, OciError>,
) -> Result<T, OciError> {
    find()?.ok_or_else(|| {
        let (path, member) = (archive.path().to_owned(), name.as_bytes().to_vec());
        SourceError::MissingMember { path, member }.into()
    })
}

/// The config and its digest. When its name holds a digest they must agree.
fn config(archive: &impl Members, name: &str) -> Result<(Vec<u8>, Digest), OciError> {
    let limit = archive.limits().config_bytes;
    let bytes = find(archive, name, || archive.read(name, Document::Config, limit))?;
    if let Some(digest) = digest_in(name) {
        let mut hasher = Hasher::like(&digest)?;
        hasher.update(&bytes);
        let found = hasher.text();
        if found != digest.as_ref() {
            return Err(OciError::BlobDigest { digest, found });
        }
    }
    let digest = verified::sha256(&bytes)?;
    Ok((bytes, digest))
}

/// The digest that a name stands for: `blobs/sha256/HEX`, `sha256:HEX`, and for
/// a config `HEX.json`.
fn digest_in(name: &str) -> Option<Digest> {
    let text = match name.split('/').collect::<Vec<_>>().as_slice() {
        ["blobs", algorithm, hex] => format!("{algorithm}:{hex}"),
        [file] if file.contains(':') => (*file).to_owned(),
        [file] => format!("sha256:{}", file.strip_suffix(".json")?),
        _ => return None,
    };
    parse_digest(&text).ok()
}

fn choose(
    archive: &impl Members,
    selector: &Selector,
) -> Result<(Saved, Option<String>), OciError> {
    let list = read(archive)?;
    let layout = || PathBuf::from(archive.path());
    let tagged = |saved: &Saved| (saved.clone(), saved.repo_tags.first().cloned());
    match selector {
        Selector::Only => match list.as_slice() {
            [first, rest @ ..] if rest.iter().all(|other| other.config == first.config) => {
                Ok(tagged(first))
            }
            _ => Err(OciError::TagRequired { layout: layout(), available: names(&list) }),
        },
        Selector::Digest(wanted) => {
            for saved in &list {
                if config(archive, &saved.config)?.1 == *wanted {
                    return Ok(tagged(saved));
                }
            }
            Err(OciError::DigestNotFound { layout: layout(), digest: wanted.clone() })
        }
        Selector::Tag(wanted) => by_tag(archive.path(), list, wanted),
    }
}

fn by_tag(
    path: &Path,
    list: Vec<Saved>,
    wanted: &str,
) -> Result<(Saved, Option<String>), OciError> {
    let rules: [&dyn Fn(&str) -> bool; 3] =
        [&|name| name == wanted, &|name| whole(name) == whole(wanted), &|name| {
            is_short_for(wanted, name)
        }];
    for rule in rules {
        let mut found: Vec<(&Saved, &String)> = Vec::new();
        for saved in &list {
            let name = saved.repo_tags.iter().find(|name| rule(name));
            let known = found.iter().any(|(other, _)| other.config == saved.config);
            found.extend(name.filter(|_| !known).map(|name| (saved, name)));
        }
        match found.as_slice() {
            [] => {}
            [(saved, name)] => return Ok(((*saved).clone(), Some((*name).clone()))),
            several => {
                let matches =
                    several.iter().map(|(saved, name)| format!("{name} {}", saved.config));
                return Err(OciError::AmbiguousTag {
                    layout: path.into(),
                    tag: wanted.to_owned(),
                    matches: matches.collect(),
                });
            }
        }
    }
    let (layout, tag) = (path.into(), wanted.to_owned());
    Err(OciError::TagNotFound { layout, tag, available: names(&list) })
}

fn read(archive: &impl Members) -> Result<Vec<Saved>, OciError> {
    let limit = archive.limits().index_bytes;
    let document = Document::DockerManifest;
    let bytes = find(archive, MANIFEST, || archive.read(MANIFEST, document, limit))?;
    serde_json::from_slice(&bytes).map_err(|source| OciError::Json {
        path: archive.path().join(MANIFEST),
        document,
        source,
    })
}

/// Names to choose from; an image without one by the name of its config.
fn names(list: &[Saved]) -> Vec<String> {
    let mut names = Vec::new();
    for saved in list {
        match (saved.repo_tags.as_slice(), digest_in(&saved.config)) {
            ([], Some(digest)) => names.push(format!("@{digest}")),
            ([], None) => names.push(saved.config.clone()),
            (tags, _) => names.extend_from_slice(tags),
        }
    }
    names
}

/// An image name with all that docker lets its users leave out.
fn whole(name: &str) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    let tag = if last.contains(':') { "" } else { ":latest" };
    let front = match name.split_once('/') {
        None => "docker.io/library/",
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => "",
        Some(_) => "docker.io/",
    };
    format!("{front}{name}{tag}")
}
