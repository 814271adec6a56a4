//! `microfs inspect`

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use microfs::format::{Codec, FileType};
use microfs::reader::Image;
use microfs::stack::StackOptions;
use serde::Serialize;

use crate::exit::Outcome;
use crate::image;
use crate::options::PlatformArgs;
use crate::output::{self, human};

/// Show manifest, layers and sizes of an image
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG
    #[arg(required = true, num_args = 1..=2, value_name = "OCI-DIR[:TAG]")]
    words: Vec<OsString>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    platform: PlatformArgs,
}

#[derive(Debug, Serialize)]
struct Report {
    manifest: String,
    config: String,
    platform: String,
    created: Option<String>,
    annotations: BTreeMap<String, String>,
    image_config: serde_json::Value,
    layers: Vec<LayerReport>,
}

#[derive(Debug, Serialize)]
struct LayerReport {
    digest: String,
    bytes: u64,
    annotations: BTreeMap<String, String>,
    encoder: String,
    block_size: u32,
    metadata_block_size: u32,
    inodes: u64,
    inodes_by_type: BTreeMap<&'static str, u64>,
    whiteouts: u64,
    opaque_directories: u64,
    /// Bytes of files, holes not counted.
    file_bytes: u64,
    hole_bytes: u64,
    /// Bytes of files that are stored once for several.
    deduplicated_bytes: u64,
    content: Part,
    metadata: Part,
    /// Bytes of files that a kernel mount would have to copy.
    unmappable_bytes: u64,
    references: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Part {
    blocks: u64,
    plain_bytes: u64,
    stored_bytes: u64,
    codecs: BTreeMap<&'static str, CodecShare>,
}

#[derive(Debug, Default, Serialize)]
struct CodecShare {
    blocks: u64,
    plain_bytes: u64,
    stored_bytes: u64,
}

/// Prints the report.
pub fn run(args: &InspectArgs) -> anyhow::Result<Outcome> {
    let (reference, _) = image::split(&args.words, 0)?;
    let opened = image::open(&reference, &args.platform.request(), &StackOptions::default())?;
    let mut layers = Vec::new();
    for (layer, image) in opened.image.layers.iter().zip(opened.stack.layers()) {
        let annotations = layer.descriptor.annotations.clone();
        layers.push(layer_report(layer.descriptor.digest.to_string(), annotations, image)?);
    }
    let report = Report {
        manifest: opened.image.manifest.digest.to_string(),
        config: opened.image.config.digest.to_string(),
        platform: opened.image.platform.to_string(),
        created: opened.image.created.clone(),
        annotations: opened.image.annotations.clone(),
        image_config: serde_json::from_slice(&opened.image.config_json)?,
        layers,
    };
    if args.json {
        output::json(&report)?;
    } else {
        print(&report)?;
    }
    Ok(Outcome::Done)
}

fn layer_report(
    digest: String,
    annotations: BTreeMap<String, String>,
    image: &Image,
) -> anyhow::Result<LayerReport> {
    let superblock = image.superblock();
    let totals = &superblock.totals;
    let content_blocks = superblock.content_blocks;
    let all = superblock.block_count().unwrap_or(content_blocks);
    let names = FileType::ALL.map(type_name).into_iter().chain(["hard link to a lower layer"]);
    let kinds = names.zip(&totals.kinds).map(|(name, count)| (name, count.get()));
    let encoder = String::from_utf8_lossy(&superblock.encoder);
    let file_bytes = totals.data_bytes.get();
    let references = image.blob_table().iter();
    let hex = |digest: &[u8]| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    Ok(LayerReport {
        digest,
        bytes: superblock.blob_length,
        annotations,
        encoder: encoder.trim_end_matches('\0').to_owned(),
        block_size: superblock.block_size(),
        metadata_block_size: superblock.metadata_size(),
        inodes: superblock.inode_count(),
        inodes_by_type: kinds.filter(|(_, count)| *count > 0).collect(),
        whiteouts: totals.whiteouts.get(),
        opaque_directories: totals.opaque.get(),
        file_bytes,
        hole_bytes: totals.hole_bytes.get(),
        deduplicated_bytes: file_bytes.saturating_sub(totals.content_plain.get()),
        content: part(image, 0, content_blocks)?,
        metadata: part(image, content_blocks, all)?,
        unmappable_bytes: totals.unmappable_bytes.get(),
        references: references.map(|blob| format!("sha256:{}", hex(&blob.blob_sha256))).collect(),
    })
}

fn part(image: &Image, first: u64, end: u64) -> anyhow::Result<Part> {
    let mut part = Part {
        blocks: end.saturating_sub(first),
        plain_bytes: 0,
        stored_bytes: 0,
        codecs: BTreeMap::new(),
    };
    for number in first..end {
        let pointer = image.block_pointer(number)?;
        let share = part.codecs.entry(Codec::name(pointer.codec)).or_default();
        share.blocks = share.blocks.saturating_add(1);
        share.plain_bytes = share.plain_bytes.saturating_add(u64::from(pointer.plain_length));
        share.stored_bytes = share.stored_bytes.saturating_add(u64::from(pointer.stored_length));
    }
    for share in part.codecs.values() {
        part.plain_bytes = part.plain_bytes.saturating_add(share.plain_bytes);
        part.stored_bytes = part.stored_bytes.saturating_add(share.stored_bytes);
    }
    Ok(part)
}

fn type_name(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Regular => "regular file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::CharDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
    }
}

fn print(report: &Report) -> anyhow::Result<()> {
    let mut out = output::stdout();
    writeln!(out, "manifest  {}", report.manifest)?;
    writeln!(out, "config    {}", report.config)?;
    writeln!(out, "platform  {}", report.platform)?;
    if let Some(created) = &report.created {
        writeln!(out, "created   {created}")?;
    }
    for (number, layer) in report.layers.iter().enumerate() {
        writeln!(out, "layer {number}   {}", layer.digest)?;
        let ratio = match layer.bytes {
            0 => 0.0,
            bytes => layer.file_bytes as f64 / bytes as f64,
        };
        writeln!(
            out,
            "  {} for {} of files ({ratio:.2} to 1), {} in holes, {} deduplicated",
            human(layer.bytes),
            human(layer.file_bytes),
            human(layer.hole_bytes),
            human(layer.deduplicated_bytes),
        )?;
        let kinds = layer.inodes_by_type.iter();
        let kinds: Vec<_> = kinds.map(|(name, count)| format!("{count} {name}")).collect();
        writeln!(out, "  {} inodes: {}", layer.inodes, kinds.join(", "))?;
        if layer.whiteouts > 0 || layer.opaque_directories > 0 {
            let (whiteouts, opaque) = (layer.whiteouts, layer.opaque_directories);
            writeln!(out, "  {whiteouts} whiteouts, {opaque} opaque directories")?;
        }
        print_part(&mut out, "content", layer.block_size, &layer.content)?;
        print_part(&mut out, "metadata", layer.metadata_block_size, &layer.metadata)?;
        for blob in &layer.references {
            writeln!(out, "  uses blocks of {blob}")?;
        }
        writeln!(out, "  written by {}", layer.encoder)?;
    }
    Ok(out.flush()?)
}

fn print_part(out: &mut impl Write, name: &str, size: u32, part: &Part) -> anyhow::Result<()> {
    let (plain, stored) = (human(part.plain_bytes), human(part.stored_bytes));
    let block = human(u64::from(size));
    write!(out, "  {name}: {plain} in {stored}, {} blocks of up to {block}", part.blocks)?;
    for (codec, share) in &part.codecs {
        write!(out, "; {codec}: {} blocks, {}", share.blocks, human(share.stored_bytes))?;
    }
    Ok(writeln!(out)?)
}
