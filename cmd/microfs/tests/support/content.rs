//! File content that is described, not stored.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::random::Random;

/// What a run of data holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Zeros that are written, so no hole.
    Zeros,
    /// Bytes that do not compress, from a seed.
    Random(u64),
    /// Words that compress, from a seed.
    Words(u64),
    /// Exactly this.
    Text(&'static str),
}

/// A run of data in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    pub offset: u64,
    pub length: u64,
    pub fill: Fill,
}

/// Content of a regular file; what is in no run is a hole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Content {
    pub size: u64,
    pub runs: Vec<Run>,
}

const WORDS: [&str; 8] =
    ["layer ", "block ", "inode ", "the ", "of ", "tree\n", "0x00 ", "extent "];

impl Content {
    /// One run from the first byte to the last.
    pub fn whole(size: u64, fill: Fill) -> Self {
        let run = Run { offset: 0, length: size, fill };
        Self { size, runs: if size == 0 { Vec::new() } else { vec![run] } }
    }

    /// A short text.
    pub fn text(text: &'static str) -> Self {
        Self::whole(text.len() as u64, Fill::Text(text))
    }

    /// A file that is one hole.
    pub fn hole(size: u64) -> Self {
        Self { size, runs: Vec::new() }
    }

    /// Bytes of one of its runs.
    pub fn run_bytes(run: &Run) -> Vec<u8> {
        Source::new(run.fill).take(usize::try_from(run.length).unwrap())
    }

    /// Writes it into an empty file.
    pub fn write(&self, file: &File) -> std::io::Result<()> {
        for run in &self.runs {
            let mut source = Source::new(run.fill);
            let (mut at, end) = (run.offset, run.offset + run.length);
            while at < end {
                let piece = source.take((end - at).min(1 << 20) as usize);
                file.write_all_at(&piece, at)?;
                at += piece.len() as u64;
            }
        }
        file.set_len(self.size)
    }

    /// All bytes; for small files only.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.size).unwrap()];
        for run in &self.runs {
            let piece = Self::run_bytes(run);
            bytes[run.offset as usize..][..piece.len()].copy_from_slice(&piece);
        }
        bytes
    }
}

enum Source {
    Zeros,
    Random(Random),
    Words(Random, Vec<u8>),
    Text(&'static [u8]),
}

impl Source {
    fn new(fill: Fill) -> Self {
        match fill {
            Fill::Zeros => Self::Zeros,
            Fill::Random(seed) => Self::Random(Random::new(seed)),
            Fill::Words(seed) => Self::Words(Random::new(seed), Vec::new()),
            Fill::Text(text) => Self::Text(text.as_bytes()),
        }
    }

    /// The next bytes. Pieces have the same sizes for `write` and `bytes`,
    /// because all but the last of a run are a multiple of 8 bytes.
    fn take(&mut self, length: usize) -> Vec<u8> {
        match self {
            Self::Zeros => vec![0; length],
            Self::Random(random) => random.bytes(length),
            Self::Text(text) => {
                let (taken, rest) = text.split_at(length);
                *text = rest;
                taken.to_vec()
            }
            Self::Words(random, rest) => {
                while rest.len() < length {
                    rest.extend_from_slice(random.pick(&WORDS).as_bytes());
                }
                let after = rest.split_off(length);
                std::mem::replace(rest, after)
            }
        }
    }
}
