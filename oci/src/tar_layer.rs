//! Tar layers that are written: compressed, hashed twice, stored.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use flate2::GzBuilder;
use flate2::write::GzEncoder;
use oci_spec::image::{Digest, MediaType};

use crate::assemble::NewLayer;
use crate::descriptor::Descriptor;
use crate::error::OciError;
use crate::session::Session;
use crate::store::BlobWriter;
use crate::verified::Hasher;

/// Outer compression of a tar layer to be written, with its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TarCompression {
    /// Plain bytes.
    None,
    /// gzip, level 1 to 9: what every engine and registry takes.
    Gzip(u32),
    /// zstd, level 1 to 22. Its window is at most 8 MiB, which every decoder
    /// has to accept (RFC 8878, 3.1.1.1.2).
    Zstd(i32),
}

impl TarCompression {
    /// The media type of such a layer.
    #[must_use]
    pub fn media_type(self) -> MediaType {
        match self {
            Self::None => MediaType::ImageLayer,
            Self::Gzip(_) => MediaType::ImageLayerGzip,
            Self::Zstd(_) => MediaType::ImageLayerZstd,
        }
    }
}

/// Largest zstd window, as a base-2 logarithm.
const WINDOW_LOG: u32 = 23;
/// Bytes that are collected before the encoder, and before the sink.
const BUFFER: usize = 256 << 10;

/// Compresses what is written into it. The bytes depend on the input, the
/// compression and the compressor's version, never on time, threads or the
/// pieces in which the input comes.
pub struct TarEncoder<W: Write> {
    encoder: Encoder<W>,
    /// Input that the encoder has not seen: it gets pieces of one size, since
    /// what it makes depends on them.
    pending: Vec<u8>,
}

enum Encoder<W: Write> {
    None(BufWriter<W>),
    Gzip(GzEncoder<BufWriter<W>>),
    Zstd(zstd::stream::write::Encoder<'static, BufWriter<W>>),
}

impl<W: Write> TarEncoder<W> {
    /// Starts a stream.
    ///
    /// # Errors
    /// What the zstd library says of a level out of range.
    pub fn new(sink: W, compression: TarCompression) -> io::Result<Self> {
        let sink = BufWriter::with_capacity(BUFFER, sink);
        let encoder = match compression {
            TarCompression::None => Encoder::None(sink),
            TarCompression::Gzip(level) => {
                // Without name, time and system.
                Encoder::Gzip(GzBuilder::new().write(sink, flate2::Compression::new(level)))
            }
            TarCompression::Zstd(level) => {
                let mut encoder = zstd::stream::write::Encoder::new(sink, level)?;
                encoder.include_checksum(true)?;
                if level >= 20 {
                    encoder.window_log(WINDOW_LOG)?;
                }
                Encoder::Zstd(encoder)
            }
        };
        Ok(Self { encoder, pending: Vec::with_capacity(BUFFER) })
    }

    fn encode_pending(&mut self) -> io::Result<()> {
        match &mut self.encoder {
            Encoder::None(sink) => sink.write_all(&self.pending),
            Encoder::Gzip(encoder) => encoder.write_all(&self.pending),
            Encoder::Zstd(encoder) => encoder.write_all(&self.pending),
        }?;
        self.pending.clear();
        Ok(())
    }

    /// Ends the stream and gives the sink back, with all of it.
    ///
    /// # Errors
    /// Any error of the sink.
    pub fn finish(mut self) -> io::Result<W> {
        self.encode_pending()?;
        let sink = match self.encoder {
            Encoder::None(sink) => sink,
            Encoder::Gzip(encoder) => encoder.finish()?,
            Encoder::Zstd(encoder) => encoder.finish()?,
        };
        sink.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl<W: Write> Write for TarEncoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = BUFFER.saturating_sub(self.pending.len());
        let taken = bytes.get(..room).unwrap_or(bytes);
        self.pending.extend_from_slice(taken);
        if self.pending.len() >= BUFFER {
            self.encode_pending()?;
        }
        Ok(taken.len())
    }

    /// Nothing: a flush in the middle would change the bytes.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A tar layer being written: plain bytes in, a stored blob out.
pub struct TarLayerWriter {
    encoder: TarEncoder<BlobWriter>,
    media_type: MediaType,
    plain: Hasher,
    /// The temporary file, for messages.
    path: PathBuf,
}

impl Session {
    /// Starts a tar layer.
    ///
    /// # Errors
    /// [`OciError::Io`].
    pub fn tar_layer(&self, compression: TarCompression) -> Result<TarLayerWriter, OciError> {
        let blob = self.blob()?;
        let path = blob.path();
        let encoder = TarEncoder::new(blob, compression).map_err(OciError::io("write", &path))?;
        let media_type = compression.media_type();
        Ok(TarLayerWriter { encoder, media_type, plain: Hasher::sha256(), path })
    }
}

impl TarLayerWriter {
    /// Ends the layer and stores it.
    ///
    /// # Errors
    /// As [`BlobWriter::commit`].
    pub fn commit(self) -> Result<NewLayer, OciError> {
        let diff_id: Digest = self.plain.digest()?;
        let blob = self.encoder.finish().map_err(OciError::io("write", self.path))?.commit()?;
        let descriptor = Descriptor::new(self.media_type, blob.digest, blob.size);
        Ok(NewLayer { descriptor, diff_id })
    }
}

impl Write for TarLayerWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.encoder.write(bytes)?;
        self.plain.update(bytes.get(..count).unwrap_or_default());
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
