//! One interface to the four decoders: bytes in, bytes out, one stream at a time.

use std::io;

use flate2::{Decompress, FlushDecompress};
use liblzma::stream::{Action, Error as XzError, Stream as XzStream};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, InBuffer, Operation, OutBuffer};
use zstd::zstd_safe::zstd_sys::ZSTD_ErrorCode;

use super::{Fault, XZ_MEMORY, ZSTD_WINDOW_LOG};
use crate::media_type::Compression;

/// Largest window of the gzip format.
const GZIP_WINDOW_LOG: u8 = 15;

pub(super) enum Codec {
    Gzip(Decompress),
    Zstd(ZstdDecoder<'static>),
    Bzip2(bzip2::Decompress),
    Xz(XzStream),
}

/// What one call of a decoder did.
pub(super) struct Step {
    /// Bytes of input it is done with.
    pub(super) read: usize,
    /// Bytes of output it made.
    pub(super) written: usize,
    /// Whether the stream is complete and verified.
    pub(super) ended: bool,
}

/// Why a decoder stopped, and how much input it is done with, as far as it says.
pub(super) struct Failure {
    pub(super) fault: Fault,
    pub(super) read: usize,
}

impl Codec {
    /// A decoder at the start of a stream; `None` for no compression.
    pub(super) fn new(compression: Compression) -> io::Result<Option<Self>> {
        Ok(Some(match compression {
            Compression::None => return Ok(None),
            Compression::Gzip => Self::Gzip(Decompress::new_gzip(GZIP_WINDOW_LOG)),
            Compression::Zstd => {
                let mut decoder = ZstdDecoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
                Self::Zstd(decoder)
            }
            Compression::Bzip2 => Self::Bzip2(bzip2::Decompress::new(false)),
            Compression::Xz => Self::Xz(XzStream::new_stream_decoder(XZ_MEMORY, 0)?),
        }))
    }

    /// Gets ready for the next stream.
    pub(super) fn restart(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(decoder) => decoder.reset(true),
            Self::Zstd(decoder) => decoder.reinit()?,
            Self::Bzip2(decoder) => *decoder = bzip2::Decompress::new(false),
            Self::Xz(stream) => *stream = XzStream::new_stream_decoder(XZ_MEMORY, 0)?,
        }
        Ok(())
    }

    /// Decodes as much as goes. Empty input means that no more is coming.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, Failure> {
        match self {
            Self::Gzip(decoder) => {
                let before = (decoder.total_in(), decoder.total_out());
                let status = decoder.decompress(input, output, FlushDecompress::None);
                let after = (decoder.total_in(), decoder.total_out());
                finish(
                    before,
                    after,
                    status,
                    |status| *status == flate2::Status::StreamEnd,
                    |_| Fault::Corrupt,
                )
            }
            Self::Zstd(decoder) => {
                let (mut from, mut to) = (InBuffer::around(input), OutBuffer::around(output));
                match decoder.run(&mut from, &mut to) {
                    Ok(hint) => Ok(Step { read: from.pos(), written: to.pos(), ended: hint == 0 }),
                    Err(error) => Err(Failure { fault: zstd_fault(&error), read: from.pos() }),
                }
            }
            Self::Bzip2(decoder) => {
                let before = (decoder.total_in(), decoder.total_out());
                let status = match decoder.decompress(input, output) {
                    Ok(bzip2::Status::MemNeeded) => Err(Fault::Memory),
                    Ok(status) => Ok(status),
                    Err(_) => Err(Fault::Corrupt),
                };
                let after = (decoder.total_in(), decoder.total_out());
                finish(before, after, status, |status| *status == bzip2::Status::StreamEnd, |f| f)
            }
            Self::Xz(stream) => {
                let before = (stream.total_in(), stream.total_out());
                let status = stream.process(input, output, Action::Run);
                let after = (stream.total_in(), stream.total_out());
                let ended = |status: &_| *status == liblzma::stream::Status::StreamEnd;
                finish(before, after, status, ended, |error| match error {
                    XzError::MemLimit | XzError::Mem => Fault::Memory,
                    _ => Fault::Corrupt,
                })
            }
        }
    }
}

/// Makes a step of the counters of a decoder before and after the call.
fn finish<S, E>(
    before: (u64, u64),
    after: (u64, u64),
    status: Result<S, E>,
    ended: impl FnOnce(&S) -> bool,
    fault: impl FnOnce(E) -> Fault,
) -> Result<Step, Failure> {
    let difference =
        |after: u64, before: u64| usize::try_from(after.saturating_sub(before)).unwrap_or(0);
    let (read, written) = (difference(after.0, before.0), difference(after.1, before.1));
    match status {
        Ok(status) => Ok(Step { read, written, ended: ended(&status) }),
        Err(error) => Err(Failure { fault: fault(error), read }),
    }
}

fn zstd_fault(error: &io::Error) -> Fault {
    let code = error.get_ref().and_then(|inner| inner.downcast_ref::<zstd::Error>());
    if code.is_some_and(|code| code.is(ZSTD_ErrorCode::ZSTD_error_frameParameter_windowTooLarge)) {
        Fault::Memory
    } else {
        Fault::Corrupt
    }
}
