//! Digests of blocks, pages and the superblock.

use sha2::{Digest as _, Sha256};

/// A 32-byte digest.
pub type Digest = [u8; 32];

/// How digests inside a blob are made. The number is the code in the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DigestAlgorithm {
    /// BLAKE3, 256 bits, no key: code 1.
    #[default]
    Blake3,
    /// SHA-256: code 2.
    Sha256,
}

impl DigestAlgorithm {
    /// The algorithm of a code, if it is known.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Blake3),
            2 => Some(Self::Sha256),
            _ => None,
        }
    }

    /// The code in the superblock.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Blake3 => 1,
            Self::Sha256 => 2,
        }
    }

    /// The digest of these bytes.
    #[must_use]
    pub fn digest(self, bytes: &[u8]) -> Digest {
        match self {
            Self::Blake3 => *blake3::hash(bytes).as_bytes(),
            Self::Sha256 => Sha256::digest(bytes).into(),
        }
    }
}
