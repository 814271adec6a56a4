//! Compressing blocks in parallel and writing them in order.

use std::io::Write;
use std::sync::Arc;

use rayon::ThreadPool;

use super::error::WriteError;
use super::ordered::Ordered;
use crate::compress::{CodecError, Compression};
use crate::format::block_pointer::BlockPointer;
use crate::format::{Codec, Digest, DigestAlgorithm, wide};

/// A compressed block and its digest.
type Stored = Result<(Codec, Vec<u8>, Digest), CodecError>;

/// What a queued block is.
#[derive(Debug, Clone, Copy)]
struct Pending {
    number: u64,
    plain_length: u32,
}

/// The blob under construction: a sink, what was written to it, and the block
/// pointers so far.
#[derive(Debug)]
pub struct BlockSink<W> {
    sink: W,
    offset: u64,
    pointers: Vec<Option<BlockPointer>>,
    queue: Ordered<Pending, Stored>,
    digest: DigestAlgorithm,
    codecs: u32,
    plain: u64,
    stored: u64,
}

/// What a part's blocks come to.
#[derive(Debug, Clone, Copy, Default)]
pub struct PartSums {
    /// Bits of the codecs used.
    pub codecs: u32,
    /// Plain bytes.
    pub plain: u64,
    /// Stored bytes.
    pub stored: u64,
}

impl<W: Write> BlockSink<W> {
    /// A sink whose blocks wait in a queue of at most `in_flight` plain bytes.
    pub fn new(sink: W, pool: Arc<ThreadPool>, digest: DigestAlgorithm, in_flight: usize) -> Self {
        Self {
            sink,
            offset: 0,
            pointers: Vec::new(),
            queue: Ordered::new(pool, in_flight),
            digest,
            codecs: 0,
            plain: 0,
            stored: 0,
        }
    }

    /// Writes bytes that are no block.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), WriteError> {
        self.sink.write_all(bytes)?;
        self.offset = self.offset.saturating_add(wide(bytes.len()));
        Ok(())
    }

    /// Bytes written so far; queued blocks are not.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Takes the next block number, for a block that is to come.
    pub fn reserve(&mut self) -> u64 {
        let number = wide(self.pointers.len());
        self.pointers.push(None);
        number
    }

    /// Queues the block of a reserved number.
    pub fn push(
        &mut self,
        number: u64,
        plain: Vec<u8>,
        compression: Compression,
    ) -> Result<(), WriteError> {
        while self.queue.is_full() {
            self.write_oldest()?;
        }
        let length = u32::try_from(plain.len());
        let plain_length = length.map_err(|_| WriteError::TooMany("bytes in a block"))?;
        let digest = self.digest;
        self.queue.submit(Pending { number, plain_length }, plain.len(), move || {
            let encoded = compression.encode(plain)?;
            let digest = digest.digest(&encoded.bytes);
            Ok((encoded.codec, encoded.bytes, digest))
        });
        Ok(())
    }

    fn write_oldest(&mut self) -> Result<bool, WriteError> {
        let Some(result) = self.queue.pop() else { return Ok(false) };
        let (pending, stored) = result.map_err(|_| WriteError::WorkerLost)?;
        let (codec, bytes, digest) = stored?;
        let stored_length = u32::try_from(bytes.len());
        let pointer = BlockPointer {
            offset: self.offset,
            stored_length: stored_length.map_err(|_| WriteError::TooMany("bytes in a block"))?,
            plain_length: pending.plain_length,
            codec,
            digest,
        };
        self.codecs |= codec.bit();
        self.plain = self.plain.saturating_add(u64::from(pending.plain_length));
        self.stored = self.stored.saturating_add(wide(bytes.len()));
        self.write(&bytes)?;
        let slot = usize::try_from(pending.number).ok();
        if let Some(slot) = slot.and_then(|slot| self.pointers.get_mut(slot)) {
            *slot = Some(pointer);
        }
        Ok(true)
    }

    /// Writes everything that is queued and returns the sums since the last call.
    pub fn finish_part(&mut self) -> Result<PartSums, WriteError> {
        while self.write_oldest()? {}
        let sums = PartSums { codecs: self.codecs, plain: self.plain, stored: self.stored };
        (self.codecs, self.plain, self.stored) = (0, 0, 0);
        Ok(sums)
    }

    /// Number of blocks so far, reserved ones included.
    pub fn block_count(&self) -> u64 {
        wide(self.pointers.len())
    }

    /// The pointers of all blocks, which must all have been written.
    pub fn pointers(&self) -> impl Iterator<Item = Result<&BlockPointer, WriteError>> {
        let each = self.pointers.iter();
        each.map(|pointer| pointer.as_ref().ok_or(WriteError::MissingContent))
    }

    /// Gives the sink back.
    pub fn into_sink(self) -> W {
        self.sink
    }
}
