//! Layers as a container engine unpacks them: whiteouts first, since they
//! mean the layers below, then every member in order into the one tree.

use std::collections::{BTreeMap, BTreeSet};

use super::changeset::other;
use super::member::{Kind, Member};
use super::parts;
use super::tree::{self, Found, Id, Object, Tree};

/// The archive is none that engines agree about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Odd;

/// Unpacks a layer over a tree.
pub fn unpack(tree: &mut Tree, members: &[Member]) -> Result<(), Odd> {
    refuse_odd(members)?;
    let before = tree.clone();
    let mut claims = Claims::default();
    for member in members {
        let path = parts(&member.path);
        if member.kind != Kind::Directory {
            claims.marked.insert(member.path.clone());
        }
        claims.written.extend((1..=path.len()).map(|length| path[..length].join("/")));
        hide(tree, member)?;
    }
    for member in members.iter().filter(|m| !matches!(m.kind, Kind::Whiteout | Kind::Opaque)) {
        let mut path = parts(&member.path);
        let Some(name) = path.pop() else {
            tree.objects[0].meta = Some(member.meta.clone());
            continue;
        };
        let link = match &member.kind {
            Kind::HardLink(target) => {
                let target = parts(target);
                let id = linked(&before, tree, &target)?;
                // A layer alone does not know that two paths are one.
                if id >= before.objects.len() && !claims.written.contains(&target.join("/")) {
                    return Err(Odd);
                }
                Some(id)
            }
            _ => None,
        };
        let at = parent(&before, &mut claims, tree, &path)?;
        claims.claim(&at, &name, &member.path)?;
        let parent = tree.at(&at).ok_or(Odd)?;
        let existing = tree.child(parent, &name).filter(|id| tree.is_directory(*id));
        let id = match (&member.kind, link, existing) {
            (_, Some(id), _) => id,
            (Kind::Directory, _, Some(id)) => {
                tree.objects[id].meta = Some(member.meta.clone());
                id
            }
            (Kind::Directory, ..) => tree.add(Object::directory(Some(member.meta.clone()))),
            (kind, ..) => tree.add(other(kind, &member.meta)),
        };
        tree.children_mut(parent).insert(name, id);
    }
    Ok(())
}

/// Odd is a layer that says two things of one path, or has names below
/// something that it says is no directory.
fn refuse_odd(members: &[Member]) -> Result<(), Odd> {
    let objects = members.iter().filter(|m| !matches!(m.kind, Kind::Whiteout | Kind::Opaque));
    let mut seen = BTreeSet::new();
    if !objects.clone().all(|member| seen.insert(member.path.clone())) {
        return Err(Odd);
    }
    let solid = objects.filter(|member| member.kind != Kind::Directory);
    let solid: Vec<String> = solid.map(|member| format!("{}/", member.path)).collect();
    // A directory comes before what is in it.
    let mut seen: Vec<String> = Vec::new();
    for member in members {
        let inside = format!("{}/", member.path);
        if member.kind == Kind::Directory && seen.iter().any(|path| path.starts_with(&inside)) {
            return Err(Odd);
        }
        seen.push(member.path.clone());
    }
    let below = |path: &str| solid.iter().any(|solid| path.starts_with(solid.as_str()));
    let is_odd = |member: &Member| match &member.kind {
        Kind::HardLink(target) => below(&parts(target).join("/")) || below(&member.path),
        // Of the directory itself, too.
        Kind::Opaque => below(&format!("{}/", member.path)),
        _ => below(&member.path),
    };
    if members.iter().any(is_odd) { Err(Odd) } else { Ok(()) }
}

/// What the layer says anything about.
#[derive(Debug, Default)]
struct Claims {
    /// Paths as they stand in the archive, with those above them.
    written: BTreeSet<String>,
    /// Those of marks, and of what cannot have anything below it.
    marked: BTreeSet<String>,
    /// Paths without links, with those that led there.
    real: BTreeMap<String, String>,
}

impl Claims {
    /// Odd is a second path to one place, or one below such a path.
    fn claim(&mut self, directory: &[String], name: &str, path: &str) -> Result<(), Odd> {
        let real = directory.iter().map(String::as_str).chain([name]).collect::<Vec<_>>().join("/");
        let is_marked = (0..=directory.len())
            .any(|length| self.marked.contains(&directory[..length].join("/")));
        if real != path && (is_marked || self.written.contains(&real)) {
            return Err(Odd);
        }
        let known = self.real.entry(real).or_insert_with(|| path.to_owned());
        if known != path { Err(Odd) } else { Ok(()) }
    }
}

/// Applies a whiteout or opaque mark to the layers below.
fn hide(tree: &mut Tree, member: &Member) -> Result<(), Odd> {
    let path = parts(&member.path);
    let directory = match (&member.kind, path.split_last()) {
        (Kind::Opaque, _) => path.as_slice(),
        (Kind::Whiteout, Some((_, parent))) => parent,
        _ => return Ok(()),
    };
    for length in 1..=directory.len() {
        let Some(id) = tree.at(&directory[..length]) else { return Ok(()) };
        match tree.objects[id].kind {
            // Engines differ about following it.
            tree::Kind::Symlink(_) => return Err(Odd),
            tree::Kind::Directory(_) => {}
            _ => return Ok(()),
        }
    }
    let Some(id) = tree.at(directory) else { return Ok(()) };
    match path.last() {
        Some(name) if member.kind == Kind::Whiteout => {
            tree.children_mut(id).remove(name);
        }
        _ => tree.children_mut(id).clear(),
    }
    Ok(())
}

/// The target is there already, or hidden by this layer.
fn linked(before: &Tree, now: &Tree, path: &[String]) -> Result<Id, Odd> {
    let found = [now.resolve(path, false), before.resolve(path, false)];
    let ids = found.into_iter().filter_map(|found| match found {
        Found::Object(id, _) if !now.is_directory(id) => Some(id),
        _ => None,
    });
    ids.into_iter().next().ok_or(Odd)
}

/// The directory of a path without links, made where it is missing. A link on the way must
/// lead where it led before the layer.
fn parent(
    before: &Tree,
    claims: &mut Claims,
    tree: &mut Tree,
    path: &[String],
) -> Result<Vec<String>, Odd> {
    let mut at = Vec::new();
    for (number, name) in path.iter().enumerate() {
        claims.claim(&at, name, &path[..=number].join("/"))?;
        let above = tree.at(&at).ok_or(Odd)?;
        at.push(name.clone());
        let kind = tree.child(above, name).map(|id| &tree.objects[id].kind);
        at = match (kind, tree.resolve(&at, true)) {
            (Some(tree::Kind::Directory(_)), _) => at,
            (Some(tree::Kind::Symlink(_)), Found::Object(id, real))
                if tree.is_directory(id)
                    && before.resolve(&at, true) == tree.resolve(&at, true) =>
            {
                real
            }
            // Whether a link to nothing is kept is a choice.
            (Some(tree::Kind::Symlink(_)), _) => return Err(Odd),
            _ => {
                let id = tree.add(Object::directory(None));
                tree.children_mut(above).insert(name.clone(), id);
                at
            }
        };
    }
    Ok(at)
}
