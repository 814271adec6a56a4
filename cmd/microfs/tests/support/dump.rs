//! The text of a layer, as `testdata/README.md` describes it: from a tree that
//! was written, and from a layer that is read.

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::{ControlFlow, Range};

use microfs::stack::{NodeNum, Stack};
use microfs::tree::{NodeId, NodeKind, Target, Timestamp, ValidTree};
use microfs::{FileType, ReadError};
use microfs_oci::verified::sha256;

use super::content::Content;
use super::layers::Layer;

/// One line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    path: Vec<u8>,
    size: u64,
    mode: u32,
    links: u32,
    uid: u32,
    gid: u32,
    device: (u32, u32),
    mtime: Timestamp,
    /// Target of a link, or the first path of the same object.
    payload: Option<Vec<u8>>,
    is_again: bool,
    data: Option<String>,
    xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names of what only a layer has, each with a value.
    marks: Vec<(&'static str, String)>,
    /// Sub-directories that are hollow.
    hollow: u32,
}

impl Entry {
    fn new(path: Vec<u8>) -> Self {
        Self { path, ..Self::default() }
    }

    pub fn text(&self) -> String {
        let again = if self.is_again { "@" } else { "" };
        let mut text = format!(
            "{} {} {again}{:o} {} {} {} {} {}.{} {} - {}",
            escape(&self.path),
            self.size,
            self.mode,
            self.links,
            self.uid,
            self.gid,
            rustix::fs::makedev(self.device.0, self.device.1),
            self.mtime.seconds,
            self.mtime.nanoseconds,
            self.payload.as_deref().map_or("-".to_owned(), escape),
            self.data.as_deref().unwrap_or("-"),
        );
        for (name, value) in &self.xattrs {
            text.push_str(&format!(" {}={}", escape(name), escape(value)));
        }
        for (name, value) in &self.marks {
            text.push_str(&format!(" microfs.{name}={value}"));
        }
        text.push('\n');
        text
    }

    /// What a reader of a stack of this layer alone sees of it: nothing of
    /// whiteouts, hollow directories and links to below, no marks but the map of
    /// data, and for an implied directory what FORMAT.md, section 14, says.
    pub fn merged(mut self) -> Option<Self> {
        let has = |mark| self.marks.iter().any(|(name, _)| *name == mark);
        if has("whiteout") || has("link-below") || has("hollow") {
            return None;
        }
        self.links -= self.hollow;
        self.hollow = 0;
        if has("implied") {
            self.mode = 0o040_755;
            (self.uid, self.gid, self.mtime) = (0, 0, Timestamp::default());
            self.xattrs.clear();
        }
        self.marks.retain(|(name, _)| *name == "data");
        Some(self)
    }
}

/// As in composefs-dump(5); `=` everywhere, and a field that is but a dash.
fn escape(bytes: &[u8]) -> String {
    if bytes == b"-" {
        return "\\x2d".to_owned();
    }
    let plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\' && byte != b'=';
    let text = bytes.iter().map(|byte| match byte {
        byte if plain(*byte) => char::from(*byte).to_string(),
        b'\\' => "\\\\".to_owned(),
        b'\n' => "\\n".to_owned(),
        b'\r' => "\\r".to_owned(),
        b'\t' => "\\t".to_owned(),
        byte => format!("\\x{byte:02x}"),
    });
    text.collect()
}

/// Digest of all data, and the map of it where there are holes.
fn describe(entry: &mut Entry, data: &[u8], map: &[Range<u64>]) {
    if entry.size > 0 {
        let digest = sha256(data).unwrap().to_string();
        entry.data = Some(digest.trim_start_matches("sha256:").to_owned());
    }
    let whole = map.len() == 1 && map[0] == (0..entry.size);
    if entry.size > 0 && !whole {
        let runs = map.iter().map(|run| format!("{}-{}", run.start, run.end));
        entry.marks.push(("data", runs.collect::<Vec<_>>().join(",")));
    }
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    if !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// What has been listed, and the first path of each object.
struct List<N> {
    entries: Vec<Entry>,
    seen: HashMap<N, Vec<u8>>,
}

impl<N: Copy + Eq + Hash> List<N> {
    fn new() -> Self {
        Self { entries: Vec::new(), seen: HashMap::new() }
    }

    /// A further name of an object says where the first is.
    fn push(&mut self, node: N, mut entry: Entry) {
        if let Some(first) = self.seen.get(&node) {
            (entry.payload, entry.is_again) = (Some(first.clone()), true);
        } else {
            self.seen.insert(node, entry.path.clone());
        }
        self.entries.push(entry);
    }
}

/// Every name of a layer that is to be written: a directory before what is in
/// it, names sorted by bytes.
pub fn of_layer(layer: &Layer) -> Vec<Entry> {
    let tree = layer.valid();
    let mut list = List::new();
    list_node(layer, &tree, NodeId::ROOT, b"/".to_vec(), &mut list);
    list.entries
}

fn list_node(
    layer: &Layer,
    tree: &ValidTree,
    node: NodeId,
    path: Vec<u8>,
    list: &mut List<NodeId>,
) {
    list.push(node, of_node(layer, tree, node, path.clone()));
    for dentry in tree.children(node) {
        let path = join(&path, tree.tree().bytes(dentry.name));
        match dentry.target {
            Target::Node(node) => list_node(layer, tree, node, path, list),
            Target::Whiteout => {
                let mut entry = Entry::new(path);
                entry.marks.push(("whiteout", String::new()));
                list.entries.push(entry);
            }
        }
    }
}

fn of_node(layer: &Layer, tree: &ValidTree, node: NodeId, path: Vec<u8>) -> Entry {
    let object = tree.node(node);
    let metadata = &object.metadata;
    let mut entry = Entry::new(path);
    entry.links = tree.links(tree.inode_index(node));
    (entry.uid, entry.gid, entry.mtime) = (metadata.uid, metadata.gid, metadata.mtime);
    entry.xattrs = tree.tree().xattrs().set(metadata.xattrs).to_vec();
    let type_bits = match object.kind {
        NodeKind::Regular { size } => {
            entry.size = size;
            let content = &layer.contents[&node];
            let data: Vec<u8> = content.runs.iter().flat_map(Content::run_bytes).collect();
            let map = content.runs.iter().map(|run| run.offset..run.offset + run.length);
            describe(&mut entry, &data, &map.collect::<Vec<_>>());
            0o100_000
        }
        NodeKind::Directory { opaque, implied } => {
            let marks =
                [("opaque", opaque), ("implied", implied), ("hollow", is_hollow(tree, node))];
            let marks = marks.into_iter();
            let directories = tree.children(node).iter().filter(|dentry| match dentry.target {
                Target::Node(child) => is_hollow(tree, child),
                Target::Whiteout => false,
            });
            entry.hollow = directories.count() as u32;
            entry.marks.extend(marks.filter(|mark| mark.1).map(|mark| (mark.0, String::new())));
            0o040_000
        }
        NodeKind::Symlink { target } => {
            let target = tree.tree().bytes(target);
            (entry.size, entry.payload) = (target.len() as u64, Some(target.to_vec()));
            0o120_000
        }
        NodeKind::CharDevice(number) | NodeKind::BlockDevice(number) => {
            entry.device = (number.major, number.minor);
            if matches!(object.kind, NodeKind::CharDevice(_)) { 0o020_000 } else { 0o060_000 }
        }
        NodeKind::Fifo => 0o010_000,
        NodeKind::Socket => 0o140_000,
        NodeKind::LinkBelow { path } => {
            let path = tree.tree().bytes(path);
            entry.size = path.len() as u64;
            entry.payload = Some(path.to_vec());
            entry.marks.push(("link-below", String::new()));
            0
        }
    };
    entry.mode = type_bits | u32::from(metadata.permissions);
    entry
}

/// As FORMAT.md defines it: implied, and nothing in it but whiteouts and hollow
/// directories.
fn is_hollow(tree: &ValidTree, node: NodeId) -> bool {
    let implied = matches!(tree.node(node).kind, NodeKind::Directory { implied: true, .. });
    implied
        && node != NodeId::ROOT
        && tree.children(node).iter().all(|dentry| match dentry.target {
            Target::Node(child) => is_hollow(tree, child),
            Target::Whiteout => true,
        })
}

/// Every name of a stack, in the same order.
pub fn of_stack(stack: &Stack) -> Vec<Entry> {
    let mut list = List::new();
    list_number(stack, NodeNum::ROOT, b"/".to_vec(), &mut list);
    list.entries
}

fn list_number(stack: &Stack, node: NodeNum, path: Vec<u8>, list: &mut List<NodeNum>) {
    if matches!(stack.attr(node), Err(ReadError::LinkUnresolved { .. })) {
        return;
    }
    let entry = of_number(stack, node, path.clone());
    let is_directory = entry.mode & 0o170_000 == 0o040_000;
    list.push(node, entry);
    if is_directory {
        let mut children = Vec::new();
        let read = stack.read_dir(node, 0, &mut |child| {
            children.push((child.node, join(&path, child.name)));
            ControlFlow::Continue(())
        });
        read.unwrap();
        for (node, path) in children {
            list_number(stack, node, path, list);
        }
    }
}

fn of_number(stack: &Stack, node: NodeNum, path: Vec<u8>) -> Entry {
    let attr = stack.attr(node).unwrap();
    let mut entry = Entry::new(path);
    entry.links = attr.links;
    (entry.uid, entry.gid, entry.mtime) = (attr.uid, attr.gid, attr.mtime);
    entry.device = (attr.device.major, attr.device.minor);
    entry.xattrs = stack.xattrs(node).unwrap();
    let type_bits = match attr.file_type {
        FileType::Regular => {
            entry.size = attr.size;
            let (data, map) = read_all(stack, node);
            describe(&mut entry, &data, &map);
            0o100_000
        }
        FileType::Directory => 0o040_000,
        FileType::Symlink => {
            entry.size = attr.size;
            entry.payload = Some(stack.read_link(node).unwrap());
            0o120_000
        }
        FileType::CharDevice => 0o020_000,
        FileType::BlockDevice => 0o060_000,
        FileType::Fifo => 0o010_000,
        FileType::Socket => 0o140_000,
    };
    entry.mode = type_bits | u32::from(attr.permissions);
    entry
}

fn read_all(stack: &Stack, node: NodeNum) -> (Vec<u8>, Vec<Range<u64>>) {
    let (mut all, mut map, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(start) = stack.seek_data(node, at).unwrap() {
        let end = stack.seek_hole(node, start).unwrap().unwrap();
        let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
        assert_eq!(stack.read_at(node, start, &mut bytes).unwrap(), bytes.len());
        all.append(&mut bytes);
        map.push(start..end);
        at = end;
    }
    (all, map)
}
