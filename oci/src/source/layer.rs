//! Reading a layer: decompressed, and verified twice.

use std::io::{self, Read};

use oci_spec::image::Digest;

use crate::decompress::Decompressed;
use crate::error::OciError;
use crate::media_type::{Compression, LayerKind};
use crate::source::error::{LayerName, SourceError};
use crate::source::image::SourceLayer;
use crate::source::stored::{Stored, StoredReader};
use crate::verified::Hasher;

/// A reader of a layer without its compression.
///
/// What it hands out is not verified before [`LayerReader::finish`] says so.
/// Call that also when something seems to be wrong with the content: when the
/// cause is a damaged blob it says that instead.
///
/// A layer of [`LayerKind::Microfs`] is handed out as it is stored.
#[derive(Debug)]
pub struct LayerReader {
    name: LayerName,
    stream: Decompressed<Hashed>,
    size: u64,
    digest: Option<Digest>,
    diff_id: Option<Digest>,
    /// Of what was handed out; `None` when that is the same as what is stored.
    plain: Option<Hasher>,
    plain_size: u64,
}

/// What a layer turned out to be, in accordance with all that was stated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedLayer {
    /// Digest of the bytes as stored, with the algorithm of the one stated;
    /// sha256 when none was.
    pub stored_digest: Digest,
    /// Bytes as stored.
    pub stored_size: u64,
    /// Digest without compression, with the algorithm of the one stated;
    /// sha256 when none was.
    pub diff_id: Digest,
    /// Bytes without compression.
    pub uncompressed_size: u64,
    /// Compression that was found.
    pub compression: Compression,
}

impl LayerReader {
    pub(super) fn open(layer: &SourceLayer, stored: &Stored) -> Result<Self, OciError> {
        let like = |digest: &Option<Digest>| {
            digest.as_ref().map_or_else(|| Ok(Hasher::sha256()), Hasher::like)
        };
        let (hasher, plain) = (like(&layer.digest)?, like(&layer.diff_id)?);
        let same_algorithm = hasher.is_like(&plain);
        let source = Hashed { source: stored.reader(), hasher, count: 0 };
        let stream = match layer.kind {
            LayerKind::Microfs => Decompressed::plain(source),
            _ => Decompressed::new(source)
                .map_err(|source| SourceError::LayerRead { layer: layer.name.clone(), source })?,
        };
        let shared = same_algorithm && stream.compression() == Compression::None;
        Ok(Self {
            name: layer.name.clone(),
            stream,
            size: stored.size(),
            digest: layer.digest.clone(),
            diff_id: layer.diff_id.clone(),
            plain: (!shared).then_some(plain),
            plain_size: 0,
        })
    }

    /// The compression that was found.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.stream.compression()
    }

    /// Bytes read of what is stored, for showing progress.
    #[must_use]
    pub fn stored_position(&self) -> u64 {
        self.stream.get_ref().count
    }

    /// Reads what is left and compares everything with what is stated.
    ///
    /// # Errors
    /// The first of these that holds: [`SourceError::LayerSize`],
    /// [`SourceError::LayerDigest`], [`SourceError::LayerRead`] when the layer
    /// cannot be read or decompressed, [`SourceError::LayerDiffId`].
    pub fn finish(mut self) -> Result<VerifiedLayer, OciError> {
        let name = self.name.clone();
        let broken = |source| SourceError::LayerRead { layer: name.clone(), source };
        let decoded = io::copy(&mut self, &mut io::sink());
        let compression = self.stream.compression();
        let mut stored = self.stream.into_inner();
        // A damaged blob rarely decompresses, but its digest is the better cause.
        io::copy(&mut stored, &mut io::sink()).map_err(broken)?;
        let (layer, found) = (self.name, stored.count);
        if found != self.size {
            return Err(SourceError::LayerSize { layer, expected: self.size, found }.into());
        }
        let found = stored.hasher.digest()?;
        if let Some(expected) = self.digest.filter(|expected| *expected != found) {
            return Err(SourceError::LayerDigest { layer, expected, found }.into());
        }
        let stored_digest = found;
        decoded.map_err(broken)?;
        let found = self.plain.map_or_else(|| Ok(stored_digest.clone()), |hash| hash.digest())?;
        if let Some(expected) = self.diff_id.filter(|expected| *expected != found) {
            return Err(SourceError::LayerDiffId { layer, expected, found }.into());
        }
        Ok(VerifiedLayer {
            stored_digest,
            stored_size: stored.count,
            diff_id: found,
            uncompressed_size: self.plain_size,
            compression,
        })
    }
}

impl Read for LayerReader {
    /// Errors hold a [`crate::decompress::DecompressError`] when compressed
    /// data is at fault.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.stream.read(buffer)?;
        if let Some(plain) = &mut self.plain {
            plain.update(buffer.get(..count).unwrap_or_default());
        }
        self.plain_size = self.plain_size.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}

/// Hashes and counts what is read.
#[derive(Debug)]
struct Hashed {
    source: StoredReader,
    hasher: Hasher,
    count: u64,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.hasher.update(buffer.get(..count).unwrap_or_default());
        self.count = self.count.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}
