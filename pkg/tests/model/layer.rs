//! What one archive says: an extraction into an empty directory, where
//! whiteouts leave marks.

use std::collections::{BTreeMap, VecDeque};

use super::member::{Kind, Member, Meta};
use super::{LINKS_MAX, parts};

pub type Id = usize;

#[derive(Debug, Clone, Default)]
pub struct Slot {
    pub whiteout: bool,
    pub object: Option<Id>,
}

#[derive(Debug, Clone)]
pub enum Object {
    Directory {
        /// `None` when it is only implied by the names below it.
        meta: Option<Meta>,
        opaque: bool,
        slots: BTreeMap<String, Slot>,
    },
    /// A file, symbolic link, device or pipe.
    Other(Kind, Meta),
    /// A hard link to a path that this layer had not when it came.
    Below(Vec<String>),
}

#[derive(Debug, Clone)]
pub struct Layer {
    pub objects: Vec<Object>,
}

/// Why a member is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    LinkToDirectory,
    Loop,
}

fn directory(meta: Option<Meta>, opaque: bool) -> Object {
    Object::Directory { meta, opaque, slots: BTreeMap::new() }
}

impl Layer {
    /// Takes the members in order; on refusal says which one it was.
    pub fn new(members: &[Member]) -> Result<Self, (usize, Refusal)> {
        let mut layer = Self { objects: vec![directory(None, false)] };
        for (number, member) in members.iter().enumerate() {
            layer.take(member).map_err(|refusal| (number, refusal))?;
        }
        layer.whiteouts_make_opaque();
        Ok(layer)
    }

    fn add(&mut self, object: Object) -> Id {
        self.objects.push(object);
        self.objects.len() - 1
    }

    pub fn slots(&self, id: Id) -> Option<&BTreeMap<String, Slot>> {
        match &self.objects[id] {
            Object::Directory { slots, .. } => Some(slots),
            _ => None,
        }
    }

    fn slot(&mut self, id: Id, name: &str) -> &mut Slot {
        match &mut self.objects[id] {
            Object::Directory { slots, .. } => slots.entry(name.to_owned()).or_default(),
            other => panic!("{other:?} is no directory"),
        }
    }

    fn child(&self, id: Id, name: &str) -> Option<Id> {
        self.slots(id)?.get(name)?.object
    }

    fn symlink(&self, id: Id) -> Option<&str> {
        match &self.objects[id] {
            Object::Other(Kind::Symlink(target), _) => Some(target),
            _ => None,
        }
    }

    fn take(&mut self, member: &Member) -> Result<(), Refusal> {
        let mut path = parts(&member.path);
        if member.kind == Kind::Opaque {
            if let Some(id) = self.parent(&path, false)?
                && let Object::Directory { opaque, .. } = &mut self.objects[id]
            {
                *opaque = true;
            }
            return Ok(());
        }
        let Some(name) = path.pop() else {
            self.describe(0, &member.meta);
            return Ok(());
        };
        if member.kind == Kind::Whiteout {
            if let Some(id) = self.parent(&path, false)? {
                self.slot(id, &name).whiteout = true;
            }
            return Ok(());
        }
        let linked = match &member.kind {
            Kind::HardLink(target) => Some(self.linked(&parts(target))?),
            _ => None,
        };
        let parent = self.parent(&path, true)?.unwrap();
        let existing = self.child(parent, &name);
        let object = match (&member.kind, linked) {
            (_, Some(id)) => id,
            (Kind::Directory, _) => {
                if let Some(id) = existing.filter(|id| self.slots(*id).is_some()) {
                    self.describe(id, &member.meta);
                    return Ok(());
                }
                // What it replaces here had replaced what is below.
                self.add(directory(Some(member.meta.clone()), existing.is_some()))
            }
            (kind, _) => self.add(Object::Other(kind.clone(), member.meta.clone())),
        };
        self.slot(parent, &name).object = Some(object);
        Ok(())
    }

    fn describe(&mut self, id: Id, new: &Meta) {
        if let Object::Directory { meta, .. } = &mut self.objects[id] {
            *meta = Some(new.clone());
        }
    }

    /// The directory that names of this path are put into. Marks do not
    /// replace the files of their own layer.
    fn parent(&mut self, path: &[String], over_files: bool) -> Result<Option<Id>, Refusal> {
        let mut trail = vec![0];
        let mut pending: VecDeque<String> = path.iter().cloned().collect();
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                trail.truncate((trail.len() - 1).max(1));
                continue;
            }
            let at = trail[trail.len() - 1];
            let found = self.child(at, &name);
            if let Some(target) = found.and_then(|id| self.symlink(id)).map(str::to_owned) {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Refusal::Loop);
                }
                if target.starts_with('/') {
                    trail.truncate(1);
                }
                for part in parts(&target).into_iter().rev() {
                    pending.push_front(part);
                }
                continue;
            }
            let id = match found {
                Some(id) if self.slots(id).is_some() => id,
                Some(_) if !over_files => return Ok(None),
                Some(_) => {
                    // A new directory where this layer had a file.
                    let id = self.add(directory(Some(Meta::implied()), true));
                    self.slot(at, &name).object = Some(id);
                    id
                }
                None => {
                    let id = self.add(directory(None, false));
                    self.slot(at, &name).object = Some(id);
                    id
                }
            };
            trail.push(id);
        }
        Ok(trail.last().copied())
    }

    fn linked(&mut self, path: &[String]) -> Result<Id, Refusal> {
        let mut trail: Vec<(String, Id)> = Vec::new();
        let mut pending: VecDeque<String> = path.iter().cloned().collect();
        let mut links = 0;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                trail.pop();
                continue;
            }
            let at = trail.last().map_or(0, |(_, id)| *id);
            let Some(id) = self.child(at, &name) else {
                let names = trail.into_iter().map(|(name, _)| name);
                let rest = names.chain([name]).chain(pending).collect();
                return Ok(self.below(rest));
            };
            match self.symlink(id) {
                Some(target) if !pending.is_empty() => {
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Refusal::Loop);
                    }
                    if target.starts_with('/') {
                        trail.clear();
                    }
                    for part in parts(target).into_iter().rev() {
                        pending.push_front(part);
                    }
                }
                _ => trail.push((name, id)),
            }
        }
        match trail.last() {
            Some((_, id)) if self.slots(*id).is_none() => Ok(*id),
            _ => Err(Refusal::LinkToDirectory),
        }
    }

    /// One object for all links to one path below.
    fn below(&mut self, path: Vec<String>) -> Id {
        let same = |object: &Object| matches!(object, Object::Below(other) if *other == path);
        match self.objects.iter().position(same) {
            Some(id) => id,
            None => self.add(Object::Below(path)),
        }
    }

    /// A directory beside a whiteout of its name is a new one, if anything but
    /// marks is in it.
    fn whiteouts_make_opaque(&mut self) {
        let slots = self.objects.iter().filter_map(|object| match object {
            Object::Directory { slots, .. } => Some(slots),
            _ => None,
        });
        let hidden = slots.flat_map(BTreeMap::values).filter(|slot| slot.whiteout);
        let ids: Vec<Id> =
            hidden.filter_map(|slot| slot.object).filter(|id| !self.is_hollow(*id)).collect();
        for id in ids {
            if let Object::Directory { meta, opaque, .. } = &mut self.objects[id] {
                *opaque = true;
                meta.get_or_insert_with(Meta::implied);
            }
        }
    }

    /// Whether a directory is implied and holds nothing but whiteouts and
    /// directories of the same kind.
    pub fn is_hollow(&self, id: Id) -> bool {
        match &self.objects[id] {
            Object::Directory { meta: None, slots, .. } => {
                slots.values().all(|slot| slot.object.is_none_or(|id| self.is_hollow(id)))
            }
            _ => false,
        }
    }

    /// What a path names in this layer alone, no link followed.
    pub fn at(&self, path: &[String]) -> Option<Id> {
        path.iter().try_fold(0, |at, name| self.child(at, name))
    }
}
