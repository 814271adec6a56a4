//! Readers that go through the tree, as far as is known.

use std::collections::VecDeque;

use microfs::stack::{LayerInode, NodeNum};

/// Most streams that are remembered; the one that stands still longest goes first.
const STREAMS: usize = 16;
/// Plain bytes that a stream is given ahead at first, and at most.
const FIRST: u64 = 256 << 10;
const MOST: u64 = 4 << 20;

/// One reader's way through a layer's files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// The file that was left out on the way: a request for it says that the
    /// reader has come so far.
    pub(super) marker: NodeNum,
    /// Where to go on.
    pub(super) next: LayerInode,
    /// Plain bytes that it was given last.
    pub(super) window: u64,
}

/// The streams of a mount.
#[derive(Debug, Default)]
pub(super) struct Streams(VecDeque<Stream>);

impl Streams {
    /// How much a new one is given.
    pub(super) const FIRST: u64 = FIRST;

    /// Takes the stream whose marker was read, to go on with more.
    pub(super) fn reached(&mut self, node: NodeNum) -> Option<Stream> {
        let at = self.0.iter().position(|stream| stream.marker == node)?;
        let stream = self.0.remove(at)?;
        Some(Stream { window: stream.window.saturating_mul(2).min(MOST), ..stream })
    }

    /// Remembers one.
    pub(super) fn remember(&mut self, stream: Stream) {
        if self.0.len() >= STREAMS {
            self.0.pop_front();
        }
        self.0.push_back(stream);
    }
}
