//! Is a stack what a model says?

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use microfs::stack::{NodeNum, Stack};
use microfs::{FileType, ReadError};

use super::member::Meta;
use super::tree::{Id, Kind, Tree};

/// Compares everything that a stack tells about every object.
#[track_caller]
pub fn assert_same(tree: &Tree, stack: &Stack) {
    let mut same = Same { tree, stack, numbers: BTreeMap::new(), names: tree.names() };
    same.directory(0, NodeNum::ROOT, NodeNum::ROOT, "");
    let numbers: BTreeMap<NodeNum, Id> = same.numbers.iter().map(|(id, n)| (*n, *id)).collect();
    assert_eq!(numbers.len(), same.numbers.len(), "two objects share a number");
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    node: NodeNum,
    file_type: FileType,
    next: u64,
}

fn entries(stack: &Stack, directory: NodeNum, offset: u64) -> Vec<Entry> {
    let mut entries = Vec::new();
    let listed = stack.read_dir(directory, offset, &mut |entry| {
        let name = String::from_utf8(entry.name.to_vec()).unwrap();
        entries.push(Entry {
            name,
            node: entry.node,
            file_type: entry.file_type,
            next: entry.next,
        });
        ControlFlow::Continue(())
    });
    listed.unwrap();
    entries
}

struct Same<'a> {
    tree: &'a Tree,
    stack: &'a Stack,
    numbers: BTreeMap<Id, NodeNum>,
    names: BTreeMap<Id, Vec<String>>,
}

impl Same<'_> {
    fn directory(&mut self, id: Id, node: NodeNum, parent: NodeNum, path: &str) {
        self.attributes(id, node, path);
        assert_eq!(self.stack.parent(node).unwrap(), parent, "parent of /{path}");
        assert_eq!(self.stack.path(node).unwrap(), path.as_bytes(), "path of /{path}");
        let children = self.tree.children(id).unwrap();
        let listed = entries(self.stack, node, 0);
        let found: Vec<&str> = listed.iter().map(|entry| entry.name.as_str()).collect();
        let wanted: Vec<&str> = children.keys().map(String::as_str).collect();
        assert_eq!(found, wanted, "names in /{path}");
        for (at, entry) in listed.iter().enumerate() {
            let rest = entries(self.stack, node, entry.next);
            assert_eq!(rest, listed[at + 1..], "/{path} from {}", entry.next);
            let child = children[&entry.name];
            let path =
                if path.is_empty() { entry.name.clone() } else { format!("{path}/{}", entry.name) };
            self.child(child, node, entry, &path);
        }
        assert_eq!(self.stack.lookup(node, b"no such name").unwrap(), None);
    }

    fn child(&mut self, id: Id, directory: NodeNum, entry: &Entry, path: &str) {
        let found = self.stack.lookup(directory, entry.name.as_bytes());
        if self.tree.objects[id].kind == Kind::Broken {
            assert!(matches!(found, Err(ReadError::LinkUnresolved { .. })), "/{path}: {found:?}");
            return;
        }
        assert_eq!(found.unwrap(), Some(entry.node), "lookup of /{path}");
        let known = *self.numbers.entry(id).or_insert(entry.node);
        assert_eq!(known, entry.node, "number of /{path}");
        if self.tree.is_directory(id) {
            assert_eq!(entry.file_type, FileType::Directory, "/{path}");
            self.directory(id, entry.node, directory, path);
        } else {
            self.attributes(id, entry.node, path);
            assert_eq!(self.stack.attr(entry.node).unwrap().file_type, entry.file_type);
        }
    }

    fn attributes(&self, id: Id, node: NodeNum, path: &str) {
        let object = &self.tree.objects[id];
        let attr = self.stack.attr(node).unwrap();
        assert_eq!(attr.node, node, "/{path}");
        let xattrs = self.stack.xattrs(node).unwrap();
        let xattr = xattrs.first().map(|(_, value)| String::from_utf8(value.clone()).unwrap());
        assert!(xattrs.iter().all(|(name, _)| name == b"user.t"), "{xattrs:?}");
        assert_eq!(self.stack.xattr(node, b"user.t").unwrap().is_some(), xattr.is_some());
        let found = Meta {
            mode: attr.permissions,
            uid: attr.uid,
            gid: attr.gid,
            mtime: attr.mtime.seconds,
            xattr,
        };
        let wanted = object.meta.clone().unwrap_or_else(Meta::implied);
        assert_eq!(found, wanted, "attributes of /{path}");
        assert_eq!(attr.mtime.nanoseconds, 0);
        let (file_type, links) = match &object.kind {
            Kind::Directory(children) => {
                let inner = children.values().filter(|id| self.tree.is_directory(**id));
                (FileType::Directory, inner.count() + 2)
            }
            other => (file_type(other), self.names[&id].len()),
        };
        assert_eq!(attr.file_type, file_type, "type of /{path}");
        assert_eq!(attr.links, u32::try_from(links).unwrap(), "links of /{path}");
        match &object.kind {
            Kind::File(bytes) => self.content(bytes, node, path),
            Kind::Symlink(target) => {
                assert_eq!(self.stack.read_link(node).unwrap(), target.as_bytes(), "/{path}");
                assert_eq!(attr.size, u64::try_from(target.len()).unwrap(), "/{path}");
            }
            Kind::Device(major, minor) => {
                assert_eq!((attr.device.major, attr.device.minor), (*major, *minor), "/{path}");
            }
            _ => {}
        }
    }

    fn content(&self, bytes: &[u8], node: NodeNum, path: &str) {
        let mut found = vec![0xff; bytes.len() + 10];
        let length = self.stack.read_at(node, 0, &mut found).unwrap();
        assert_eq!(&found[..length], bytes, "content of /{path}");
        let size = u64::try_from(bytes.len()).unwrap();
        assert_eq!(self.stack.attr(node).unwrap().size, size, "size of /{path}");
    }
}

fn file_type(kind: &Kind) -> FileType {
    match kind {
        Kind::Directory(_) => FileType::Directory,
        Kind::File(_) | Kind::Broken => FileType::Regular,
        Kind::Symlink(_) => FileType::Symlink,
        Kind::Fifo => FileType::Fifo,
        Kind::Device(..) => FileType::CharDevice,
    }
}
