//! Compressing and decoding one block.

use std::cell::RefCell;

use thiserror::Error;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CParameter, DParameter};

use crate::format::{Codec, WINDOW_LOG_MAX, wide};

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// zstd at this level, 1 to 22.
    Zstd(i32),
}

impl Default for Compression {
    fn default() -> Self {
        Self::Zstd(9)
    }
}

/// Why a block cannot be encoded or decoded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The bytes are no data of the codec, or do not decode to the plain length.
    #[error("the block's bytes are damaged")]
    Damaged,
    /// This build has no decoder for the codec.
    #[error("codec {} is not supported by this version", .0.name())]
    Unsupported(Codec),
    /// The encoder failed, or its level is out of range.
    #[error("cannot compress a block: {0}")]
    Encoder(#[source] std::io::Error),
}

/// A block's stored form.
#[derive(Debug)]
pub struct Encoded {
    /// How.
    pub codec: Codec,
    /// The stored bytes.
    pub bytes: Vec<u8>,
}

/// Share of a block, as a divisor, that compression must save for the block
/// not to be stored raw: below 1/32 the time to decode buys nothing.
const SAVING_DIVISOR: u64 = 32;

thread_local! {
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

impl Compression {
    /// The stored form of `plain`: raw when compression does not save at least
    /// 1/32 of it. A pure function of its arguments.
    ///
    /// # Errors
    /// [`CodecError::Encoder`].
    pub fn encode(self, plain: Vec<u8>) -> Result<Encoded, CodecError> {
        let Self::Zstd(level) = self else {
            return Ok(Encoded { codec: Codec::Raw, bytes: plain });
        };
        let length = wide(plain.len());
        let compressed = COMPRESSOR.with_borrow_mut(|slot| {
            let reusable = slot.take().filter(|(made_for, _)| *made_for == level);
            let (_, compressor) = match reusable {
                Some(ready) => slot.insert(ready),
                None => slot.insert((level, new_compressor(level)?)),
            };
            compressor.compress(&plain)
        });
        let compressed = compressed.map_err(CodecError::Encoder)?;
        let limit = length.saturating_sub(length / SAVING_DIVISOR);
        if wide(compressed.len()) < limit {
            Ok(Encoded { codec: Codec::Zstd, bytes: compressed })
        } else {
            Ok(Encoded { codec: Codec::Raw, bytes: plain })
        }
    }
}

fn new_compressor(level: i32) -> std::io::Result<Compressor<'static>> {
    let mut compressor = Compressor::new(level)?;
    compressor.include_checksum(true)?;
    compressor.include_contentsize(true)?;
    compressor.include_dictid(false)?;
    // A block is at most 1 MiB, so this only caps levels that ask for more.
    if level >= 16 {
        compressor.set_parameter(CParameter::WindowLog(u32::from(WINDOW_LOG_MAX)))?;
    }
    Ok(compressor)
}

/// Decodes `stored` to exactly `plain.len()` bytes, and verifies the checksum
/// in a frame.
///
/// # Errors
/// [`CodecError::Damaged`] and [`CodecError::Unsupported`]; `plain` is then undefined.
pub fn decode(codec: Codec, stored: &[u8], plain: &mut [u8]) -> Result<(), CodecError> {
    decode_frame(codec, stored, plain, true)
}

/// As [`decode`] for bytes whose digest was verified: the checksum in a frame
/// would tell nothing more, and is not computed.
///
/// # Errors
/// As [`decode`].
pub fn decode_verified(codec: Codec, stored: &[u8], plain: &mut [u8]) -> Result<(), CodecError> {
    decode_frame(codec, stored, plain, false)
}

fn decode_frame(
    codec: Codec,
    stored: &[u8],
    plain: &mut [u8],
    checksum: bool,
) -> Result<(), CodecError> {
    match codec {
        Codec::Raw => {
            if stored.len() != plain.len() {
                return Err(CodecError::Damaged);
            }
            plain.copy_from_slice(stored);
            Ok(())
        }
        // The kernel reads only such frames, and what it reads must be the same.
        Codec::Zstd if !is_proper_frame(stored, wide(plain.len())) => Err(CodecError::Damaged),
        Codec::Zstd => DECOMPRESSOR.with_borrow_mut(|slot| {
            let decompressor = match slot {
                Some(ready) => ready,
                None => slot.insert(Decompressor::new().map_err(|_| CodecError::Damaged)?),
            };
            decompressor
                .set_parameter(DParameter::ForceIgnoreChecksum(!checksum))
                .map_err(|_| CodecError::Damaged)?;
            let written = decompressor.decompress_to_buffer(stored, plain);
            match written {
                Ok(length) if length == plain.len() => Ok(()),
                _ => Err(CodecError::Damaged),
            }
        }),
        other => Err(CodecError::Unsupported(other)),
    }
}

/// Whether the bytes are what FORMAT.md asks of a zstd block: one frame, its
/// content size recorded and equal to `plain_length`, checksum flag set, no
/// dictionary, window at most 1 MiB.
#[must_use]
pub fn is_proper_frame(stored: &[u8], plain_length: u64) -> bool {
    let one = zstd::zstd_safe::find_frame_compressed_size(stored).ok() == Some(stored.len());
    let size = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
    // RFC 8878, 3.1.1.1: descriptor byte after the magic number.
    let Some(descriptor) = stored.get(4) else { return false };
    let single_segment = descriptor & 0x20 != 0;
    let checksum = descriptor & 0x04 != 0;
    let no_dictionary = descriptor & 0x03 == 0;
    let window = if single_segment {
        plain_length
    } else {
        let byte = u64::from(stored.get(5).copied().unwrap_or(u8::MAX));
        let base = 1u64.checked_shl(u32::try_from(10 + (byte >> 3)).unwrap_or(0)).unwrap_or(0);
        base.saturating_add((base / 8).saturating_mul(byte & 7))
    };
    one && size == Some(plain_length) && checksum && no_dictionary && window <= 1 << WINDOW_LOG_MAX
}
