//! Where the changes of a writable mount go.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use microfs::stack::{OverlayHazard, Stack};
use microfs_fuse::Writable;
use serde::{Deserialize, Serialize};

use crate::output::printable;

/// What the user asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// Gone with the mount.
    Temporary,
    /// Into this directory, to stay there.
    Upper(PathBuf),
    /// Kept in this directory for the next mount of the same image.
    Persist(PathBuf),
}

/// Says which image the changes of a directory belong to.
#[derive(Debug, Serialize, Deserialize)]
struct Binding {
    /// Digest of the image's manifest.
    manifest: String,
}

const BINDING: &str = "microfs.json";

/// Directories for changes, and what to remove when the mount is gone.
#[derive(Debug)]
pub struct Place {
    /// For the overlay.
    pub dirs: Writable,
    temporary: Option<PathBuf>,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(path) = &self.temporary {
            // Best effort: only changes that were to be lost are in it.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// Makes the directories for changes.
pub fn place(changes: &Changes, manifest: &str) -> anyhow::Result<Place> {
    match changes {
        Changes::Temporary => {
            let base = std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
            let path = make_temporary(&base).with_context(|| {
                format!("cannot make a directory for changes in {}", base.display())
            })?;
            Ok(Place { dirs: both(&path), temporary: Some(path) })
        }
        Changes::Upper(upper) => {
            let name = upper.file_name().context("--upper: not a directory's name")?;
            let mut work = std::ffi::OsString::from(".");
            work.push(name);
            work.push(".work");
            let dirs = Writable { upper: upper.clone(), work: upper.with_file_name(work) };
            Ok(Place { dirs, temporary: None })
        }
        Changes::Persist(path) => {
            std::fs::create_dir_all(path)
                .with_context(|| format!("cannot make {}", path.display()))?;
            bind(path, manifest)?;
            Ok(Place { dirs: both(path), temporary: None })
        }
    }
}

fn both(path: &Path) -> Writable {
    Writable { upper: path.join("upper"), work: path.join("work") }
}

fn make_temporary(base: &Path) -> std::io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    let process = std::process::id();
    let mut number = 0u32;
    loop {
        let path = base.join(format!("microfs-{process}-{number}"));
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                number = number.wrapping_add(1);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Binds a directory to an image, or makes sure that it is bound to this one:
/// changes mean something else over another lower tree.
fn bind(path: &Path, manifest: &str) -> anyhow::Result<()> {
    let file = path.join(BINDING);
    match std::fs::read(&file) {
        Ok(bytes) => {
            let binding: Binding = serde_json::from_slice(&bytes)
                .with_context(|| format!("{} is damaged", file.display()))?;
            if binding.manifest != manifest {
                bail!(
                    "{} holds changes to image {}, not to {manifest}: use another directory",
                    path.display(),
                    binding.manifest,
                );
            }
            Ok(())
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let fresh_name = format!("{BINDING}.new");
            let fresh = path.join(&fresh_name);
            // One that was not finished may be left.
            let others = std::fs::read_dir(path)
                .with_context(|| format!("cannot list {}", path.display()))?
                .filter(|entry| !matches!(entry, Ok(entry) if *entry.file_name() == *fresh_name));
            if others.count() > 0 {
                bail!(
                    "{} is not empty, and its content is not changes to an image: use a new directory",
                    path.display()
                );
            }
            let bytes = serde_json::to_vec(&Binding { manifest: manifest.to_owned() })?;
            std::fs::write(&fresh, bytes)
                .and_then(|()| std::fs::rename(&fresh, &file))
                .with_context(|| format!("cannot write {}", file.display()))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Refuses what an overlay would not show as it is in the image.
pub fn refuse_hazards(stack: &Stack) -> anyhow::Result<()> {
    match stack.overlay_hazard()? {
        None => Ok(()),
        Some(OverlayHazard::Whiteout(path)) => bail!(
            "{:?} is a character device 0:0, which overlayfs takes for a whiteout: this image cannot be mounted writable",
            printable(&path),
        ),
        Some(OverlayHazard::Xattr(name)) => bail!(
            "extended attribute {:?} in the image would be obeyed by overlayfs: this image cannot be mounted writable",
            printable(&name),
        ),
    }
}
