//! Reading that checks what it reads, and the hashing under it.

use std::io::{self, Read};

use oci_spec::image::{Digest, DigestAlgorithm};
use sha2::Digest as _;

use crate::error::OciError;

/// A running hash of one of the algorithms registered by the OCI image
/// specification.
#[derive(Clone, Debug)]
pub(crate) enum Hasher {
    Sha256(sha2::Sha256),
    Sha512(sha2::Sha512),
}

impl Hasher {
    pub(crate) fn sha256() -> Self {
        Self::Sha256(sha2::Sha256::new())
    }

    /// A hasher of the algorithm that `digest` uses.
    pub(crate) fn like(digest: &Digest) -> Result<Self, OciError> {
        match digest.algorithm() {
            DigestAlgorithm::Sha256 => Ok(Self::sha256()),
            DigestAlgorithm::Sha512 => Ok(Self::Sha512(sha2::Sha512::new())),
            _ => Err(OciError::UnsupportedAlgorithm { digest: digest.clone() }),
        }
    }

    /// Whether both are of one algorithm.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Sha256(hash) => hash.update(bytes),
            Self::Sha512(hash) => hash.update(bytes),
        }
    }

    /// The digest as text, `algorithm:hex`.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Sha256(hash) => hex("sha256:", &hash.clone().finalize()),
            Self::Sha512(hash) => hex("sha512:", &hash.clone().finalize()),
        }
    }

    /// The digest.
    pub(crate) fn digest(&self) -> Result<Digest, OciError> {
        parse_digest(&self.text())
    }
}

fn hex(prefix: &str, bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let digits = digits.filter_map(|value| char::from_digit(u32::from(value), 16));
    prefix.chars().chain(digits).collect()
}

/// Parses `algorithm:encoded` by the grammar of the OCI image specification.
///
/// # Errors
/// [`OciError::InvalidDigest`].
pub fn parse_digest(text: &str) -> Result<Digest, OciError> {
    Digest::try_from(text).map_err(|_| OciError::InvalidDigest { text: text.to_owned() })
}

/// The sha256 digest of bytes in memory.
///
/// # Errors
/// None in practice; the signature avoids a panic.
pub fn sha256(bytes: &[u8]) -> Result<Digest, OciError> {
    let mut hasher = Hasher::sha256();
    hasher.update(bytes);
    hasher.digest()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Reading,
    Verified,
    Failed,
}

/// A reader that fails unless its source is exactly the content that a digest
/// and a size describe.
///
/// The read that would hand out the last bytes first makes sure that nothing
/// follows and that the digest is right: a consumer that received all `size`
/// bytes holds verified content, even if it never asks for the end. A consumer
/// that stops earlier (a decoder at its end mark, say) calls
/// [`VerifiedReader::finish`]. After a failure every further read fails.
///
/// Errors are [`OciError::BlobSize`] and [`OciError::BlobDigest`] inside an
/// [`io::Error`] of kind `InvalidData`; [`OciError::from_read`] takes them out.
#[derive(Debug)]
pub struct VerifiedReader<R> {
    inner: R,
    digest: Digest,
    size: u64,
    seen: u64,
    hasher: Hasher,
    state: State,
}

impl<R: Read> VerifiedReader<R> {
    /// Wraps a source that should hold `size` bytes with that digest.
    ///
    /// # Errors
    /// [`OciError::UnsupportedAlgorithm`] unless it is sha256 or sha512.
    pub fn new(inner: R, digest: &Digest, size: u64) -> Result<Self, OciError> {
        Ok(Self {
            inner,
            digest: digest.clone(),
            size,
            seen: 0,
            hasher: Hasher::like(digest)?,
            state: State::Reading,
        })
    }

    /// Reads what is left, verifies, and gives the source back.
    ///
    /// # Errors
    /// As for reading.
    pub fn finish(mut self) -> io::Result<R> {
        let mut buffer = vec![0; 64 << 10];
        while self.read(&mut buffer)? > 0 {}
        Ok(self.inner)
    }

    /// Whether all of the content was read and is right.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        self.state == State::Verified
    }

    fn fail<T>(&mut self, error: OciError) -> io::Result<T> {
        self.state = State::Failed;
        Err(io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn wrong_size<T>(&mut self, found: u64) -> io::Result<T> {
        let (digest, expected) = (self.digest.clone(), self.size);
        self.fail(OciError::BlobSize { digest, expected, found })
    }

    fn verify_end(&mut self) -> io::Result<()> {
        let mut beyond = [0; 1];
        if read_some(&mut self.inner, &mut beyond)? > 0 {
            return self.wrong_size(self.size.saturating_add(1));
        }
        let found = self.hasher.text();
        if found != self.digest.as_ref() {
            let digest = self.digest.clone();
            return self.fail(OciError::BlobDigest { digest, found });
        }
        self.state = State::Verified;
        Ok(())
    }
}

impl<R: Read> Read for VerifiedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.state {
            State::Verified => return Ok(0),
            State::Failed => return self.wrong_size(self.seen),
            State::Reading => {}
        }
        let left = self.size.saturating_sub(self.seen);
        if left == 0 {
            self.verify_end()?;
            return Ok(0);
        }
        let want = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let Some(target) = buffer.get_mut(..want).filter(|target| !target.is_empty()) else {
            return Ok(0);
        };
        let count = read_some(&mut self.inner, target)?;
        if count == 0 {
            return self.wrong_size(self.seen);
        }
        self.hasher.update(target.get(..count).unwrap_or_default());
        self.seen = self.seen.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        if self.seen == self.size {
            self.verify_end()?;
        }
        Ok(count)
    }
}

fn read_some(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match source.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}
