//! Layers made in memory, for tests.

// Each test program uses some of this.
#![allow(dead_code, missing_docs, clippy::unwrap_used)]

use std::sync::Arc;

use microfs::compress::Compression;
use microfs::stack::{LayerSource, Stack, StackOptions};
use microfs::tree::{
    DeviceNumber, Metadata, Node, NodeId, NodeKind, Target, Timestamp, Tree, ValidTree,
};
use microfs::writer::{ContentWriter, Options, Silent};
use rayon::{ThreadPool, ThreadPoolBuilder};

pub mod blob;
pub mod replay;

pub fn pool(threads: usize) -> Arc<ThreadPool> {
    Arc::new(ThreadPoolBuilder::new().num_threads(threads).build().unwrap())
}

/// Small blocks and nothing compressed, so that every record can be found.
pub fn plain_options() -> Options {
    Options {
        block_log: 12,
        metadata_log: 12,
        compression: Compression::None,
        ..Options::default()
    }
}

pub fn metadata(permissions: u16, uid: u32, gid: u32, seconds: i64, nanoseconds: u32) -> Metadata {
    let mtime = Timestamp { seconds, nanoseconds };
    Metadata { permissions, uid, gid, mtime, ..Metadata::default() }
}

struct Content {
    node: NodeId,
    size: u64,
    data: Vec<(u64, Vec<u8>)>,
}

pub struct Builder {
    pub tree: Tree,
    contents: Vec<Content>,
}

impl Builder {
    pub fn new(root: Metadata) -> Self {
        Self { tree: Tree::new(root), contents: Vec::new() }
    }

    pub fn xattrs(&mut self, metadata: Metadata, set: &[(&str, &[u8])]) -> Metadata {
        let set = set.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec()));
        let xattrs = self.tree.xattrs_mut().intern(set.collect()).unwrap();
        Metadata { xattrs, ..metadata }
    }

    fn add(&mut self, parent: NodeId, name: &[u8], metadata: Metadata, kind: NodeKind) -> NodeId {
        let node = self.tree.add(Node { metadata, kind }).unwrap();
        self.link(parent, name, node);
        node
    }

    pub fn link(&mut self, parent: NodeId, name: &[u8], node: NodeId) {
        self.tree.link(parent, name, Target::Node(node)).unwrap();
    }

    pub fn whiteout(&mut self, parent: NodeId, name: &[u8]) {
        self.tree.link(parent, name, Target::Whiteout).unwrap();
    }

    pub fn directory(&mut self, parent: NodeId, name: &[u8], metadata: Metadata) -> NodeId {
        let kind = NodeKind::Directory { opaque: false, implied: false };
        self.add(parent, name, metadata, kind)
    }

    pub fn flagged(&mut self, parent: NodeId, name: &[u8], opaque: bool, implied: bool) -> NodeId {
        let kind = NodeKind::Directory { opaque, implied };
        self.add(parent, name, metadata(0o755, 0, 0, 0, 0), kind)
    }

    pub fn file(
        &mut self,
        parent: NodeId,
        name: &[u8],
        metadata: Metadata,
        bytes: &[u8],
    ) -> NodeId {
        let data = if bytes.is_empty() { Vec::new() } else { vec![(0, bytes.to_vec())] };
        let size = u64::try_from(bytes.len()).unwrap();
        self.sparse(parent, name, metadata, size, data)
    }

    /// A file of which only `data` (offset, bytes; ascending, apart) is no hole.
    pub fn sparse(
        &mut self,
        parent: NodeId,
        name: &[u8],
        metadata: Metadata,
        size: u64,
        data: Vec<(u64, Vec<u8>)>,
    ) -> NodeId {
        let node = self.add(parent, name, metadata, NodeKind::Regular { size });
        self.contents.push(Content { node, size, data });
        node
    }

    pub fn symlink(
        &mut self,
        parent: NodeId,
        name: &[u8],
        metadata: Metadata,
        to: &[u8],
    ) -> NodeId {
        let target = self.tree.intern_target(to).unwrap();
        self.add(parent, name, metadata, NodeKind::Symlink { target })
    }

    pub fn link_below(&mut self, parent: NodeId, name: &[u8], to: &[u8]) -> NodeId {
        let path = self.tree.intern_target(to).unwrap();
        self.add(parent, name, Metadata::default(), NodeKind::LinkBelow { path })
    }

    pub fn device(
        &mut self,
        parent: NodeId,
        name: &[u8],
        metadata: Metadata,
        block: bool,
        major: u32,
        minor: u32,
    ) -> NodeId {
        let device = DeviceNumber { major, minor };
        let kind = if block { NodeKind::BlockDevice } else { NodeKind::CharDevice };
        self.add(parent, name, metadata, kind(device))
    }

    pub fn fifo(&mut self, parent: NodeId, name: &[u8], metadata: Metadata) -> NodeId {
        self.add(parent, name, metadata, NodeKind::Fifo)
    }

    pub fn socket(&mut self, parent: NodeId, name: &[u8], metadata: Metadata) -> NodeId {
        self.add(parent, name, metadata, NodeKind::Socket)
    }

    pub fn build(self, options: &Options) -> Vec<u8> {
        let Self { tree, contents } = self;
        let mut writer =
            ContentWriter::new(Vec::new(), options.clone(), pool(2), Arc::new(Silent)).unwrap();
        for content in contents {
            write(&mut writer, content);
        }
        let tree: ValidTree = tree.validate().unwrap();
        writer.finish(&tree).unwrap().0
    }
}

fn write(writer: &mut ContentWriter<Vec<u8>>, content: Content) {
    let Content { node, size, data } = content;
    let mut at = 0;
    for (offset, bytes) in data {
        if offset > at {
            writer.hole(node, at);
        }
        at = offset;
        for piece in bytes.chunks(writer.piece_max()) {
            let piece = piece.to_vec();
            let length = piece.len();
            writer.piece(node, at, length, Box::new(move || Ok(piece))).unwrap();
            at += u64::try_from(length).unwrap();
        }
    }
    if at < size {
        writer.hole(node, at);
    }
}

/// A stack of blobs, the lowest first.
pub fn stack(layers: Vec<Vec<u8>>) -> Stack {
    let layers = layers.into_iter();
    let sources = layers.map(|blob| LayerSource { source: Box::new(blob), sha256: None });
    Stack::open(sources.collect(), &StackOptions::default()).unwrap()
}

/// Bytes that do not compress and depend on `seed` alone.
pub fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}
