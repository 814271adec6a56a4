//! What is ready to be measured: a tree, its images, and proof that every mount
//! of them shows exactly that tree.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::cli::Options;
use crate::corpus::manifest::{Content, Manifest};
use crate::corpus::{Corpus, Kind as CorpusKind};
use crate::results::{CorpusInfo, ImageInfo};
use crate::system::image::{self, Image, Shelf};
use crate::system::mount::Mounted;
use crate::system::{Builder, System};
use crate::workload::command::Bench;
use crate::workload::plan::Plan;
use crate::workload::{Group, Kind, Workload, list};

/// A tree with an image for each system.
pub struct Stage {
    pub corpus: Corpus,
    /// In the order of the systems; none for one that cannot be measured.
    pub images: Vec<Option<PathBuf>>,
    /// What is read.
    pub plan: Plan,
}

impl Stage {
    /// Whether this tree is there for a workload.
    pub fn is_for(&self, workload: &Workload) -> bool {
        match self.corpus.kind {
            _ if workload.kind == Kind::Mounting => false,
            CorpusKind::DebianCap => list::WITH_CAPABILITY.contains(&workload.name),
            CorpusKind::Media => matches!(workload.group, Group::Reading | Group::Access),
            CorpusKind::Random | CorpusKind::Debian => true,
        }
    }

    /// Why a workload cannot be done on this tree, if so.
    pub fn obstacle(&self, workload: &Workload, bench: &Bench) -> Option<String> {
        match workload.kind {
            Kind::Sparse if self.plan.sparse.is_empty() => Some("no small files".to_owned()),
            Kind::Command(tool) => bench.obstacle(tool, &self.corpus.manifest),
            _ => None,
        }
    }

    /// What the results say of the tree.
    pub fn info(&self) -> CorpusInfo {
        let manifest = &self.corpus.manifest;
        let count = |is: fn(&Content) -> bool| {
            manifest.entries.iter().filter(|entry| is(&entry.content)).count() as u64
        };
        let files = count(|content| matches!(content, Content::File(..)));
        let directories = count(|content| *content == Content::Directory);
        CorpusInfo {
            name: self.corpus.kind.name().to_owned(),
            files,
            directories,
            others: (manifest.entries.len() as u64).saturating_sub(files + directories),
            bytes: self.plan.bytes,
            largest: self.plan.files.get(self.plan.largest).map_or(0, |file| file.size),
            with_xattrs: manifest.entries.iter().filter(|entry| !entry.xattrs.is_empty()).count()
                as u64,
            digest: manifest.digest().to_string(),
        }
    }
}

/// Images of one content, made once for each builder whatever the number of
/// systems that use it.
pub struct Images<'a> {
    shelf: Shelf<'a>,
    made: Vec<(Builder, Result<Image, String>)>,
}

impl<'a> Images<'a> {
    /// None yet.
    pub fn new(options: &'a Options, corpus: &'a str, content: blake3::Hash) -> Self {
        Self { shelf: Shelf { options, corpus, content }, made: Vec::new() }
    }

    /// The image of a builder, made by `make` in a fresh folder if need be. A
    /// failure is remembered, and is its text.
    pub fn get(
        &mut self,
        builder: &Builder,
        make: impl FnOnce(&Path, &Path) -> Result<Image>,
    ) -> Result<PathBuf, String> {
        if let Some((_, made)) = self.made.iter().find(|(known, _)| known == builder) {
            return made.as_ref().map(|image| image.path.clone()).map_err(Clone::clone);
        }
        let made = self.shelf.get(builder, make).map_err(|error| format!("{error:#}"));
        self.made.push((builder.clone(), made.clone()));
        made.map(|image| image.path)
    }

    /// The image of a whole tree.
    pub fn of_tree(&mut self, builder: &Builder, tree: &Path) -> Result<PathBuf, String> {
        let options = self.shelf.options;
        self.get(builder, |folder, log| image::build(builder, options, tree, folder, log))
    }

    /// What the results say of them.
    pub fn infos(&self) -> Vec<ImageInfo> {
        let info = |(builder, image): &(Builder, Result<Image, String>)| {
            let image = image.as_ref().ok()?;
            Some(ImageInfo {
                corpus: self.shelf.corpus.to_owned(),
                format: builder.format.name().to_owned(),
                builder: builder.version.clone(),
                bytes: image.bytes,
                build_seconds: image.build_seconds,
                command: image.command.clone(),
            })
        };
        self.made.iter().filter_map(info).collect()
    }
}

/// Mounts an image and reads all of it: what it shows must be the tree. Returns
/// paths whose extended attributes are others, which some formats cannot help.
pub fn verify(
    system: &System,
    image: &Path,
    at: &Path,
    log: &Path,
    manifest: &Manifest,
) -> Result<Vec<String>> {
    let mounted = Mounted::new(system, image, at, log)?;
    let found = Manifest::of(at)?;
    let differences = manifest.differences(&found);
    mounted.unmount()?;
    if !differences.is_empty() {
        bail!("the mount is not the source: {}", differences.join("; "));
    }
    Ok(manifest.other_xattrs(&found))
}

/// A folder that is removed in the end.
pub struct Temporary(pub PathBuf);

impl Temporary {
    /// An empty one; what an earlier run left there is removed.
    pub fn new(path: PathBuf) -> Result<Self> {
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
