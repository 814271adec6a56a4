//! Errors of the reader.

use std::sync::Arc;

use thiserror::Error;

use crate::compress::CodecError;
use crate::format::{FormatError, Rule, VERSION};

/// Why something cannot be read from a layer or a stack. Cheap to clone, so
/// that one failed load can be told to everyone who waited for it.
#[derive(Debug, Clone, Error)]
pub enum ReadError {
    /// The number belongs to no object of this stack.
    #[error("no object has number {0}")]
    NoSuchNode(u64),
    /// A directory was needed.
    #[error("not a directory")]
    NotADirectory,
    /// Anything but a directory was needed.
    #[error("is a directory")]
    IsADirectory,
    /// A symbolic link was needed.
    #[error("not a symbolic link")]
    NotASymlink,
    /// A regular file was needed.
    #[error("not a regular file")]
    NotARegularFile,
    /// The blob breaks a rule of the format.
    #[error("{}", corrupt(*layer, cause))]
    Corrupt {
        /// Number of the layer in its stack, the lowest being 0.
        layer: u32,
        /// The rule and the place.
        #[source]
        cause: FormatError,
    },
    /// A block's bytes cannot be decoded although their digest is right.
    #[error("layer {layer}, block {block}")]
    Codec {
        /// Number of the layer.
        layer: u32,
        /// Number of the block.
        block: u64,
        /// What the codec says.
        #[source]
        cause: Arc<CodecError>,
    },
    /// Reading the blob failed.
    #[error("cannot read layer {layer}")]
    Io {
        /// Number of the layer.
        layer: u32,
        /// What the system says.
        #[source]
        cause: Arc<std::io::Error>,
    },
    /// A hard link to a lower layer whose target is not there.
    #[error("hard link to {:?} leads nowhere in the layers below", String::from_utf8_lossy(.target))]
    LinkUnresolved {
        /// The target's path.
        target: Vec<u8>,
    },
    /// A limit on hostile input was reached.
    #[error("limit on {what} reached: {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The blob refers to another blob that was not given.
    #[error("layer {layer} needs blob sha256:{}, which is not below it", hex(.digest))]
    MissingBlob {
        /// Number of the layer.
        layer: u32,
        /// SHA-256 of the missing blob.
        digest: [u8; 32],
    },
}

/// A layer of another version is not damaged.
fn corrupt(layer: u32, cause: &FormatError) -> String {
    match cause.rule {
        Rule::Version | Rule::Feature => format!(
            "layer {layer} is not of format version {VERSION} as this release of microfs reads it: \
             use the release that wrote it"
        ),
        _ => format!("damaged or hostile layer {layer}"),
    }
}

fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
