//! Layouts for tests, made by this crate and by hand.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

pub mod archive;
pub mod compress;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use microfs_oci::verified::sha256;
use microfs_oci::{Digest, ImageSpec, Layout, NewLayer, Platform, Session, media_type};
use serde_json::{Value, json};
use tempfile::TempDir;

pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub const OCI_TAR: &str = "application/vnd.oci.image.layer.v1.tar";

/// A new layout of this crate in a folder of its own.
pub fn new_layout() -> (TempDir, Layout) {
    let dir = tempfile::tempdir().unwrap();
    let layout = Layout::create_or_open(dir.path().join("store")).unwrap();
    (dir, layout)
}

/// Stores an image of one microfs-typed layer.
pub fn add_image(session: &Session, tag: &str, content: &[u8]) -> NewLayer {
    let mut writer = session.blob().unwrap();
    writer.write_all(content).unwrap();
    let layer = NewLayer::opaque(media_type::microfs_layer(), writer.commit().unwrap());
    let spec = ImageSpec {
        layers: vec![layer.clone()],
        platform: Some(Platform::new("linux", "amd64")),
        ..ImageSpec::default()
    };
    let image = session.assemble(&spec).unwrap();
    session.publish(tag, &image.manifest).unwrap();
    layer
}

/// A layout written by hand, as another tool might have left it.
pub struct Handmade {
    pub dir: TempDir,
}

impl Handmade {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("blobs/sha256")).unwrap();
        fs::write(dir.path().join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).unwrap();
        Self { dir }
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn open(&self) -> Layout {
        Layout::open(self.path()).unwrap()
    }

    pub fn blob(&self, bytes: &[u8]) -> Digest {
        let digest = sha256(bytes).unwrap();
        fs::write(self.path().join("blobs/sha256").join(digest.digest()), bytes).unwrap();
        digest
    }

    /// Stores a blob and describes it.
    pub fn described(&self, media_type: &str, bytes: &[u8]) -> Value {
        json!({"mediaType": media_type, "digest": self.blob(bytes).to_string(), "size": bytes.len()})
    }

    pub fn json(&self, media_type: &str, value: &Value) -> Value {
        self.described(media_type, &serde_json::to_vec(value).unwrap())
    }

    /// Stores an image with one plain layer and describes its manifest.
    pub fn image(&self, os: &str, architecture: &str, content: &[u8]) -> Value {
        let layer = self.described(OCI_TAR, content);
        let config = json!({
            "os": os, "architecture": architecture,
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        });
        let config = self.json(OCI_CONFIG, &config);
        let manifest = json!({
            "schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": [layer],
        });
        self.json(OCI_MANIFEST, &manifest)
    }

    pub fn index(&self, manifests: &[Value]) {
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        fs::write(self.path().join("index.json"), index.to_string()).unwrap();
    }
}

/// Stores an index and describes it.
pub fn index_of(made: &Handmade, children: &[Value]) -> Value {
    made.json(
        OCI_INDEX,
        &json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": children}),
    )
}

/// Adds a tag to a descriptor.
pub fn tagged(mut descriptor: Value, tag: &str) -> Value {
    descriptor["annotations"]["org.opencontainers.image.ref.name"] = json!(tag);
    descriptor
}

/// Adds a platform `os/arch` or `os/arch/variant` to a descriptor.
pub fn on(mut descriptor: Value, platform: &str) -> Value {
    let mut parts = platform.split('/');
    descriptor["platform"] = json!({"os": parts.next(), "architecture": parts.next()});
    if let Some(variant) = parts.next() {
        descriptor["platform"]["variant"] = json!(variant);
    }
    descriptor
}

pub fn blob_path(layout: &Path, digest: &Digest) -> PathBuf {
    layout.join("blobs").join(digest.algorithm().as_ref()).join(digest.digest())
}

/// Blobs in a layout.
pub fn count_blobs(layout: &Path) -> usize {
    fs::read_dir(layout.join("blobs/sha256")).unwrap().count()
}

/// Starts one test of this binary as a process of its own, in the role that
/// the environment variable `ROLE` gives it.
pub fn spawn(test: &str, role: &str, layout: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env("MICROFS_OCI_ROLE", role)
        .env("MICROFS_OCI_LAYOUT", layout)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Role and layout, in a process started by [`spawn`].
pub fn role() -> Option<(String, PathBuf)> {
    let role = std::env::var("MICROFS_OCI_ROLE").ok()?;
    Some((role, PathBuf::from(std::env::var_os("MICROFS_OCI_LAYOUT")?)))
}
