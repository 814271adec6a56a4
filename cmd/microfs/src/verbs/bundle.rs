//! `microfs bundle`

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use microfs::stack::{Stack, StackOptions};
use microfs_fuse::background::{self, BackgroundError};
use microfs_fuse::{Unmount, UnmountError, unmount};
use microfs_oci::runtime::{BundleOptions, bundle_config, resolve_user};

use super::path::find;
use crate::exit::Outcome;
use crate::image;
use crate::options::PlatformArgs;

/// Make a runtime bundle that runc and crun start as it is
///
/// Writes BUNDLE/config.json from the image config and mounts the image,
/// writable, on BUNDLE/rootfs. BUNDLE is made, or is an empty directory.
/// `--remove BUNDLE` takes it down again; a directory that was not made so, or
/// holds anything else, is left alone.
#[derive(Debug, Args)]
pub struct BundleArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG, then the directory to make
    #[arg(num_args = 1..=3, value_name = "OCI-DIR[:TAG] BUNDLE", required_unless_present = "remove")]
    words: Vec<OsString>,
    /// Unmount a bundle and delete it, with the changes made in it
    #[arg(long, value_name = "BUNDLE", conflicts_with = "words")]
    remove: Option<PathBuf>,
    /// Give the process a terminal
    #[arg(long, short)]
    terminal: bool,
    /// Host name in the container
    #[arg(long, value_name = "NAME", default_value = "microfs")]
    hostname: String,
    /// Command in place of the image's
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    platform: PlatformArgs,
}

/// What a bundle consists of. The marker says that this program made it.
const CONFIG: &str = "config.json";
const ROOTFS: &str = "rootfs";
const CHANGES: &str = "changes";
const MARKER: &str = ".microfs-bundle";

/// Bytes of `/etc/passwd` or `/etc/group` that are read.
const FILE_MAX: usize = 1 << 20;

/// Makes or removes a bundle.
pub fn run(args: &BundleArgs) -> anyhow::Result<Outcome> {
    if let Some(bundle) = &args.remove {
        return remove(bundle);
    }
    let (reference, rest) = image::split(&args.words, 1)?;
    let [bundle] = rest else { bail!("a directory for the bundle is missing") };
    let bundle = std::path::absolute(Path::new(bundle))?;
    let platform = args.platform.request();
    let opened = image::open(&reference, &platform, &StackOptions::default())?;
    let options = opened.image.options()?;
    let passwd = file(&opened.stack, "/etc/passwd")?;
    let group = file(&opened.stack, "/etc/group")?;
    let user = resolve_user(options.user.as_deref().unwrap_or(""), &passwd, &group)?;
    let is_root = rustix::process::geteuid().is_root();
    let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let bundle_options = BundleOptions {
        args: args.command.clone(),
        terminal: args.terminal,
        hostname: args.hostname.clone(),
        rootless: (!is_root).then_some(ids),
    };
    let config = bundle_config(&options, &user, &bundle_options);

    make_directory(&bundle)?;
    let rootfs = bundle.join(ROOTFS);
    let write = |name: &str, bytes: &[u8]| {
        let path = bundle.join(name);
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    let made = write(MARKER, opened.image.manifest.digest.to_string().as_bytes())
        .and_then(|()| write(CONFIG, &serde_json::to_vec_pretty(&config)?))
        .and_then(|()| {
            std::fs::create_dir(&rootfs)
                .with_context(|| format!("cannot make {}", rootfs.display()))
        })
        .and_then(|()| mount(args, &bundle, &rootfs));
    if made.is_err() {
        // Best effort: the error is what counts.
        let _ = delete(&bundle);
    }
    made.map(|()| Outcome::Done)
}

/// Makes the directory of a bundle, or takes one that is empty.
fn make_directory(bundle: &Path) -> anyhow::Result<()> {
    match std::fs::create_dir(bundle) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let mut names = std::fs::read_dir(bundle)
                .with_context(|| format!("cannot make {}", bundle.display()))?;
            if names.next().is_some() {
                bail!("{} is there already, and not empty", bundle.display());
            }
            Ok(())
        }
        made => made.with_context(|| format!("cannot make {}", bundle.display())),
    }
}

/// Mounts through the verb `mount`, so that a bundle's mount is like any other.
fn mount(args: &BundleArgs, bundle: &Path, rootfs: &Path) -> anyhow::Result<()> {
    let mut words: Vec<OsString> = vec!["microfs".into(), "mount".into(), "--persist".into()];
    words.push(bundle.join(CHANGES).into());
    if let Some(platform) = &args.platform.platform {
        words.extend(["--platform".into(), platform.to_string().into()]);
    }
    let image = args.words.len().saturating_sub(1);
    words.push("--".into());
    words.extend(args.words.iter().take(image).cloned());
    words.push(rootfs.into());
    match background::spawn(words) {
        Ok(()) => Ok(()),
        Err(BackgroundError::Ended { status }) if status.code().is_some() => {
            bail!("cannot mount {}", rootfs.display())
        }
        Err(error) => Err(error.into()),
    }
}

fn file(stack: &Stack, path: &str) -> anyhow::Result<String> {
    let Ok((node, _)) = find(stack, path.as_ref(), true) else { return Ok(String::new()) };
    let mut bytes = vec![0; FILE_MAX];
    let length = stack.read_at(node, 0, &mut bytes).unwrap_or(0);
    bytes.truncate(length);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn remove(bundle: &Path) -> anyhow::Result<Outcome> {
    let bundle =
        bundle.canonicalize().with_context(|| format!("cannot remove {}", bundle.display()))?;
    let is_ours =
        std::fs::symlink_metadata(bundle.join(MARKER)).is_ok_and(|marker| marker.is_file());
    if !is_ours {
        bail!("{} is not a bundle that microfs made: it has no {MARKER}", bundle.display());
    }
    // Nothing is touched before it is sure that all of it may go.
    let ours = [CONFIG, ROOTFS, CHANGES, MARKER].map(OsStr::new);
    for entry in std::fs::read_dir(&bundle)? {
        let entry = entry?;
        if !ours.contains(&entry.file_name().as_os_str()) {
            bail!("{} is not part of the bundle: move it away first", entry.path().display());
        }
    }
    let rootfs = bundle.join(ROOTFS);
    // A link would have another mount taken down.
    if std::fs::symlink_metadata(&rootfs).is_ok_and(|found| !found.is_dir()) {
        bail!("{} is not a directory, as microfs made it", rootfs.display());
    }
    let foreign = |point: &PathBuf| point.starts_with(&bundle) && *point != rootfs;
    if let Some(point) = mount_points()?.into_iter().find(foreign) {
        bail!("{} is a mount point: unmount it first", point.display());
    }
    match unmount(&rootfs, Unmount::WhenIdle) {
        Ok(()) | Err(UnmountError::NotMounted { .. } | UnmountError::Missing { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    delete(&bundle)?;
    Ok(Outcome::Done)
}

/// Deletes a bundle's own files, and its directory if it is empty then.
fn delete(bundle: &Path) -> anyhow::Result<()> {
    let delete = |name: &str, how: fn(&Path) -> std::io::Result<()>| {
        let path = bundle.join(name);
        match how(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            done => done.with_context(|| format!("cannot delete {}", path.display())),
        }
    };
    delete(ROOTFS, |path| std::fs::remove_dir(path))?;
    delete(CHANGES, |path| std::fs::remove_dir_all(path))?;
    delete(CONFIG, |path| std::fs::remove_file(path))?;
    delete(MARKER, |path| std::fs::remove_file(path))?;
    delete("", |path| std::fs::remove_dir(path))
}

/// All mount points of this mount namespace.
fn mount_points() -> anyhow::Result<Vec<PathBuf>> {
    let table = std::fs::read("/proc/self/mountinfo").context("cannot tell what is mounted")?;
    let lines = table.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    Ok(points.map(unescape).collect())
}

/// proc(5): blank, tab, line feed and backslash are three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = (*first == b'\\').then(|| after.get(..3)).flatten();
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}
