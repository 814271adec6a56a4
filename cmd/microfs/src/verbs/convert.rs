//! `microfs convert`

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use microfs::archive::{LayerOptions, write_layer};
use microfs::compress::Compression;
use microfs::stack::{LayerSource, Stack, StackOptions};
use microfs::writer::{Options, Progress, Silent, encoder};
use microfs_oci::media_type::{
    LayerKind, SOURCE_LAYER_DIFF_ID, SOURCE_LAYER_DIGEST, SOURCE_LAYER_OPTIONS,
    SOURCE_MANIFEST_DIGEST,
};
use microfs_oci::{
    ImageSpec, LayerReader, Layout, NewLayer, OciError, Platform, Reference, Session, Source,
    SourceError, SourceImage, SourceLayer,
};
use rayon::ThreadPool;
use serde::Serialize;

use super::build::commit_layer;
use crate::exit::Outcome;
use crate::image;
use crate::options::{self, PlatformArgs, ThreadArgs};
use crate::output;
use crate::progress::Bar;

/// Convert an OCI or docker image, layer by layer
///
/// SOURCE is an OCI layout (OCI-DIR:TAG or OCI-DIR@DIGEST), the same as a tar
/// archive, an archive of `docker save`, a single layer tarball, or - (-:TAG,
/// -@DIGEST) for any archive on standard input. Layers that the layout has
/// already are not converted again.
#[derive(Debug, Args)]
pub struct ConvertArgs {
    /// What to convert
    #[arg(allow_hyphen_values = true, value_parser = source_parser())]
    source: OsString,
    /// OCI-DIR TAG or OCI-DIR:TAG
    #[arg(required = true, num_args = 1..=2, value_name = "OCI-DIR[:TAG]")]
    image: Vec<OsString>,
    /// Bytes of content that are compressed together: a power of two, 512 to 1M
    #[arg(long, short, value_name = "SIZE", default_value = "128K", value_parser = options::block_log)]
    block_size: u8,
    /// none, zstd or zstd:LEVEL (1 to 22)
    #[arg(long, short, value_name = "CODEC", default_value = "zstd:9", value_parser = options::compression)]
    compression: Compression,
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

/// Takes what names standard input, and no other word that begins like an option.
fn source_parser() -> impl TypedValueParser<Value = OsString> {
    OsStringValueParser::new().try_map(|word| match word.as_encoded_bytes() {
        [b'-'] | [b'-', b':' | b'@', ..] => Ok(word),
        [b'-', ..] => Err("there is no such option; a file of that name is written ./NAME"),
        _ => Ok(word),
    })
}

#[derive(Debug, Serialize)]
struct Report {
    layout: String,
    tag: String,
    manifest: String,
    source_manifest: Option<String>,
    layers: Vec<LayerReport>,
}

#[derive(Debug, Serialize)]
struct LayerReport {
    source: String,
    layer: String,
    source_bytes: u64,
    bytes: u64,
    reused: bool,
}

/// Most layers that are read at once; each has some MiB in flight.
const LAYERS_AT_ONCE: usize = 4;

/// Converts an image and tags it.
pub fn run(args: &ConvertArgs) -> anyhow::Result<Outcome> {
    let reference = match args.image.as_slice() {
        [layout, tag] => Reference::from_parts(layout, tag)?,
        [image] => Reference::parse_new(image)?,
        _ => bail!("an image is named OCI-DIR TAG or OCI-DIR:TAG"),
    };
    let tag = image::tag_to_write(&reference)?;
    // Archives that cannot be read in place are spooled where TMPDIR says.
    let source = Source::open(&args.source, &std::env::temp_dir()).map_err(advised)?;
    let source = &source.image(&args.platform.request())?;
    let session = image::writing("convert", Session::in_new(&reference.layout))?;
    let layout = session.layout().clone();
    let options = LayerOptions {
        writer: Options {
            block_log: args.block_size,
            compression: args.compression,
            ..Options::default()
        },
    };
    let total = source.layers.iter().map(SourceLayer::size).fold(0, u64::saturating_add);
    let bar = Bar::bytes("converting", total, args.quiet || args.json);
    let work = Work {
        session: &session,
        image: source,
        options: &options,
        key: options_key(&options.writer),
        pool: args.threads.pool()?,
        bar: &bar,
    };
    let done = work.all_layers();
    bar.finish();
    let done = done?;
    check_links(&layout, &done)?;
    let spec = ImageSpec {
        layers: done.iter().map(|done| done.layer.clone()).collect(),
        source_config: source.config_json.clone(),
        platform: source.config_json.is_none().then(Platform::host),
        annotations: annotations(source),
        ..ImageSpec::default()
    };
    let assembled = session.assemble(&spec)?;
    session.publish(tag, &assembled.manifest)?;
    let report = Report {
        layout: layout.path().display().to_string(),
        tag: tag.to_owned(),
        manifest: assembled.manifest.digest.to_string(),
        source_manifest: source.manifest_digest.as_ref().map(ToString::to_string),
        layers: done.iter().map(layer_report).collect(),
    };
    print(args, &report)?;
    Ok(Outcome::Done)
}

/// What the library cannot know: where its folder for temporary files is from.
fn advised(error: OciError) -> anyhow::Error {
    let full =
        matches!(&error, OciError::Source(inner) if matches!(**inner, SourceError::NoSpace { .. }));
    let error = anyhow::Error::from(error);
    if full { error.context("TMPDIR must name a folder with room for the archive") } else { error }
}

/// What, beside the source layer, decides a converted layer's bytes.
fn options_key(options: &Options) -> String {
    let compression = match options.compression {
        Compression::None => "none".to_owned(),
        Compression::Zstd(level) => format!("zstd:{level}"),
    };
    format!(
        "{} block {} metadata {} {compression}",
        encoder(),
        options.block_log,
        options.metadata_log
    )
}

/// Annotations of the source's manifest, and its digest.
fn annotations(image: &SourceImage) -> BTreeMap<String, String> {
    let mut annotations = image.annotations.clone();
    if let Some(digest) = &image.manifest_digest {
        annotations.insert(SOURCE_MANIFEST_DIGEST.to_owned(), digest.to_string());
    }
    annotations
}

/// A converted layer.
#[derive(Debug, Clone)]
struct Converted {
    layer: NewLayer,
    source: String,
    source_bytes: u64,
    reused: bool,
}

struct Work<'a> {
    session: &'a Session,
    image: &'a SourceImage,
    options: &'a LayerOptions,
    key: String,
    pool: Arc<ThreadPool>,
    bar: &'a Bar,
}

impl Work<'_> {
    /// Converts all layers, several at once; the first failure ends the work.
    fn all_layers(&self) -> anyhow::Result<Vec<Converted>> {
        let layers = &self.image.layers;
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let results = Mutex::new(BTreeMap::new());
        let threads = layers.len().min(self.pool.current_num_threads()).min(LAYERS_AT_ONCE);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !failed.load(Ordering::Relaxed) {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(layer) = layers.get(number) else { return };
                        let result = self.layer(layer).with_context(|| layer.name.to_string());
                        failed.fetch_or(result.is_err(), Ordering::Relaxed);
                        let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                        results.insert(number, result);
                    }
                });
            }
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        // The error of the lowest layer, whichever came first.
        if let Some(number) = results.iter().find(|(_, result)| result.is_err()).map(|(n, _)| *n)
            && let Some(Err(error)) = results.remove(&number)
        {
            return Err(error);
        }
        if results.len() != layers.len() {
            bail!("a worker thread failed");
        }
        results.into_values().collect()
    }

    fn layer(&self, layer: &SourceLayer) -> anyhow::Result<Converted> {
        if layer.kind == LayerKind::Microfs {
            bail!("is a microfs layer already: copy the image with a tool for OCI layouts");
        }
        if let Some(done) = self.known(layer)? {
            Progress::bytes(self.bar, layer.size());
            return Ok(done);
        }
        let mut reader = Counting { inner: layer.open()?, bar: self.bar, counted: 0 };
        let blob = self.session.blob()?;
        let pool = Arc::clone(&self.pool);
        let written = write_layer(&mut reader, blob, self.options, pool, Arc::new(Silent))
            .map(|(_, blob, summary)| (blob, summary));
        // What was read must be the layer that was meant before it counts; and
        // a damaged layer explains a damaged archive.
        let verified = reader.inner.finish()?;
        let (blob, summary) = written?;
        let converted = commit_layer(blob, &summary)?
            .annotate(SOURCE_LAYER_DIGEST, verified.stored_digest.to_string())
            .annotate(SOURCE_LAYER_DIFF_ID, verified.diff_id.to_string())
            .annotate(SOURCE_LAYER_OPTIONS, self.key.clone());
        let source = verified.stored_digest.to_string();
        Ok(Converted { layer: converted, source, source_bytes: layer.size(), reused: false })
    }

    /// A layer of the layout that was made from the same source with the same options.
    fn known(&self, source: &SourceLayer) -> anyhow::Result<Option<Converted>> {
        let (Some(digest), Some(diff_id)) = (&source.digest, &source.diff_id) else {
            return Ok(None);
        };
        let wanted = [
            (SOURCE_LAYER_DIGEST, digest.to_string()),
            (SOURCE_LAYER_DIFF_ID, diff_id.to_string()),
            (SOURCE_LAYER_OPTIONS, self.key.clone()),
        ];
        let found = self.session.layout().find_layers(|candidate| {
            let has = |(key, value): &(&str, String)| {
                candidate.descriptor.annotation(key) == Some(value.as_str())
            };
            wanted.iter().all(has)
        })?;
        for candidate in found {
            if self.session.reuse(&candidate.descriptor.digest, candidate.descriptor.size)? {
                let layer =
                    NewLayer { descriptor: candidate.descriptor, diff_id: candidate.diff_id };
                let source_bytes = source.size();
                let source = digest.to_string();
                return Ok(Some(Converted { layer, source, source_bytes, reused: true }));
            }
        }
        Ok(None)
    }
}

/// Moves the progress bar by what is read of the stored layer.
struct Counting<'a> {
    inner: LayerReader,
    bar: &'a Bar,
    counted: u64,
}

impl Read for Counting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let position = self.inner.stored_position();
        Progress::bytes(self.bar, position.saturating_sub(self.counted));
        self.counted = position;
        Ok(read)
    }
}

/// Opens the converted stack and makes sure that every hard link between
/// layers leads somewhere.
fn check_links(layout: &Layout, done: &[Converted]) -> anyhow::Result<()> {
    if done.is_empty() {
        return Ok(());
    }
    let mut layers = Vec::new();
    for converted in done {
        let descriptor = &converted.layer.descriptor;
        let file = layout.open_blob(&descriptor.digest, descriptor.size)?;
        layers.push(LayerSource { source: Box::new(file), sha256: None });
    }
    let stack = Stack::open(layers, &StackOptions::default())?;
    if let Some(link) = stack.unresolved_links()?.first() {
        return Err(anyhow!(
            "layer {}: hard link {:?} leads to {:?}, which is not there in the layers below",
            link.layer,
            output::printable(&link.path),
            output::printable(&link.target),
        ));
    }
    Ok(())
}

fn layer_report(done: &Converted) -> LayerReport {
    LayerReport {
        source: done.source.clone(),
        layer: done.layer.descriptor.digest.to_string(),
        source_bytes: done.source_bytes,
        bytes: done.layer.descriptor.size,
        reused: done.reused,
    }
}

fn print(args: &ConvertArgs, report: &Report) -> anyhow::Result<()> {
    if args.json {
        return output::json(report);
    }
    if args.quiet {
        return Ok(());
    }
    let mut out = output::stdout();
    writeln!(out, "{}:{}\n  {}", report.layout, report.tag, report.manifest)?;
    for layer in &report.layers {
        writeln!(
            out,
            "  {} from {} ({} from {}){}",
            layer.layer,
            layer.source,
            output::human(layer.bytes),
            output::human(layer.source_bytes),
            if layer.reused { ", converted before" } else { "" },
        )?;
    }
    let reused = report.layers.iter().filter(|layer| layer.reused).count();
    writeln!(out, "  {} layers, {reused} of them converted before", report.layers.len())?;
    Ok(out.flush()?)
}
