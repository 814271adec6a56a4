//! `microfs squash`

use std::ffi::OsString;
use std::sync::Arc;

use clap::Args;
use microfs::compress::Compression;
use microfs::squash::squash;
use microfs::stack::StackOptions;
use microfs::writer::Options;
use microfs_oci::{HistoryChange, ImageSpec, check_tag};
use serde::Serialize;

use super::build::commit_layer;
use crate::exit::Outcome;
use crate::image;
use crate::options::{self, PlatformArgs, ThreadArgs};
use crate::output;
use crate::progress::Bar;

/// Merge all layers of an image into one
///
/// The new image is in the same layout, with the same config. Its only layer
/// is what a build of the merged tree gives, byte for byte.
#[derive(Debug, Args)]
pub struct SquashArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG, then the tag of the new image
    #[arg(required = true, num_args = 1..=3, value_name = options::THEN_TAG)]
    words: Vec<OsString>,
    /// Bytes of content that are compressed together: a power of two, 512 to 1M
    #[arg(long, short, value_name = "SIZE", default_value = "128K", value_parser = options::block_log)]
    block_size: u8,
    /// none, zstd or zstd:LEVEL (1 to 22)
    #[arg(long, short, value_name = "CODEC", default_value = "zstd:9", value_parser = options::compression)]
    compression: Compression,
    /// Store equal content once for each file
    #[arg(long)]
    no_dedup: bool,
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

#[derive(Debug, Serialize)]
struct Report {
    layout: String,
    tag: String,
    manifest: String,
    source_layers: usize,
    source_bytes: u64,
    layer: String,
    layer_bytes: u64,
    inodes: u64,
    content_bytes: u64,
    hole_bytes: u64,
    stored_content_bytes: u64,
    stored_metadata_bytes: u64,
    deduplicated_bytes: u64,
}

/// Merges the layers of an image and tags the result.
pub fn run(args: &SquashArgs) -> anyhow::Result<Outcome> {
    let (reference, rest) = image::split(&args.words, 1)?;
    let tag = image::new_tag(&reference.layout, rest.first())?;
    check_tag(tag)?;
    let opened = image::open(&reference, &args.platform.request(), &StackOptions::default())?;
    let source = &opened.image;
    let session = image::writing("squash", opened.layout.begin())?;
    let total = opened.stack.totals().plain_bytes;
    let bar = Bar::bytes("squashing", total, args.quiet || args.json);
    let options = Options {
        block_log: args.block_size,
        compression: args.compression,
        dedup: !args.no_dedup,
        ..Options::default()
    };
    let pool = args.threads.pool()?;
    let done = squash(&opened.stack, session.blob()?, options, pool, Arc::new(bar.clone()));
    bar.finish();
    let (blob, summary) = done?;
    let layer = commit_layer(blob, &summary)?;
    let digest = layer.descriptor.digest.to_string();
    let entry = image::history_entry(source, "microfs squash")?;
    // What it was converted from was another tree of layers.
    let annotations = source.annotations.iter().filter(|(key, _)| !key.starts_with("dev.microfs."));
    let spec = ImageSpec {
        layers: vec![layer],
        source_config: Some(source.config_json.clone()),
        history: HistoryChange::Replace(vec![entry]),
        annotations: annotations.map(|(key, value)| (key.clone(), value.clone())).collect(),
        ..ImageSpec::default()
    };
    let assembled = session.assemble(&spec)?;
    session.publish(tag, &assembled.manifest)?;
    let totals = &summary.superblock.totals;
    let report = Report {
        layout: opened.layout.path().display().to_string(),
        tag: tag.to_owned(),
        manifest: assembled.manifest.digest.to_string(),
        source_layers: source.layers.len(),
        source_bytes: source.layers_size(),
        layer: digest,
        layer_bytes: summary.superblock.blob_length,
        inodes: summary.superblock.inode_count(),
        content_bytes: totals.data_bytes.get(),
        hole_bytes: totals.hole_bytes.get(),
        stored_content_bytes: totals.content_stored.get(),
        stored_metadata_bytes: totals.metadata_stored.get(),
        deduplicated_bytes: summary.dedup.bytes,
    };
    print(args, &report)?;
    Ok(Outcome::Done)
}

fn print(args: &SquashArgs, report: &Report) -> anyhow::Result<()> {
    if args.json {
        return output::json(report);
    }
    if !args.quiet {
        output::line(format_args!(
            "{}:{}\n  {}\n  {} inodes, {} of content in {}; {} layers had {}",
            report.layout,
            report.tag,
            report.manifest,
            report.inodes,
            output::human(report.content_bytes),
            output::human(report.layer_bytes),
            report.source_layers,
            output::human(report.source_bytes),
        ))?;
    }
    Ok(())
}
