//! Extracting, compared with lstat and the bytes on disk.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use microfs::extract::{ExtractError, ExtractOptions, ExtractReport, Silent, extract};
use microfs::stack::Stack;
use microfs::tree::{Metadata, Timestamp};
use tempfile::TempDir;

use support::{Builder, metadata, plain_options, pool, stack};

mod attributes;
mod content;
#[path = "../support/mod.rs"]
mod support;
mod target;
mod tree;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn run(stack: &Stack, target: &Path, options: ExtractOptions) -> ExtractReport {
    extract(stack, target, &options, &pool(3), &Silent).unwrap()
}

fn fail(stack: &Stack, target: &Path, options: ExtractOptions) -> ExtractError {
    extract(stack, target, &options, &pool(1), &Silent).unwrap_err()
}

/// Metadata that anybody may give to a file.
fn mine(permissions: u16, seconds: i64, nanoseconds: u32) -> Metadata {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    metadata(permissions, uid.as_raw(), gid.as_raw(), seconds, nanoseconds)
}

fn root() -> Builder {
    Builder::new(mine(0o755, 1, 2))
}

fn built(builder: Builder) -> Stack {
    stack(vec![builder.build(&plain_options())])
}

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("target");
    (directory, target)
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 65_536];
    let length = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    let names = names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 65_536];
        let length = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(length);
        value
    };
    names.map(|name| (name.to_vec(), value(name))).collect()
}

#[track_caller]
fn assert_metadata(path: &Path, wanted: Metadata) {
    let found = fs::symlink_metadata(path).unwrap();
    if !found.is_symlink() {
        let mode = found.mode() & 0o7777;
        assert_eq!(mode, u32::from(wanted.permissions), "mode {mode:o} of {path:?}");
    }
    assert_eq!((found.uid(), found.gid()), (wanted.uid, wanted.gid), "owner of {path:?}");
    let Timestamp { seconds, nanoseconds } = wanted.mtime;
    let time = (found.mtime(), found.mtime_nsec());
    assert_eq!(time, (seconds, i64::from(nanoseconds)), "time of {path:?}");
}
