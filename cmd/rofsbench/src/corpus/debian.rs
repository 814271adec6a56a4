//! A root filesystem of Debian, or one that the user has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::fs::XattrFlags;

use super::cached;
use super::manifest::{Manifest, strip};
use crate::child;
use crate::cli::Options;

/// Long enough for a slow mirror.
const PATIENCE: Duration = Duration::from_secs(3600);

/// `cap_net_raw` permitted and effective, as linux/capability.h lays it out:
/// revision 2 with the effective flag, two words each permitted and inheritable.
const CAPABILITY: [u8; 20] = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// The tree of `--rootfs`, or a Debian one made by testdata/rootfs.sh, of which
/// all extended attributes are removed.
pub fn plain(options: &Options) -> Result<PathBuf> {
    if let Some(rootfs) = &options.rootfs {
        let tree =
            fs::canonicalize(rootfs).with_context(|| format!("--rootfs {}", rootfs.display()))?;
        if !tree.is_dir() {
            bail!("--rootfs {}: no directory", tree.display());
        }
        return Ok(tree);
    }
    let suite = options.suite.as_deref().unwrap_or("");
    let packages = options.packages.join(",");
    let key = format!("debian-{}", short(&format!("{suite} {packages}")));
    cached(&options.work, &key, |root| make(root, suite, &packages, options))
}

/// A copy of the plain tree where one program has a capability and nothing else
/// has extended attributes.
pub fn with_capability(options: &Options) -> Result<PathBuf> {
    let plain = plain(options)?;
    // Another tree of the same name makes another copy.
    let stamp = fs::metadata(&plain).and_then(|metadata| metadata.modified())?;
    let key = format!("debian-cap-{}", short(&format!("{} {stamp:?}", plain.display())));
    cached(&options.work, &key, |root| {
        let log = options.work.join("corpora").join("copy.log");
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--sparse=always", "--"]).arg(plain.join(".")).arg(root);
        child::run(&mut copy, &log, PATIENCE)?;
        strip(root, &Manifest::of(root)?)?;
        let program = ["usr/bin/ping", "bin/ping", "usr/bin/env", "bin/sh"]
            .into_iter()
            .find_map(|path| {
                fs::canonicalize(root.join(path)).ok().filter(|at| at.starts_with(root))
            })
            .context("no program in it that could have a capability")?;
        rustix::fs::setxattr(&program, "security.capability", &CAPABILITY, XattrFlags::empty())
            .with_context(|| format!("cannot give {} a capability", program.display()))
    })
}

fn make(root: &Path, suite: &str, packages: &str, options: &Options) -> Result<()> {
    // The functions of the script unpack into a folder that they make.
    let script = "set -euo pipefail\nsource \"$1\"\nmake_rootfs_archive\nunpack_rootfs \"$2\"\n\
                  rm \"$archive\"\n";
    let folder = options.work.join("corpora").join("debian.unfinished");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir(&folder)?;
    let mut command = Command::new("bash");
    command.args(["-c", script, "bash"]).arg(&options.rootfs_script).arg(&folder);
    command.env("DEMO_DIR", &folder).env("DEMO_PACKAGES", packages).env("DEMO_SUITE", suite);
    command.env_remove("ROOTFS");
    if let Some(mirror) = &options.mirror {
        command.env("DEMO_MIRROR", mirror);
    }
    child::run(&mut command, &options.work.join("corpora").join("debian.log"), PATIENCE)?;
    fs::remove_dir(root)?;
    fs::rename(folder.join("rootfs"), root)?;
    fs::remove_dir(&folder)?;
    strip(root, &Manifest::of(root)?)
}

fn short(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().chars().take(12).collect()
}
