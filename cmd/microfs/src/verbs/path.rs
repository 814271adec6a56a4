//! Paths inside an image.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use anyhow::bail;
use microfs::FileType;
use microfs::stack::{NodeNum, Stack};

use crate::output::printable;

/// Symbolic links that are followed for one path, as Linux does.
const LINKS_MAX: u32 = 40;

/// Finds a path in a stack, symbolic links to directories on the way followed
/// inside the image; the last one only with `follow`. Returns the path with a
/// leading slash.
pub fn find(stack: &Stack, path: &OsStr, follow: bool) -> anyhow::Result<(NodeNum, Vec<u8>)> {
    let mut pending: Vec<Vec<u8>> = parts(path.as_bytes());
    pending.reverse();
    let mut trail: Vec<(NodeNum, Vec<u8>)> = Vec::new();
    let mut links = 0;
    while let Some(name) = pending.pop() {
        let at = trail.last().map_or(NodeNum::ROOT, |(node, _)| *node);
        if name == b".." {
            trail.pop();
            continue;
        }
        if stack.attr(at)?.file_type != FileType::Directory {
            bail!("{:?} in {:?}: not a directory", printable(&name), path);
        }
        let Some(node) = stack.lookup(at, &name)? else {
            bail!("{path:?}: no such file in the image");
        };
        let is_link = stack.attr(node)?.file_type == FileType::Symlink;
        if is_link && (follow || !pending.is_empty()) {
            links += 1;
            if links > LINKS_MAX {
                bail!("{path:?}: too many symbolic links");
            }
            let target = stack.read_link(node)?;
            if target.starts_with(b"/") {
                trail.clear();
            }
            pending.extend(parts(&target).into_iter().rev());
        } else {
            trail.push((node, name));
        }
    }
    let node = trail.last().map_or(NodeNum::ROOT, |(node, _)| *node);
    let mut text = Vec::new();
    for (_, name) in &trail {
        text.push(b'/');
        text.extend_from_slice(name);
    }
    if text.is_empty() {
        text.push(b'/');
    }
    Ok((node, text))
}

fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|byte| *byte == b'/');
    names.filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec).collect()
}
