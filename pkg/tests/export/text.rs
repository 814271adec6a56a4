//! A layer as text, and the comparison of two.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use microfs::FileType;
use microfs::format::dentry::DentryKind;
use microfs::format::inode::{Inode, InodeKind};
use microfs::reader::{BlockCache, Image};

/// What a layer itself says of each path.
pub fn layer_text(blob: &[u8]) -> BTreeMap<String, String> {
    let cache = Arc::new(BlockCache::new(1 << 20));
    let image = Image::open(Box::new(blob.to_vec()), 0, cache).unwrap();
    let mut lines = BTreeMap::new();
    directory_text(&image, 0, "", &mut lines);
    lines
}

fn directory_text(image: &Image, index: u32, path: &str, lines: &mut BTreeMap<String, String>) {
    let inode = image.inode(index).unwrap();
    let InodeKind::Directory { opaque, implied, hollow, count, .. } = inode.kind else { panic!() };
    // Nothing can imply a directory without anything in it.
    if hollow && count == 0 && !opaque {
        return;
    }
    let attributes = |inode: &Inode| {
        let (mode, time) = (inode.permissions, inode.mtime);
        let xattrs = image.xattrs(inode).unwrap();
        format!("{mode:o} {} {} {time:?} {xattrs:?}", inode.uid, inode.gid)
    };
    let what = if implied { String::new() } else { attributes(&inode) };
    lines.insert(format!("{path}/"), format!("opaque {opaque} implied {implied} {what}"));
    let mut names = Vec::new();
    let listed = image.list(&inode, 0, &mut |name, found| {
        names.push((String::from_utf8(name.to_vec()).unwrap(), found.dentry));
        Ok(ControlFlow::Continue(()))
    });
    listed.unwrap();
    for (name, dentry) in names {
        let path = format!("{path}/{name}");
        if dentry.kind == DentryKind::File(FileType::Directory) {
            directory_text(image, dentry.inode, &path, lines);
            continue;
        }
        if dentry.kind == DentryKind::Whiteout {
            lines.insert(path, "whiteout".into());
            continue;
        }
        let inode = image.inode(dentry.inode).unwrap();
        let first = String::from_utf8(image.path(dentry.inode).unwrap()).unwrap();
        let what = match inode.kind {
            InodeKind::LinkBelow(_) => {
                format!("below {:?}", String::from_utf8(image.target(&inode).unwrap()))
            }
            InodeKind::Symlink(_) => format!("{} {:?}", attributes(&inode), image.target(&inode)),
            InodeKind::Regular(_) => {
                let mut bytes = vec![0; usize::try_from(inode.size).unwrap()];
                image.read_at(&inode, 0, &mut bytes).unwrap();
                format!("{} {bytes:?} {}", attributes(&inode), inode.hole_bytes)
            }
            other => format!("{} {other:?}", attributes(&inode)),
        };
        lines.insert(path, format!("{first} {} {what}", inode.links));
    }
}

/// Lines that are the same, but for a hard link that its source had before its
/// target: given back, it comes behind it.
#[track_caller]
pub fn assert_same_layer(wanted: &[u8], found: &[u8]) {
    let (wanted, found) = (layer_text(wanted), layer_text(found));
    let late: Vec<&String> = wanted
        .iter()
        .filter(|(path, line)| line.contains(" below ") && !found[*path].contains(" below "))
        .map(|(_, line)| line)
        .collect();
    if late.is_empty() {
        assert_eq!(found, wanted);
    }
    for line in late {
        let target = line.split('"').nth(1).unwrap();
        assert!(wanted.contains_key(&format!("/{target}")), "{line}");
    }
}
