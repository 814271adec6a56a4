//! Images, made once for each content and builder.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{Builder, Format};
use crate::child;
use crate::cli::Options;

/// Long enough for a million files.
const PATIENCE: Duration = Duration::from_secs(3600);

/// An image that is there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Image {
    /// What a mount command is given: a file, or the folder of an OCI layout
    /// with the tag `bench`.
    pub path: PathBuf,
    /// Bytes of all its files.
    pub bytes: u64,
    /// How long the build took, unless another build did most of the work.
    pub build_seconds: f64,
    /// The command, in words.
    pub command: String,
}

/// Where images of a corpus are, and what decides whether one can be used again.
pub struct Shelf<'a> {
    pub options: &'a Options,
    /// Name of the corpus.
    pub corpus: &'a str,
    /// Digest of its content.
    pub content: blake3::Hash,
}

impl Shelf<'_> {
    /// The image of this builder, made by `make` in a fresh folder unless it is
    /// there; one of other content or of other options makes room for it.
    pub fn get(
        &self,
        builder: &Builder,
        make: impl FnOnce(&Path, &Path) -> Result<Image>,
    ) -> Result<Image> {
        let images = self.options.work.join("images");
        let program = fs::read(&builder.program)
            .with_context(|| format!("cannot read {}", builder.program.display()))?;
        let key = format!(
            "{} {} {} {} {}",
            self.content,
            builder.format.name(),
            blake3::hash(&program),
            self.options.block_size,
            self.options.level
        );
        let key: String = blake3::hash(key.as_bytes()).to_hex().chars().take(16).collect();
        // Two versions of one program may be measured at once.
        let name = blake3::hash(builder.program.as_os_str().as_encoded_bytes()).to_hex();
        let name: String = name.chars().take(6).collect();
        let prefix = format!("{}.{}.{name}.", self.corpus, builder.format.name());
        let folder = images.join(format!("{prefix}{key}"));
        let record = folder.join("image.json");
        if let Ok(text) = fs::read(&record) {
            return Ok(serde_json::from_slice(&text)?);
        }
        if images.is_dir() {
            for entry in fs::read_dir(&images)? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with(&prefix) {
                    fs::remove_dir_all(entry.path())?;
                }
            }
        }
        fs::create_dir_all(&folder)?;
        let log = images.join("build.log");
        eprintln!("rofsbench: building {} of {}", builder.format.name(), self.corpus);
        let image = make(&folder, &log)?;
        serde_json::to_writer_pretty(File::create(&record)?, &image)?;
        Ok(image)
    }
}

/// Builds a tree into an image in `folder`.
pub fn build(
    builder: &Builder,
    options: &Options,
    tree: &Path,
    folder: &Path,
    log: &Path,
) -> Result<Image> {
    let path = folder.join("image");
    let mut command = command(builder, options, tree, &path, None);
    let build_seconds = child::run(&mut command, log, PATIENCE)?.as_secs_f64();
    Ok(Image { bytes: bytes(&path)?, build_seconds, command: words(&command), path })
}

/// Adds what a tree has more than the image's present state as one more layer;
/// only for microfs.
pub fn add_layer(
    builder: &Builder,
    options: &Options,
    tree: &Path,
    path: &Path,
    log: &Path,
) -> Result<Duration> {
    let mut command = command(builder, options, tree, path, Some("bench"));
    child::run(&mut command, log, PATIENCE)
}

/// The same codec, level and block size for all that have them.
fn command(
    builder: &Builder,
    options: &Options,
    tree: &Path,
    image: &Path,
    base: Option<&str>,
) -> Command {
    let (block, level) = (options.block_size.to_string(), options.level);
    let mut command = Command::new(&builder.program);
    match builder.format {
        Format::Microfs => {
            command.args(["build", "-q", "-b", &block, "-c", &format!("zstd:{level}")]);
            command.args(base.iter().flat_map(|base| ["--base", base]));
            command.arg(tree).arg(image).arg("bench");
        }
        Format::Squashfs => {
            command.arg(tree).arg(image).args(["-noappend", "-no-progress", "-comp", "zstd"]);
            command.args(["-Xcompression-level", &level.to_string(), "-b", &block]);
        }
        // Physical clusters of up to the block size. The codec has levels of its own; 9 is the default.
        Format::ErofsLz4 => {
            command.arg("-zlz4hc,9").arg(format!("-C{block}")).arg(image).arg(tree);
        }
        Format::ErofsZstd => {
            command.arg(format!("-zzstd,{level}")).arg(format!("-C{block}")).arg(image).arg(tree);
        }
        Format::Puzzlefs => {
            command.args(["build", "-c"]).arg(tree).arg(image).arg("bench");
        }
    }
    command
}

/// A command as text, without the folders.
fn words(command: &Command) -> String {
    let last = |word: &std::ffi::OsStr| {
        let name = Path::new(word).file_name().unwrap_or(word);
        name.to_string_lossy().into_owned()
    };
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(last)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Bytes of a file or of all files below a folder.
pub fn bytes(path: &Path) -> Result<u64> {
    let metadata = fs::symlink_metadata(path)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    fs::read_dir(path)?.try_fold(0, |sum, entry| Ok(sum + bytes(&entry?.path())?))
}

/// Reads an image into the page cache.
pub fn warm(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        return fs::read_dir(path)?.try_for_each(|entry| warm(&entry?.path()));
    }
    std::io::copy(&mut File::open(path)?, &mut std::io::sink())?;
    Ok(())
}
