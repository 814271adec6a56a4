//! A file system in memory.

use std::collections::{BTreeMap, VecDeque};

use super::member::Meta;
use super::{LINKS_MAX, parts};

/// Position of an object in its tree; the root is 0.
pub type Id = usize;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    File(Vec<u8>),
    Directory(BTreeMap<String, Id>),
    Symlink(String),
    Fifo,
    Device(u32, u32),
    /// A hard link to what is not there.
    Broken,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// `None` for a directory that no archive describes.
    pub meta: Option<Meta>,
    pub kind: Kind,
}

impl Object {
    pub fn directory(meta: Option<Meta>) -> Self {
        Self { meta, kind: Kind::Directory(BTreeMap::new()) }
    }
}

#[derive(Debug, Clone)]
pub struct Tree {
    pub objects: Vec<Object>,
}

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The object, and its path without links.
    Object(Id, Vec<String>),
    Nothing,
    /// A broken hard link is in the way.
    Broken,
}

impl Tree {
    pub fn new() -> Self {
        Self { objects: vec![Object::directory(None)] }
    }

    pub fn add(&mut self, object: Object) -> Id {
        self.objects.push(object);
        self.objects.len() - 1
    }

    pub fn children(&self, id: Id) -> Option<&BTreeMap<String, Id>> {
        match &self.objects[id].kind {
            Kind::Directory(children) => Some(children),
            _ => None,
        }
    }

    pub fn children_mut(&mut self, id: Id) -> &mut BTreeMap<String, Id> {
        match &mut self.objects[id].kind {
            Kind::Directory(children) => children,
            other => panic!("{other:?} is no directory"),
        }
    }

    pub fn child(&self, id: Id, name: &str) -> Option<Id> {
        self.children(id)?.get(name).copied()
    }

    pub fn is_directory(&self, id: Id) -> bool {
        self.children(id).is_some()
    }

    /// What a path names when no link is followed.
    pub fn at(&self, path: &[String]) -> Option<Id> {
        path.iter().try_fold(0, |at, name| self.child(at, name))
    }

    /// Follows links inside the root: those on the way, and the last one too
    /// if asked to.
    pub fn resolve(&self, path: &[String], follow_last: bool) -> Found {
        let mut trail: Vec<(String, Id)> = Vec::new();
        let mut pending: VecDeque<String> = path.iter().cloned().collect();
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                trail.pop();
                continue;
            }
            let at = trail.last().map_or(0, |(_, id)| *id);
            let Some(id) = self.child(at, &name) else { return Found::Nothing };
            match &self.objects[id].kind {
                Kind::Broken => return Found::Broken,
                Kind::Symlink(target) if follow_last || !pending.is_empty() => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Found::Nothing;
                    }
                    if target.starts_with('/') {
                        trail.clear();
                    }
                    for part in parts(target).into_iter().rev() {
                        pending.push_front(part);
                    }
                }
                Kind::Directory(_) => trail.push((name, id)),
                _ if pending.is_empty() => trail.push((name, id)),
                _ => return Found::Nothing,
            }
        }
        let id = trail.last().map_or(0, |(_, id)| *id);
        Found::Object(id, trail.into_iter().map(|(name, _)| name).collect())
    }

    /// All paths of each object that shows.
    pub fn names(&self) -> BTreeMap<Id, Vec<String>> {
        let mut names: BTreeMap<Id, Vec<String>> = BTreeMap::new();
        let mut pending = vec![(0, String::new())];
        while let Some((id, path)) = pending.pop() {
            for (name, child) in self.children(id).into_iter().flatten() {
                let path = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
                pending.push((*child, path.clone()));
                names.entry(*child).or_default().push(path);
            }
        }
        names
    }
}
