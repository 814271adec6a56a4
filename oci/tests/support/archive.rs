//! Image archives, put together by hand.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use microfs_oci::verified::sha256;
use microfs_oci::{LayerReader, OciError, PlatformRequest, Source, SourceError, SourceImage};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Handmade, OCI_CONFIG, OCI_MANIFEST};

/// A member of an archive.
pub enum Item<'a> {
    File(&'a str, &'a [u8]),
    Symlink(&'a str, &'a str),
    HardLink(&'a str, &'a str),
    Dir(&'a str),
    Fifo(&'a str),
}

/// A tar archive of members, names taken as they are.
pub fn tar(items: &[Item<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for item in items {
        let (name, kind, data, target) = match item {
            Item::File(name, data) => (name, tar::EntryType::Regular, *data, ""),
            Item::Symlink(name, target) => (name, tar::EntryType::Symlink, &b""[..], *target),
            Item::HardLink(name, target) => (name, tar::EntryType::Link, &b""[..], *target),
            Item::Dir(name) => (name, tar::EntryType::Directory, &b""[..], ""),
            Item::Fifo(name) => (name, tar::EntryType::Fifo, &b""[..], ""),
        };
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.as_mut_bytes()[157..157 + target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(u64::try_from(data.len()).unwrap());
        header.set_cksum();
        builder.append(&header, data).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A layer with one file.
pub fn layer(content: &[u8]) -> Vec<u8> {
    tar(&[Item::File("etc/file", content)])
}

/// A tar archive of a folder, each name behind `prefix`.
pub fn tar_folder(folder: &Path, prefix: &str) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(prefix, folder).unwrap();
    builder.into_inner().unwrap()
}

/// Stores an image in a layout: each layer as media type, stored bytes, and
/// bytes without compression. Describes its manifest.
pub fn image_of(made: &Handmade, layers: &[(&str, &[u8], &[u8])]) -> Value {
    let diff_ids: Vec<String> =
        layers.iter().map(|(_, _, plain)| sha256(plain).unwrap().to_string()).collect();
    let config = json!({"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": diff_ids}});
    let stored: Vec<Value> =
        layers.iter().map(|(kind, stored, _)| made.described(kind, stored)).collect();
    let manifest = json!({
        "schemaVersion": 2, "mediaType": OCI_MANIFEST, "annotations": {"a": "b"},
        "config": made.json(OCI_CONFIG, &config), "layers": stored,
    });
    made.json(OCI_MANIFEST, &manifest)
}

/// The config of a docker archive whose layers are these.
pub fn docker_config(layers: &[&[u8]]) -> Vec<u8> {
    let diff_ids: Vec<String> =
        layers.iter().map(|plain| sha256(plain).unwrap().to_string()).collect();
    json!({"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": diff_ids}})
        .to_string()
        .into_bytes()
}

/// A folder for sources.
pub struct Place {
    pub dir: TempDir,
}

impl Place {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Opens `name`, which may have a tag or a digest behind it.
    pub fn open(&self, name: &str) -> Result<Source, OciError> {
        Source::open(self.dir.path().join(name).as_os_str(), self.dir.path())
    }

    pub fn image(&self, name: &str) -> Result<SourceImage, OciError> {
        self.open(name)?.image(&PlatformRequest::Host)
    }
}

/// What is in all layers, each verified.
pub fn contents(image: &SourceImage) -> Vec<Vec<u8>> {
    let read = |mut reader: LayerReader| {
        let mut bytes = Vec::new();
        io::Read::read_to_end(&mut reader, &mut bytes).unwrap();
        let verified = reader.finish().unwrap();
        assert_eq!(verified.uncompressed_size, u64::try_from(bytes.len()).unwrap());
        assert_eq!(verified.diff_id, sha256(&bytes).unwrap());
        bytes
    };
    image.layers.iter().map(|layer| read(layer.open().unwrap())).collect()
}

/// The error as one of a source.
pub fn source_error(error: OciError) -> SourceError {
    match error {
        OciError::Source(error) => *error,
        other => panic!("{other}"),
    }
}
