//! Layers that are made through the library, for what no directory can hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use microfs::tree::{
    DeviceNumber, Metadata, Node, NodeId, NodeKind, Target, Timestamp, Tree, ValidTree,
};
use microfs::writer::{ContentWriter, Options, Silent};

use super::content::Content;
use super::plan::Meta;

/// A tree with its files' content.
pub struct Layer {
    pub tree: Tree,
    pub contents: BTreeMap<NodeId, Content>,
}

impl Layer {
    pub fn new(root: &Meta) -> Self {
        let mut layer = Self { tree: Tree::new(Metadata::default()), contents: BTreeMap::new() };
        let metadata = layer.metadata(root);
        layer.tree.node_mut(NodeId::ROOT).metadata = metadata;
        layer
    }

    fn metadata(&mut self, meta: &Meta) -> Metadata {
        let (seconds, nanoseconds) = meta.mtime;
        Metadata {
            permissions: meta.permissions,
            uid: meta.uid,
            gid: meta.gid,
            mtime: Timestamp { seconds, nanoseconds },
            xattrs: self.tree.xattrs_mut().intern(meta.xattrs.clone()).unwrap(),
        }
    }

    pub fn add(&mut self, parent: NodeId, name: &[u8], kind: NodeKind, meta: &Meta) -> NodeId {
        let metadata = self.metadata(meta);
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

    pub fn directory(&mut self, parent: NodeId, name: &[u8], meta: &Meta) -> NodeId {
        self.add(parent, name, NodeKind::Directory { opaque: false, implied: false }, meta)
    }

    pub fn file(&mut self, parent: NodeId, name: &[u8], content: Content, meta: &Meta) -> NodeId {
        let node = self.add(parent, name, NodeKind::Regular { size: content.size }, meta);
        self.contents.insert(node, content);
        node
    }

    pub fn symlink(&mut self, parent: NodeId, name: &[u8], target: &[u8], meta: &Meta) -> NodeId {
        let target = self.tree.intern_target(target).unwrap();
        self.add(parent, name, NodeKind::Symlink { target }, meta)
    }

    pub fn link_below(&mut self, parent: NodeId, name: &[u8], path: &[u8]) -> NodeId {
        let path = self.tree.intern_target(path).unwrap();
        let nothing = Meta { mtime: (0, 0), ..Meta::plain(0) };
        self.add(parent, name, NodeKind::LinkBelow { path }, &nothing)
    }

    pub fn device(&mut self, name: &[u8], block: bool, major: u32, minor: u32, meta: &Meta) {
        let number = DeviceNumber { major, minor };
        let kind = if block { NodeKind::BlockDevice(number) } else { NodeKind::CharDevice(number) };
        self.add(NodeId::ROOT, name, kind, meta);
    }

    pub fn valid(&self) -> ValidTree {
        self.tree.clone().validate().unwrap()
    }

    /// The blob.
    pub fn write(&self, options: &Options) -> Vec<u8> {
        let tree = self.valid();
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap());
        let silent = Arc::new(Silent);
        let mut writer = ContentWriter::new(Vec::new(), options.clone(), pool, silent).unwrap();
        for node in tree.order() {
            if let Some(content) = self.contents.get(node) {
                write_content(&mut writer, *node, content);
            }
        }
        writer.finish(&tree).unwrap().0
    }
}

fn write_content(writer: &mut ContentWriter<Vec<u8>>, node: NodeId, content: &Content) {
    let mut at = 0;
    for run in &content.runs {
        if run.offset > at {
            writer.hole(node, at);
        }
        at = run.offset;
        for piece in Content::run_bytes(run).chunks(writer.piece_max()) {
            let bytes = piece.to_vec();
            writer.piece(node, at, bytes.len(), Box::new(|| Ok(bytes))).unwrap();
            at += piece.len() as u64;
        }
    }
    if at < content.size {
        writer.hole(node, at);
    }
}
