//! Media types of layers and documents, and the annotation keys in use.

use std::fmt;

use oci_spec::image::MediaType;

/// Media type of a microfs layer. It sits below the OCI layer prefix, so
/// engines that go by the prefix treat it as a layer.
pub const MICROFS_LAYER: &str = "application/vnd.oci.image.layer.microfs.v1";

/// Descriptor annotation: `sha256:…` of the last 4096 bytes of a microfs layer.
/// Keys under `containerd.io/snapshot/` are handed to snapshotters.
pub const SUPERBLOCK_DIGEST: &str = "containerd.io/snapshot/microfs-superblock-digest";
/// Descriptor annotation: how many bytes at the end of a microfs layer hold
/// everything but file content, in decimal.
pub const TAIL_LENGTH: &str = "containerd.io/snapshot/microfs-tail-length";
/// Descriptor annotation: digest of the layer that a microfs layer was
/// converted from.
pub const SOURCE_LAYER_DIGEST: &str = "dev.microfs.source.layer.digest";
/// Descriptor annotation: diff_id of the layer that a microfs layer was
/// converted from.
pub const SOURCE_LAYER_DIFF_ID: &str = "dev.microfs.source.layer.diff-id";
/// Descriptor annotation: the options a layer was converted with, as an opaque
/// text that is equal when the options are.
pub const SOURCE_LAYER_OPTIONS: &str = "dev.microfs.source.layer.options";
/// Manifest annotation: digest of the manifest that an image was converted from.
pub const SOURCE_MANIFEST_DIGEST: &str = "dev.microfs.source.manifest.digest";

/// Index entry annotation: the tag (OCI image specification, annotations).
pub const REF_NAME: &str = oci_spec::image::ANNOTATION_REF_NAME;
/// Index entry annotation: the full image name, as containerd writes it.
pub const CONTAINERD_IMAGE_NAME: &str = "io.containerd.image.name";
/// Index entry annotation that marks a build attestation instead of an image.
pub const DOCKER_REFERENCE_TYPE: &str = "vnd.docker.reference.type";

pub(crate) const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";
pub(crate) const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub(crate) const DOCKER_CONFIG: &str = "application/vnd.docker.container.image.v1+json";

/// [`MICROFS_LAYER`] as a typed value.
#[must_use]
pub fn microfs_layer() -> MediaType {
    MediaType::Other(MICROFS_LAYER.to_owned())
}

/// Outer compression of a layer, as its media type states it. What the bytes
/// really are is for the reader of the layer to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Plain bytes.
    None,
    /// gzip, one member or many.
    Gzip,
    /// zstd, one frame or many.
    Zstd,
    /// bzip2; not registered, but met.
    Bzip2,
    /// xz; not registered, but met.
    Xz,
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "uncompressed",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
        })
    }
}

/// What a media type says about a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// [`MICROFS_LAYER`]. It has no outer compression: its diff_id is its digest.
    Microfs,
    /// A tar archive.
    Tar {
        /// Compression around the archive.
        compression: Compression,
        /// False for the types that registries should not hand on (foreign,
        /// non-distributable). Such a layer is used like any other when its
        /// blob is present.
        distributable: bool,
    },
    /// Anything else.
    Unknown,
}

impl LayerKind {
    /// Classifies a layer's media type.
    #[must_use]
    pub fn of(media_type: &MediaType) -> Self {
        let text = media_type.as_ref();
        if text == MICROFS_LAYER {
            return Self::Microfs;
        }
        for (base, distributable) in TAR_TYPES {
            let Some(suffix) = text.strip_prefix(base) else { continue };
            // OCI joins with a plus, docker with a dot.
            let compression = match suffix {
                "" => Compression::None,
                "+gzip" | ".gzip" => Compression::Gzip,
                "+zstd" | ".zstd" => Compression::Zstd,
                "+bzip2" | ".bzip2" => Compression::Bzip2,
                "+xz" | ".xz" => Compression::Xz,
                _ => continue,
            };
            return Self::Tar { compression, distributable };
        }
        Self::Unknown
    }
}

const TAR_TYPES: [(&str, bool); 5] = [
    ("application/vnd.oci.image.layer.v1.tar", true),
    ("application/vnd.oci.image.layer.nondistributable.v1.tar", false),
    ("application/vnd.docker.image.rootfs.diff.tar", true),
    ("application/vnd.docker.image.rootfs.foreign.diff.tar", false),
    ("application/vnd.docker.container.image.rootfs.diff+x-gtar", true),
];

/// What a descriptor in an index leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Index,
    Manifest,
    /// The descriptor has no media type: only the content can tell.
    Unstated,
    Other,
}

impl NodeKind {
    pub(crate) fn of(media_type: &str) -> Self {
        match MediaType::from(media_type) {
            MediaType::ImageIndex => Self::Index,
            MediaType::ImageManifest => Self::Manifest,
            MediaType::Other(text) => match text.as_str() {
                DOCKER_INDEX => Self::Index,
                DOCKER_MANIFEST => Self::Manifest,
                "" => Self::Unstated,
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

/// Whether a config of this type makes its manifest a container image.
pub(crate) fn is_image_config(media_type: &MediaType) -> bool {
    *media_type == MediaType::ImageConfig || media_type.as_ref() == DOCKER_CONFIG
}
