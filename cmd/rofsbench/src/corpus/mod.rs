//! The trees that are read.

mod debian;
mod generated;
pub mod manifest;
pub mod scale;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cli::Options;
use manifest::Manifest;

/// Kinds of trees, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Pseudo-random files, as linux-microfs' rofsbench made them
    Random,
    /// A Debian root filesystem, or that of --rootfs
    Debian,
    /// The same where one file has a capability; metadata only
    DebianCap,
    /// Large files that do not compress
    Media,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Random, Self::Debian, Self::DebianCap, Self::Media];

    /// As in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Debian => "debian",
            Self::DebianCap => "debian-cap",
            Self::Media => "media",
        }
    }
}

/// A tree with what is in it.
pub struct Corpus {
    /// Which.
    pub kind: Kind,
    /// Where.
    pub tree: PathBuf,
    /// What.
    pub manifest: Manifest,
}

impl Corpus {
    /// Makes the tree unless it is there already, and reads all of it.
    pub fn get(kind: Kind, options: &Options) -> Result<Self> {
        let tree = match kind {
            Kind::Random => generated::random(options)?,
            Kind::Media => generated::media(options)?,
            Kind::Debian => debian::plain(options)?,
            Kind::DebianCap => debian::with_capability(options)?,
        };
        let manifest = Manifest::of(&tree)?;
        if manifest.files().next().is_none() {
            bail!("{}: no file of at least one byte is in it", tree.display());
        }
        Ok(Self { kind, tree, manifest })
    }
}

/// The tree of this key below `work`, made by `make` the first time. What a
/// failed or interrupted attempt left behind is made anew.
fn cached(work: &Path, key: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = work.join("corpora");
    let tree = folder.join(key);
    if tree.is_dir() {
        return Ok(tree);
    }
    let unfinished = folder.join(format!("{key}.unfinished"));
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    fs::create_dir_all(&unfinished)
        .with_context(|| format!("cannot create {}", unfinished.display()))?;
    eprintln!("rofsbench: making corpus {key}");
    make(&unfinished)?;
    fs::rename(&unfinished, &tree)?;
    Ok(tree)
}
