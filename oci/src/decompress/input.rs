//! A buffered source that can be looked at before it is consumed.

use std::io::{self, Read};

/// Bytes asked of the source at a time.
const SIZE: usize = 128 << 10;

pub(super) struct Input<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    position: u64,
}

impl<R> Input<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, buffer: vec![0; SIZE], start: 0, end: 0, position: 0 }
    }

    /// How many bytes were consumed.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn get_ref(&self) -> &R {
        &self.source
    }

    pub(super) fn into_inner(self) -> R {
        self.source
    }

    /// Marks buffered bytes as used.
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.end.saturating_sub(self.start));
        self.start = self.start.saturating_add(count);
        self.advance(count);
    }

    fn advance(&mut self, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.position = self.position.saturating_add(count);
    }

    fn buffered(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }
}

impl<R: Read> Input<R> {
    /// What is buffered, read from the source when that is nothing. Empty only
    /// at the end of the source.
    pub(super) fn available(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.end = read_some(&mut self.source, &mut self.buffer)?;
        }
        Ok(self.buffered())
    }

    /// The next `count` bytes, fewer only at the end of the source. `count`
    /// is small.
    pub(super) fn peek(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.buffered().len() < count {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end.saturating_sub(self.start));
            while self.end < count {
                let free = self.buffer.get_mut(self.end..).unwrap_or_default();
                let more = read_some(&mut self.source, free)?;
                if more == 0 {
                    break;
                }
                self.end = self.end.saturating_add(more);
            }
        }
        let buffered = self.buffered();
        Ok(buffered.get(..count).unwrap_or(buffered))
    }

    /// Hands out bytes as they are.
    pub(super) fn read(&mut self, output: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end && output.len() >= SIZE {
            let count = read_some(&mut self.source, output)?;
            self.advance(count);
            return Ok(count);
        }
        let available = self.available()?;
        let count = available.len().min(output.len());
        if let (Some(to), Some(from)) = (output.get_mut(..count), available.get(..count)) {
            to.copy_from_slice(from);
        }
        self.consume(count);
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
