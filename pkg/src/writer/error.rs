//! Errors of the writer.

use thiserror::Error;

use crate::compress::CodecError;
use crate::tree::TreeError;

/// An error of whatever a layer is made from.
pub type SourceError = Box<dyn std::error::Error + Send + Sync>;

/// Why a layer cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WriteError {
    /// Writing the blob failed.
    #[error("cannot write the layer")]
    Sink(#[from] std::io::Error),
    /// Reading the source failed; the source's error says where.
    #[error(transparent)]
    Source(SourceError),
    /// The tree breaks a rule.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A block cannot be compressed.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// An option is out of range.
    #[error("{option} out of range: {value}")]
    Option {
        /// Which.
        option: &'static str,
        /// Its value.
        value: i64,
    },
    /// A source gave more or fewer bytes than it announced.
    #[error("a source gave {got} bytes where {expected} were announced")]
    LengthMismatch {
        /// Announced.
        expected: usize,
        /// Given.
        got: usize,
    },
    /// A worker thread panicked.
    #[error("a worker thread failed")]
    WorkerLost,
    /// A number of the format is too small for this input.
    #[error("the layer has too many {0}")]
    TooMany(&'static str),
    /// A file's content was not written before the metadata, or is not as long
    /// as its size.
    #[error("the content of a file is missing or does not fit its size")]
    MissingContent,
}
