//! Layers without their outer compression, whatever their media type says.
//!
//! # Rules
//!
//! - The first bytes decide, not the media type: mislabelled layers are common
//!   and every engine reads them. What starts like none of the known formats
//!   is handed on as it is. No bytes at all are an empty archive.
//! - A layer may consist of several gzip members, zstd frames (skippable ones
//!   anywhere), bzip2 streams or xz streams, empty ones included; their
//!   content is joined.
//! - Checksums are verified. A stream that ends early is an error.
//! - Zero bytes after the last stream are padding, which some image builders
//!   append. Anything else there is an error.
//! - Memory for one reader is bounded by [`ZSTD_WINDOW_LOG`] and [`XZ_MEMORY`];
//!   gzip and bzip2 need less than 4 MiB at most.

mod codec;
mod input;

use std::fmt;
use std::io::{self, Read};

use crate::media_type::Compression;
use codec::{Codec, Failure};
use input::Input;

/// Base-2 logarithm of the largest zstd window that is decoded, which is the
/// largest that `zstd --ultra` or `--long` makes: 128 MiB.
pub const ZSTD_WINDOW_LOG: u32 = 27;
/// Bytes of memory an xz stream may ask for: enough for a dictionary of
/// 128 MiB, twice that of `xz -9`.
pub const XZ_MEMORY: u64 = 136 << 20;

/// Why compressed data cannot be read, and where.
///
/// [`Decompressed`] reports it inside an [`io::Error`]; [`DecompressError::of`]
/// finds it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} at compressed byte {offset}", Text(*.fault, *.compression))]
pub struct DecompressError {
    /// The format that was recognised.
    pub compression: Compression,
    /// How many bytes of the source had been decoded without fault.
    pub offset: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with compressed data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes break the format, or a checksum is wrong.
    Corrupt,
    /// The data ends inside a stream.
    Truncated,
    /// Something that is neither another stream nor zero bytes follows.
    TrailingData,
    /// Decoding takes more memory than [`ZSTD_WINDOW_LOG`] or [`XZ_MEMORY`] allow.
    Memory,
}

struct Text(Fault, Compression);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(fault, compression) = self;
        match fault {
            Fault::Corrupt => write!(f, "corrupt {compression} stream"),
            Fault::Truncated => write!(f, "truncated {compression} stream"),
            Fault::TrailingData => write!(f, "data after the {compression} stream"),
            Fault::Memory => write!(f, "{compression} stream that needs too much memory"),
        }
    }
}

impl DecompressError {
    /// The error inside what [`Decompressed`] reported; `None` when the source
    /// itself could not be read.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<DecompressError> for io::Error {
    fn from(error: DecompressError) -> Self {
        let kind = match error.fault {
            Fault::Truncated => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}

/// A reader of what is inside the compression of a layer.
///
/// The read that reports the end of the content has read the source to its end
/// as well. A [`DecompressError`] stays: every later read reports it again.
pub struct Decompressed<R> {
    input: Input<R>,
    compression: Compression,
    stage: Stage,
}

enum Stage {
    /// No compression.
    Plain,
    /// In one of the streams, or behind it and before the next.
    Coded {
        codec: Codec,
        inside: bool,
    },
    /// The end was reached.
    Done,
    Failed(DecompressError),
}

impl<R: Read> Decompressed<R> {
    /// Looks at the first bytes of the source.
    ///
    /// # Errors
    /// Those of reading the source; no memory for the decoder.
    pub fn new(source: R) -> io::Result<Self> {
        let mut input = Input::new(source);
        let compression = detect(input.peek(LONGEST_MAGIC)?);
        let stage = match Codec::new(compression)? {
            None => Stage::Plain,
            Some(codec) => Stage::Coded { codec, inside: true },
        };
        Ok(Self { input, compression, stage })
    }

    /// Hands the source on as it is, whatever it looks like.
    pub fn plain(source: R) -> Self {
        Self { input: Input::new(source), compression: Compression::None, stage: Stage::Plain }
    }

    /// The compression that was recognised.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The source. It was read further than what was handed out.
    pub fn get_ref(&self) -> &R {
        self.input.get_ref()
    }

    /// Gives the source back. What was read ahead is lost.
    pub fn into_inner(self) -> R {
        self.input.into_inner()
    }

    fn fault(&mut self, fault: Fault) -> io::Error {
        let (compression, offset) = (self.compression, self.input.position());
        let error = DecompressError { compression, offset, fault };
        self.stage = Stage::Failed(error);
        error.into()
    }

    /// Between two streams: skips padding, and says whether another one comes.
    fn next_stream(&mut self) -> io::Result<bool> {
        let mut padding = 0_u64;
        loop {
            let available = self.input.available()?;
            let zeros = available.iter().take_while(|byte| **byte == 0).count();
            let (ended, all) = (available.is_empty(), zeros == available.len());
            self.input.consume(zeros);
            padding = padding.saturating_add(u64::try_from(zeros).unwrap_or(u64::MAX));
            match (ended, all) {
                (true, _) => return Ok(false),
                (false, true) => {}
                (false, false) => break,
            }
        }
        // Only xz allows padding between streams, in units of four bytes.
        let allowed =
            padding == 0 || self.compression == Compression::Xz && padding.is_multiple_of(4);
        if allowed && detect(self.input.peek(LONGEST_MAGIC)?) == self.compression {
            Ok(true)
        } else {
            Err(self.fault(Fault::TrailingData))
        }
    }

    fn decode(&mut self, output: &mut [u8]) -> io::Result<usize> {
        let mut stalled = false;
        loop {
            if matches!(self.stage, Stage::Coded { inside: false, .. }) && !self.next_stream()? {
                self.stage = Stage::Done;
            }
            let Stage::Coded { codec, inside } = &mut self.stage else { return Ok(0) };
            if !*inside {
                codec.restart()?;
                *inside = true;
            }
            let input = self.input.available()?;
            let at_end = input.is_empty();
            let step = match codec.step(input, output) {
                Ok(step) => step,
                Err(Failure { fault, read }) => {
                    self.input.consume(read);
                    return Err(self.fault(fault));
                }
            };
            *inside = !step.ended;
            self.input.consume(step.read);
            if step.written > 0 {
                return Ok(step.written);
            }
            let progress = step.ended || step.read > 0;
            if at_end && !progress {
                return Err(self.fault(Fault::Truncated));
            }
            // A decoder may need one call more to notice where it is.
            if stalled && !progress {
                return Err(self.fault(Fault::Corrupt));
            }
            stalled = !progress;
        }
    }
}

impl<R: Read> Read for Decompressed<R> {
    fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if output.is_empty() {
            return Ok(0);
        }
        match &self.stage {
            Stage::Plain => self.input.read(output),
            Stage::Coded { .. } => self.decode(output),
            Stage::Done => Ok(0),
            Stage::Failed(error) => Err((*error).into()),
        }
    }
}

impl<R> fmt::Debug for Decompressed<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decompressed")
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}

/// Bytes that [`detect`] looks at.
const LONGEST_MAGIC: usize = 10;

const GZIP: &[u8] = &[0x1f, 0x8b, 8];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// The first byte has any low half.
const ZSTD_SKIPPABLE: &[u8] = &[0x50, 0x2a, 0x4d, 0x18];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const BZIP2: &[u8] = b"BZh";
/// Where the first block, or the end of the stream, starts behind the level.
const BZIP2_NEXT: [&[u8]; 2] =
    [&[0x31, 0x41, 0x59, 0x26, 0x53, 0x59], &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];

/// The compression that the first bytes of a layer show.
///
/// `start` is its first ten bytes, or all of it. A source that ends inside a
/// magic number counts as what that belongs to: no archive is that short.
#[must_use]
pub fn detect(start: &[u8]) -> Compression {
    let whole = start.len() < LONGEST_MAGIC;
    let is = |magic: &[u8], from: usize| {
        let here = start.get(from..).unwrap_or_default();
        here.starts_with(magic) || whole && magic.starts_with(here)
    };
    let masked: Vec<u8> = match start {
        [first, rest @ ..] => std::iter::once(first & 0xf0).chain(rest.iter().copied()).collect(),
        [] => return Compression::None,
    };
    let skippable = masked.starts_with(ZSTD_SKIPPABLE)
        || whole && start.len() < ZSTD_SKIPPABLE.len() && ZSTD_SKIPPABLE.starts_with(&masked);
    // An archive may well start with a file named BZh, so more than that counts.
    let level = start.get(3).is_none_or(|level| (b'1'..=b'9').contains(level));
    if is(GZIP, 0) {
        Compression::Gzip
    } else if is(ZSTD, 0) || skippable {
        Compression::Zstd
    } else if is(XZ, 0) {
        Compression::Xz
    } else if is(BZIP2, 0) && level && BZIP2_NEXT.iter().any(|next| is(next, 4)) {
        Compression::Bzip2
    } else {
        Compression::None
    }
}
