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

/// Where a path leads, or would.
#[derive(Debug)]
pub enum Traced {
    There(Id, Vec<String>),
    Missing(Vec<String>),
    /// Through a link-below that leads nowhere.
    Broken,
    /// Through something that is no directory, or too many links.
    Blocked,
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
        match self.trace(path, follow_last) {
            Traced::There(id, path) => Found::Object(id, path),
            Traced::Broken => Found::Broken,
            Traced::Missing(_) | Traced::Blocked => Found::Nothing,
        }
    }

    /// The same, with names that are not there taken as they stand.
    pub fn trace(&self, path: &[String], follow_last: bool) -> Traced {
        let mut trail: Vec<(String, Option<Id>)> = Vec::new();
        let mut pending: VecDeque<String> = path.iter().cloned().collect();
        let mut links = 0;
        let mut is_there = true;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                trail.pop();
                continue;
            }
            let at = trail.last().map_or(Some(0), |(_, id)| *id);
            let Some(id) = at.and_then(|at| self.child(at, &name)) else {
                is_there = false;
                trail.push((name, None));
                continue;
            };
            match &self.objects[id].kind {
                Kind::Broken => return Traced::Broken,
                Kind::Symlink(target) if follow_last || !pending.is_empty() => {
                    links += 1;
                    if links > LINKS_MAX || target.is_empty() {
                        return Traced::Blocked;
                    }
                    if target.starts_with('/') {
                        trail.clear();
                    }
                    for part in parts(target).into_iter().rev() {
                        pending.push_front(part);
                    }
                }
                Kind::Directory(_) => trail.push((name, Some(id))),
                _ if pending.is_empty() => trail.push((name, Some(id))),
                _ => return Traced::Blocked,
            }
        }
        let id = trail.last().map_or(Some(0), |(_, id)| *id);
        let path = trail.into_iter().map(|(name, _)| name).collect();
        match id {
            Some(id) if is_there => Traced::There(id, path),
            _ => Traced::Missing(path),
        }
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
