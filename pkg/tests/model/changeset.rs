//! Layers as FORMAT.md section 14 merges them.

use std::collections::{BTreeMap, BTreeSet};

use super::layer::{self, Layer};
use super::member::{self, Meta};
use super::tree::{Found, Id, Kind, Object, Traced, Tree};

/// Puts a layer over a tree. `false` when the layer contradicts itself: one
/// name of one directory comes from two places of the layer, or a directory is
/// new by its own path and filled through a link of a lower layer as well.
pub fn apply(tree: &mut Tree, layer: &Layer) -> bool {
    let before = tree.clone();
    let mut work = Work {
        before: &before,
        tree,
        layer,
        made: BTreeMap::new(),
        touched: BTreeSet::new(),
        new: BTreeSet::new(),
        moved: Vec::new(),
        is_consistent: true,
    };
    work.root();
    // What lies behind links comes into the tree as the layer leaves it.
    while !work.moved.is_empty() {
        let Moved { directory, target, place } = work.moved.remove(0);
        let new = (0..=target.len()).filter_map(|length| work.tree.at(&target[..length]));
        work.is_consistent &= !new.into_iter().any(|id| work.new.contains(&id));
        if let Some(id) = work.tree.at(&target).filter(|id| work.tree.is_directory(*id)) {
            work.directory(directory, id, &target);
        } else {
            // The layer itself takes the target away, or nobody has it.
            let (parent, path) = place;
            let name = path.last().cloned().unwrap_or_default();
            work.new_directory(directory, parent, &name, &path);
        }
    }
    work.is_consistent
}

/// An implied directory over a link that leads to `target`.
struct Moved {
    directory: layer::Id,
    target: Vec<String>,
    /// Parent and path of the link.
    place: (Id, Vec<String>),
}

struct Work<'a> {
    before: &'a Tree,
    tree: &'a mut Tree,
    layer: &'a Layer,
    made: BTreeMap<layer::Id, Id>,
    touched: BTreeSet<(Id, String)>,
    /// Directories that show nothing of the layers below.
    new: BTreeSet<Id>,
    moved: Vec<Moved>,
    is_consistent: bool,
}

impl Work<'_> {
    fn root(&mut self) {
        self.over(0, 0);
        self.directory(0, 0, &[]);
    }

    /// A directory of the layer over one of the tree, without its names.
    fn over(&mut self, from: layer::Id, into: Id) {
        let layer::Object::Directory { meta, opaque, .. } = &self.layer.objects[from] else {
            return;
        };
        if *opaque {
            self.tree.children_mut(into).clear();
            self.new.insert(into);
        }
        if meta.is_some() {
            self.tree.objects[into].meta.clone_from(meta);
        }
    }

    /// The names of a directory of the layer.
    fn directory(&mut self, from: layer::Id, into: Id, path: &[String]) {
        for (name, slot) in self.layer.slots(from).into_iter().flatten() {
            let is_first = self.touched.insert((into, name.clone()));
            self.is_consistent &= is_first;
            if slot.whiteout {
                self.tree.children_mut(into).remove(name);
            }
            let Some(object) = slot.object else { continue };
            if self.layer.slots(object).is_some() {
                self.subdirectory(object, into, name, path);
            } else {
                let id = self.object(object);
                self.tree.children_mut(into).insert(name.clone(), id);
            }
        }
    }

    fn subdirectory(&mut self, from: layer::Id, parent: Id, name: &str, path: &[String]) {
        let path: Vec<String> = path.iter().cloned().chain([name.to_owned()]).collect();
        let existing = self.tree.child(parent, name);
        let kind = existing.map(|id| &self.tree.objects[id].kind);
        let open = matches!(
            self.layer.objects[from],
            layer::Object::Directory { meta: None, opaque: false, .. }
        );
        match (existing, kind) {
            (Some(id), Some(Kind::Directory(_))) => {
                self.over(from, id);
                self.directory(from, id, &path);
            }
            (_, Some(Kind::Symlink(_))) if open => match self.before.trace(&path, true) {
                Traced::There(_, target) | Traced::Missing(target) => {
                    self.moved.push(Moved { directory: from, target, place: (parent, path) });
                }
                _ => self.new_directory(from, parent, name, &path),
            },
            _ => self.new_directory(from, parent, name, &path),
        }
    }

    /// In place of what is there, but not for the sake of whiteouts alone.
    fn new_directory(&mut self, from: layer::Id, parent: Id, name: &str, path: &[String]) {
        if self.layer.is_hollow(from) {
            return;
        }
        let id = self.tree.add(Object::directory(None));
        self.tree.children_mut(parent).insert(name.to_owned(), id);
        self.new.insert(id);
        self.over(from, id);
        self.directory(from, id, path);
    }

    /// The object of the tree for one of the layer that is no directory.
    fn object(&mut self, from: layer::Id) -> Id {
        if let Some(id) = self.made.get(&from) {
            return *id;
        }
        let id = match &self.layer.objects[from] {
            layer::Object::Other(kind, meta) => self.tree.add(other(kind, meta)),
            layer::Object::Below(path) => match self.before.resolve(path, false) {
                Found::Object(id, _) if !self.before.is_directory(id) => id,
                Found::Object(..) | Found::Broken => self.broken(),
                // A link that came before its target.
                Found::Nothing => match self.layer.at(path) {
                    Some(own) if matches!(self.layer.objects[own], layer::Object::Other(..)) => {
                        self.object(own)
                    }
                    _ => self.broken(),
                },
            },
            directory @ layer::Object::Directory { .. } => panic!("{directory:?}"),
        };
        self.made.insert(from, id);
        id
    }

    fn broken(&mut self) -> Id {
        self.tree.add(Object { meta: None, kind: Kind::Broken })
    }
}

/// An object of a member that is neither a directory nor a mark.
pub fn other(kind: &member::Kind, meta: &Meta) -> Object {
    let kind = match kind {
        member::Kind::File(bytes) => Kind::File(bytes.clone()),
        member::Kind::Symlink(target) => Kind::Symlink(target.clone()),
        member::Kind::Fifo => Kind::Fifo,
        member::Kind::Device(major, minor) => Kind::Device(*major, *minor),
        other => panic!("{other:?} is no object"),
    };
    Object { meta: Some(meta.clone()), kind }
}
