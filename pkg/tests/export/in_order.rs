//! Layers as an engine unpacks them that takes one member after another:
//! marks remove what is there and does not come from the same layer, a hard
//! link leads to what its target is when it comes.

use std::collections::BTreeSet;

use super::model::member::{Kind, Member};
use super::model::parts;
use super::model::tree::{self, Found, Id, Object, Tree};

/// Unpacks a layer over a tree.
#[track_caller]
pub fn unpack(tree: &mut Tree, members: &[Member]) {
    let mut unpacked: BTreeSet<Vec<String>> = BTreeSet::new();
    for member in members {
        let mut path = parts(&member.path);
        if member.kind == Kind::Opaque {
            let Some(at) = follow(tree, &path, false) else { continue };
            if let Some(id) = tree.at(&at).filter(|id| tree.is_directory(*id)) {
                hide(tree, id, &at, &unpacked);
            }
            continue;
        }
        let Some(name) = path.pop() else {
            tree.objects[0].meta = Some(member.meta.clone());
            continue;
        };
        let link = match &member.kind {
            Kind::HardLink(target) => Some(linked(tree, target)),
            _ => None,
        };
        let is_mark = member.kind == Kind::Whiteout;
        let Some(mut at) = follow(tree, &path, !is_mark) else { continue };
        let parent = tree.at(&at).unwrap();
        at.push(name.clone());
        if is_mark {
            assert!(!unpacked.contains(&at), "a whiteout of what its layer has: {member:?}");
            if tree.is_directory(parent) {
                tree.children_mut(parent).remove(&name);
            }
            continue;
        }
        let existing = tree.child(parent, &name).filter(|id| tree.is_directory(*id));
        let id = match (&member.kind, link, existing) {
            (_, Some(id), _) => id,
            (Kind::Directory, _, Some(id)) => {
                tree.objects[id].meta = Some(member.meta.clone());
                id
            }
            (Kind::Directory, ..) => tree.add(Object::directory(Some(member.meta.clone()))),
            (kind, ..) => {
                let kind = match kind.clone() {
                    Kind::File(bytes) => tree::Kind::File(bytes),
                    Kind::Symlink(target) => tree::Kind::Symlink(target),
                    Kind::Fifo => tree::Kind::Fifo,
                    Kind::Device(major, minor) => tree::Kind::Device(major, minor),
                    other => panic!("{other:?}"),
                };
                tree.add(Object { meta: Some(member.meta.clone()), kind })
            }
        };
        tree.children_mut(parent).insert(name, id);
        unpacked.insert(at);
    }
}

/// Removes what is below a directory and was not unpacked.
fn hide(tree: &mut Tree, id: Id, path: &[String], unpacked: &BTreeSet<Vec<String>>) {
    for (name, child) in tree.children(id).unwrap().clone() {
        let mut path = path.to_vec();
        path.push(name.clone());
        if !unpacked.contains(&path) {
            tree.children_mut(id).remove(&name);
        } else if tree.is_directory(child) {
            hide(tree, child, &path, unpacked);
        }
    }
}

#[track_caller]
fn linked(tree: &Tree, target: &str) -> Id {
    match tree.resolve(&parts(target), false) {
        Found::Object(id, _) if !tree.is_directory(id) => id,
        other => panic!("hard link to {target:?}: {other:?}"),
    }
}

/// The path of a directory without links, made where it is missing if asked
/// to, also over what is none.
fn follow(tree: &mut Tree, path: &[String], make: bool) -> Option<Vec<String>> {
    let mut at: Vec<String> = Vec::new();
    for name in path {
        let above = tree.at(&at)?;
        at.push(name.clone());
        match tree.resolve(&at, true) {
            Found::Object(id, real) if tree.is_directory(id) => at = real,
            _ if make => {
                let id = tree.add(Object::directory(None));
                tree.children_mut(above).insert(name.clone(), id);
            }
            _ => return None,
        }
    }
    Some(at)
}
