//! `microfs export`

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use clap::Args;
use microfs::export::{ExportError, ExportOptions, Exported, write_layer, write_tree};
use microfs::stack::StackOptions;
use microfs_oci::{
    HistoryChange, Image, ImageLayer, ImageSpec, NewLayer, Reference, Selector, Session,
    TarCompression, TarLayerWriter,
};
use rayon::ThreadPool;
use rayon::prelude::*;
use serde::Serialize;

use crate::exit::{Outcome, UsageError};
use crate::image::{self, Opened};
use crate::options::{PlatformArgs, ThreadArgs};
use crate::output;
use crate::progress::Bar;

mod archive;

/// Give an image back as ordinary tar layers
///
/// Writes an OCI layout that docker, podman, skopeo and umoci take: one tar
/// layer for each layer of the image, and its config. The tag is the image's
/// unless another is given. `export IMAGE -` and `--tar FILE` write the merged
/// tree as one archive instead.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG, then the same for the new image; or - for
    /// one archive on standard output
    #[arg(required = true, num_args = 1..=4, value_names = ["OCI-DIR[:TAG]", "DEST-OCI-DIR[:TAG]"])]
    words: Vec<OsString>,
    /// Write the merged tree as one archive into this file
    #[arg(long, value_name = "FILE")]
    tar: Option<PathBuf>,
    /// Merge all layers into one
    #[arg(long)]
    squash: bool,
    /// none, gzip, gzip:LEVEL (1 to 9), zstd or zstd:LEVEL (1 to 22) [default:
    /// gzip, which every engine and registry takes; none for one archive]
    #[arg(long, short, value_name = "CODEC", value_parser = compression)]
    compression: Option<TarCompression>,
    /// Leave sockets out, which tar does not have; else they are an error
    #[arg(long)]
    skip_sockets: bool,
    #[command(flatten)]
    threads: ThreadArgs,
    #[command(flatten)]
    platform: PlatformArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

/// Level 6 is zlib's own choice, 3 that of zstd.
const GZIP: TarCompression = TarCompression::Gzip(6);
const ZSTD: TarCompression = TarCompression::Zstd(3);

fn compression(text: &str) -> Result<TarCompression, String> {
    let (codec, level) = match text.split_once(':') {
        Some((codec, level)) => (codec, Some(level.parse::<u32>().ok())),
        None => (text, None),
    };
    let chosen = match (codec, level) {
        ("none", None) => Some(TarCompression::None),
        ("gzip", None) => Some(GZIP),
        ("zstd", None) => Some(ZSTD),
        ("gzip", Some(level)) => {
            level.filter(|level| (1..=9).contains(level)).map(TarCompression::Gzip)
        }
        ("zstd", Some(level)) => {
            let level = level.filter(|level| (1..=22).contains(level));
            level.and_then(|level| i32::try_from(level).ok()).map(TarCompression::Zstd)
        }
        _ => None,
    };
    let usage = "must be none, gzip, gzip:LEVEL (1 to 9), zstd or zstd:LEVEL (1 to 22)";
    chosen.ok_or_else(|| usage.to_owned())
}

/// Where the export goes.
enum Destination<'a> {
    Layout(&'a [OsString]),
    Archive(archive::Target<'a>),
}

/// Splits the words into the image and where it goes. Of three words the
/// second belongs to the image when the first names none by itself.
fn split(args: &ExportArgs) -> anyhow::Result<(Reference, Destination<'_>)> {
    if let Some(file) = &args.tar {
        let (reference, _) = image::split(&args.words, 0)?;
        return Ok((reference, Destination::Archive(archive::Target::of(file))));
    }
    let count = match args.words.as_slice() {
        [_, _] => 1,
        [layout, _, _] if Reference::parse(layout)?.selector != Selector::Only => 1,
        [_, _, _] | [_, _, _, _] => 2,
        _ => {
            return Err(UsageError::of("a destination is missing: DEST-OCI-DIR[:TAG] or -").into());
        }
    };
    let (image, rest) = args.words.split_at(count);
    let (reference, _) = image::split(image, 0)?;
    let destination = match rest {
        [word] if word == "-" => Destination::Archive(archive::Target::Stdout),
        [word, _] if word == "-" => {
            return Err(UsageError::of("an archive on standard output has no tag").into());
        }
        words => Destination::Layout(words),
    };
    Ok((reference, destination))
}

/// Exports an image and tags it, or writes an archive.
pub fn run(args: &ExportArgs) -> anyhow::Result<Outcome> {
    let (reference, destination) = split(args)?;
    match destination {
        Destination::Layout(words) => to_layout(args, &reference, words),
        Destination::Archive(target) => archive::run(args, &reference, &target),
    }
}

#[derive(Debug, Serialize)]
struct Report {
    layout: String,
    tag: String,
    manifest: String,
    layers: Vec<LayerReport>,
    #[serde(flatten)]
    sockets: Sockets,
}

#[derive(Debug, Serialize)]
struct LayerReport {
    /// The layer it was; none for a merged one.
    source: Option<String>,
    layer: String,
    diff_id: String,
    tar_bytes: u64,
    bytes: u64,
}

/// Sockets that were left out.
#[derive(Debug, Default, Serialize)]
struct Sockets {
    skipped_sockets: u64,
    first_skipped_sockets: Vec<String>,
}

impl Sockets {
    fn add(&mut self, exported: &Exported) {
        self.skipped_sockets = self.skipped_sockets.saturating_add(exported.sockets);
        let names = exported.first_sockets.iter().map(|path| output::printable(path));
        self.first_skipped_sockets.extend(names);
        self.first_skipped_sockets.truncate(microfs::export::SOCKETS_LISTED);
    }

    fn print(&self) -> anyhow::Result<()> {
        for path in &self.first_skipped_sockets {
            output::remark(format_args!("left out {path:?}: it is a socket"))?;
        }
        let listed = u64::try_from(self.first_skipped_sockets.len()).unwrap_or(u64::MAX);
        match self.skipped_sockets.saturating_sub(listed) {
            0 => Ok(()),
            more => output::remark(format_args!("left out {more} more sockets")),
        }
    }
}

/// What the library cannot know: the option that helps.
fn advised(error: ExportError) -> anyhow::Error {
    let advice = match error {
        ExportError::Socket { .. } => "; --skip-sockets leaves sockets out",
        _ => return error.into(),
    };
    anyhow::anyhow!("{error}{advice}")
}

fn options(args: &ExportArgs) -> ExportOptions {
    ExportOptions { skip_sockets: args.skip_sockets }
}

fn to_layout(
    args: &ExportArgs,
    reference: &Reference,
    words: &[OsString],
) -> anyhow::Result<Outcome> {
    let to = match words {
        [layout, tag] => Reference::from_parts(layout, tag)?,
        [image] => Reference::parse_new(image)?,
        _ => bail!("an image is named OCI-DIR TAG or OCI-DIR:TAG"),
    };
    let opened = image::open(reference, &args.platform.request(), &StackOptions::default())?;
    let to = match (&to.selector, opened.image.tag()) {
        (Selector::Only, Some(tag)) => Reference { selector: Selector::Tag(tag.to_owned()), ..to },
        _ => to,
    };
    let tag = to.tag_to_write()?;
    let session = image::writing("export", Session::in_new(&to.layout))?;
    let layout = session.layout();
    if opened.image.tag() == Some(tag) && image::is_same(layout.path(), opened.layout.path())? {
        bail!("{} is the image itself: give the export another tag", image::reference_text(&to));
    }
    let bar = Bar::bytes("exporting", total(&opened), args.quiet || args.json);
    let work = Work { args, opened: &opened, session: &session, bar: &bar };
    let done = if args.squash { work.merged() } else { work.all_layers(&*args.threads.pool()?) };
    bar.finish();
    let done = done?;
    let spec = ImageSpec {
        layers: done.iter().map(|done| done.layer.clone()).collect(),
        source_config: Some(opened.image.config_json.clone()),
        annotations: annotations(&opened.image),
        history: history(&opened.image, args.squash)?,
        ..ImageSpec::default()
    };
    let assembled = session.assemble(&spec)?;
    session.publish(tag, &assembled.manifest)?;
    let mut sockets = Sockets::default();
    done.iter().for_each(|done| sockets.add(&done.exported));
    let report = Report {
        layout: layout.path().display().to_string(),
        tag: tag.to_owned(),
        manifest: assembled.manifest.digest.to_string(),
        layers: done.iter().map(layer_report).collect(),
        sockets,
    };
    print(args, &report)?;
    Ok(Outcome::Done)
}

/// Bytes of content of all layers: what is hidden is exported, too.
fn total(opened: &Opened) -> u64 {
    opened.stack.totals().plain_bytes
}

/// Annotations of the manifest without those that tell of microfs layers.
fn annotations(image: &Image) -> BTreeMap<String, String> {
    let is_ours = |key: &str| {
        key.starts_with("dev.microfs.") || key.starts_with("containerd.io/snapshot/microfs-")
    };
    let annotations = image.annotations.iter().filter(|(key, _)| !is_ours(key));
    annotations.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The history is kept where it has an entry for each layer, or where there is
/// none at all.
fn history(image: &Image, squash: bool) -> anyhow::Result<HistoryChange> {
    let fits = image.history_layers()?.is_none_or(|layers| layers == image.layers.len());
    if fits && !squash {
        return Ok(HistoryChange::Keep);
    }
    let count = if squash { 1 } else { image.layers.len() };
    let created_by = if squash { "microfs export --squash" } else { "microfs export" };
    Ok(HistoryChange::Replace(vec![image::history_entry(image, created_by)?; count]))
}

/// An exported layer.
struct Done {
    source: Option<String>,
    layer: NewLayer,
    exported: Exported,
}

struct Work<'a> {
    args: &'a ExportArgs,
    opened: &'a Opened,
    session: &'a Session,
    bar: &'a Bar,
}

impl Work<'_> {
    fn sink(&self) -> anyhow::Result<TarLayerWriter> {
        Ok(self.session.tar_layer(self.args.compression.unwrap_or(GZIP))?)
    }

    /// The merged tree as the only layer.
    fn merged(&self) -> anyhow::Result<Vec<Done>> {
        let options = options(self.args);
        let written = write_tree(&self.opened.stack, self.sink()?, &options, self.bar);
        let (sink, exported) = written.map_err(advised)?;
        Ok(vec![Done { source: None, layer: sink.commit()?, exported }])
    }

    /// All layers, as many at a time as there are threads; the first failure
    /// ends the work.
    fn all_layers(&self, pool: &ThreadPool) -> anyhow::Result<Vec<Done>> {
        let failed = AtomicBool::new(false);
        let layers = (0u32..).zip(&self.opened.image.layers).collect::<Vec<_>>();
        let layer = |(number, layer): &(u32, &ImageLayer)| {
            if failed.load(Ordering::Relaxed) {
                return None;
            }
            let digest = layer.descriptor.digest.to_string();
            let result = self.layer(*number, &digest);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            Some(result.with_context(|| format!("layer {number} ({digest})")))
        };
        let done: Vec<_> = pool.install(|| layers.par_iter().with_max_len(1).map(layer).collect());
        // The error of the lowest layer; those that were not begun have none.
        done.into_iter().flatten().collect()
    }

    fn layer(&self, number: u32, digest: &str) -> anyhow::Result<Done> {
        let (stack, options) = (&self.opened.stack, options(self.args));
        let written = write_layer(stack, number, self.sink()?, &options, self.bar);
        let (sink, exported) = written.map_err(advised)?;
        Ok(Done { source: Some(digest.to_owned()), layer: sink.commit()?, exported })
    }
}

fn layer_report(done: &Done) -> LayerReport {
    LayerReport {
        source: done.source.clone(),
        layer: done.layer.descriptor.digest.to_string(),
        diff_id: done.layer.diff_id.to_string(),
        tar_bytes: done.exported.bytes,
        bytes: done.layer.descriptor.size,
    }
}

fn print(args: &ExportArgs, report: &Report) -> anyhow::Result<()> {
    if args.json {
        return output::json(report);
    }
    report.sockets.print()?;
    if args.quiet {
        return Ok(());
    }
    let mut out = output::stdout();
    writeln!(out, "{}:{}\n  {}", report.layout, report.tag, report.manifest)?;
    for layer in &report.layers {
        writeln!(
            out,
            "  {} from {} ({} from {})",
            layer.layer,
            layer.source.as_deref().unwrap_or("the merged tree"),
            output::human(layer.bytes),
            output::human(layer.tar_bytes),
        )?;
    }
    Ok(out.flush()?)
}
