//! `microfs build`

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use microfs::build::{Built, write_delta, write_directory};
use microfs::compress::Compression;
use microfs::delta::{Delta, DeltaCounts};
use microfs::scan::{
    ExcludeSet, MtimePolicy, ObjectId, OnError, OwnerPolicy, Scan, ScanOptions, Scanned,
    SkipReason, Skipped, XattrFilter,
};
use microfs::writer::{Base as BaseContent, Options, Progress, Summary};
use microfs_oci::media_type::{self, SUPERBLOCK_DIGEST, TAIL_LENGTH};
use microfs_oci::store::BlobWriter;
use microfs_oci::{ImageSpec, NewLayer, Platform, Reference, Session, verified};
use serde::Serialize;

use self::base::Base;
use crate::exit::{Outcome, chain_text};
use crate::image;
use crate::options::{self, ConfigArgs, ThreadArgs};
use crate::output;
use crate::progress::Bar;

mod base;

/// Build a directory into an image
///
/// The layout is created when it is not there. Two builds of the same tree with
/// the same options give the same image, byte for byte. With --base, the image
/// is another one of the layout and one layer on top, which holds nothing but
/// the difference.
#[derive(Debug, Args)]
pub struct BuildArgs {
    /// Directory to build
    rootfs: PathBuf,
    /// OCI-DIR TAG or OCI-DIR:TAG
    #[arg(required = true, num_args = 1..=2, value_name = "OCI-DIR[:TAG]")]
    image: Vec<OsString>,
    /// Store only the difference to the image of this tag or digest in OCI-DIR
    #[arg(long, value_name = "TAG")]
    base: Option<String>,
    /// Bytes of content that are compressed together: a power of two, 512 to 1M
    /// [default: 128K, or as the base image]
    #[arg(long, short, value_name = "SIZE", value_parser = options::block_log)]
    block_size: Option<u8>,
    /// none, zstd or zstd:LEVEL (1 to 22)
    #[arg(long, short, value_name = "CODEC", default_value = "zstd:9", value_parser = options::compression)]
    compression: Compression,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Leave out what matches a .gitignore-style pattern; repeatable
    #[arg(long, short, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Read such patterns from a file of at most 16 MiB, one a line
    #[arg(long, value_name = "FILE")]
    exclude_from: Vec<PathBuf>,
    /// Give everything this modification time, in seconds since 1970
    #[arg(long, value_name = "SECONDS", value_parser = options::seconds, allow_hyphen_values = true)]
    mtime: Option<i64>,
    /// Let no modification time be later than this; --mtime goes before it [default: SOURCE_DATE_EPOCH]
    #[arg(long, value_name = "SECONDS", value_parser = options::seconds, allow_hyphen_values = true)]
    clamp_mtime: Option<i64>,
    /// Give everything this owner
    #[arg(long, value_name = "UID:GID", value_parser = options::owner, conflicts_with = "all_root")]
    owner: Option<(Option<u32>, Option<u32>)>,
    /// Give everything to root: --owner 0:0
    #[arg(long)]
    all_root: bool,
    /// Store extended attributes (the default)
    #[arg(long, overrides_with = "no_xattrs")]
    xattrs: bool,
    /// Store no extended attributes
    #[arg(long, overrides_with = "xattrs")]
    no_xattrs: bool,
    /// Store no extended attribute of this name, which may end in *; repeatable
    #[arg(long, value_name = "NAME")]
    exclude_xattr: Vec<String>,
    /// Do not go into directories of other filesystems
    #[arg(long, short = 'x')]
    one_file_system: bool,
    /// What to do about a file that cannot be read, or changes meanwhile
    #[arg(long, value_enum, default_value_t = OnErrorArg::Fail)]
    on_error: OnErrorArg,
    /// Store equal content once for each file
    #[arg(long)]
    no_dedup: bool,
    #[command(flatten)]
    config: ConfigArgs,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but errors
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnErrorArg {
    /// Stop, with nothing tagged
    Fail,
    /// Leave it out and say so
    Skip,
}

#[derive(Debug, Serialize)]
struct Report {
    layout: String,
    tag: String,
    manifest: String,
    layer: String,
    layer_bytes: u64,
    inodes: u64,
    content_bytes: u64,
    hole_bytes: u64,
    stored_content_bytes: u64,
    stored_metadata_bytes: u64,
    deduplicated_bytes: u64,
    /// Of those, bytes that layers of the base image have.
    base_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<DifferenceReport>,
    skipped: Vec<SkippedReport>,
}

#[derive(Debug, Serialize)]
struct DifferenceReport {
    base: String,
    stated: u64,
    unchanged: u64,
    whiteouts: u64,
}

#[derive(Debug, Serialize)]
struct SkippedReport {
    path: String,
    reason: String,
}

/// Builds an image and tags it.
pub fn run(args: &BuildArgs) -> anyhow::Result<Outcome> {
    let reference = match args.image.as_slice() {
        [layout, tag] => Reference::from_parts(layout, tag)?,
        [image] => Reference::parse_new(image)?,
        _ => bail!("an image is named OCI-DIR TAG or OCI-DIR:TAG"),
    };
    let tag = image::tag_to_write(&reference)?;
    let config = args.config.options()?;
    let latest = match args.clamp_mtime {
        None => options::source_date_epoch()?,
        given => given,
    };
    let created = args.config.created(latest)?;
    let mut scan = scan_options(args, latest)?;
    check_root(&args.rootfs)?;

    let session = image::writing("build", Session::in_new(&reference.layout))?;
    let layout = session.layout().clone();
    let on = args.base.as_deref();
    let on = on.map(|name| Base::open(&layout, &session, name, args.config.platform()));
    let base = on.transpose()?;
    // A build must never contain the store that it writes.
    scan.exclude_ids.push(object_id(layout.path())?);
    let quiet = args.quiet || args.json;
    let counting = Bar::counting("scanning", quiet);
    scan.progress = Some(Arc::new(counting.clone()));
    let scanned = Scan::run(&args.rootfs, &scan);
    counting.finish();
    let scanned = scanned?;

    let mut writer_options =
        Options { compression: args.compression, dedup: !args.no_dedup, ..Options::default() };
    let block_log = args.block_size.or(base.as_ref().and_then(Base::block_log));
    writer_options.block_log = block_log.unwrap_or(writer_options.block_log);
    let pool = args.threads.pool()?;
    let job = Job { session: &session, scan: &scan, options: writer_options, pool, quiet };
    let (built, difference) = match &base {
        None => (job.whole(scanned)?, None),
        Some(base) => {
            let (built, counts) = job.difference(scanned, base)?;
            (built, Some(counts))
        }
    };
    let Built { sink, summary, skipped } = built;
    let layer = commit_layer(sink, &summary)?;
    let digest = layer.descriptor.digest.to_string();
    let mut spec = ImageSpec { options: config, created, ..ImageSpec::default() };
    match &base {
        None => spec.platform = Some(args.config.platform().unwrap_or_else(Platform::host)),
        Some(base) => {
            spec.layers = base.layers();
            spec.source_config = Some(base.config());
            spec.platform = args.config.platform();
            spec.history = base.history(spec.created.as_deref())?;
        }
    }
    spec.layers.push(layer);
    let assembled = session.assemble(&spec)?;
    session.publish(tag, &assembled.manifest)?;

    let report = Report {
        layout: layout.path().display().to_string(),
        tag: tag.to_owned(),
        manifest: assembled.manifest.digest.to_string(),
        layer: digest,
        layer_bytes: summary.superblock.blob_length,
        inodes: summary.superblock.inode_count(),
        content_bytes: summary.superblock.totals.data_bytes.get(),
        hole_bytes: summary.superblock.totals.hole_bytes.get(),
        stored_content_bytes: summary.superblock.totals.content_stored.get(),
        stored_metadata_bytes: summary.superblock.totals.metadata_stored.get(),
        deduplicated_bytes: summary.dedup.bytes,
        base_bytes: summary.dedup.below,
        difference: difference.zip(args.base.as_ref()).map(|(counts, base)| DifferenceReport {
            base: base.clone(),
            stated: counts.stated,
            unchanged: counts.unchanged,
            whiteouts: counts.whiteouts,
        }),
        skipped: skipped.iter().map(skipped_report).collect(),
    };
    print(args, &report, &skipped)?;
    Ok(Outcome::Done)
}

/// What both ways to build share.
struct Job<'a> {
    session: &'a Session,
    scan: &'a ScanOptions,
    options: Options,
    pool: Arc<rayon::ThreadPool>,
    quiet: bool,
}

impl Job<'_> {
    /// Everything that was scanned.
    fn whole(&self, scanned: Scanned) -> anyhow::Result<Built<BlobWriter>> {
        let bar = Bar::bytes("building", scanned.statistics.allocated_bytes, self.quiet);
        let progress: Arc<dyn Progress> = Arc::new(bar.clone());
        let (on_error, options, pool) = (self.scan.on_error, &self.options, &self.pool);
        let sink = &mut || self.blob();
        let built = write_directory(sink, scanned, on_error, options, pool, &progress);
        bar.finish();
        Ok(built?)
    }

    fn blob(&self) -> std::io::Result<BlobWriter> {
        self.session.blob().map_err(std::io::Error::other)
    }

    /// What is not so in the base image.
    fn difference(
        &self,
        scanned: Scanned,
        base: &Base,
    ) -> anyhow::Result<(Built<BlobWriter>, DeltaCounts)> {
        let on_error = self.scan.on_error;
        let bar = Bar::bytes("comparing", scanned.statistics.content_bytes, self.quiet);
        let progress: Arc<dyn Progress> = Arc::new(bar.clone());
        let found = Delta::find(scanned, &base.stack, on_error, &self.pool, &progress);
        bar.finish();
        let Delta { scanned, counts } = found?;
        // Without new content there is nothing to look for.
        let known = if counts.file_bytes > 0 && self.options.dedup {
            Delta::base(&base.stack, &self.pool)?
        } else {
            BaseContent::default()
        };
        let bar = Bar::bytes("building", counts.file_bytes, self.quiet);
        let progress: Arc<dyn Progress> = Arc::new(bar.clone());
        let (options, pool) = (&self.options, &self.pool);
        let sink = &mut || self.blob();
        let built = write_delta(sink, scanned, &known, on_error, options, pool, &progress);
        bar.finish();
        Ok((built?, counts))
    }
}

/// Makes a finished blob durable and describes it as a layer.
pub fn commit_layer(blob: BlobWriter, summary: &Summary) -> anyhow::Result<NewLayer> {
    let blob = blob.commit()?;
    let superblock = verified::sha256(&summary.superblock_bytes)?;
    let tail = summary.superblock.tail_length();
    Ok(NewLayer::opaque(media_type::microfs_layer(), blob)
        .annotate(SUPERBLOCK_DIGEST, superblock.to_string())
        .annotate(TAIL_LENGTH, tail.to_string()))
}

fn scan_options(args: &BuildArgs, latest: Option<i64>) -> anyhow::Result<ScanOptions> {
    let mut patterns = args.exclude.clone();
    for file in &args.exclude_from {
        let text = patterns_of(file)
            .with_context(|| format!("cannot read patterns from {}", file.display()))?;
        patterns.extend(text.lines().map(str::to_owned));
    }
    let (uid, gid) = args.owner.unwrap_or((None, None));
    let owner = if args.all_root { OwnerPolicy::ALL_ROOT } else { OwnerPolicy { uid, gid } };
    let mtime = match (args.mtime, latest) {
        (Some(all), _) => MtimePolicy::Set(all),
        (None, Some(latest)) => MtimePolicy::Clamp(latest),
        (None, None) => MtimePolicy::Keep,
    };
    let exclude = args.exclude_xattr.iter().map(|prefix| format!("{prefix}*").into_bytes());
    let xattrs = XattrFilter { include: !args.no_xattrs, exclude: exclude.collect() };
    Ok(ScanOptions {
        xattrs,
        mtime,
        owner,
        one_file_system: args.one_file_system,
        exclude: ExcludeSet::new(&patterns)?,
        on_error: match args.on_error {
            OnErrorArg::Fail => OnError::Fail,
            OnErrorArg::Skip => OnError::Skip,
        },
        ..ScanOptions::default()
    })
}

/// Most bytes of a file of patterns.
const PATTERN_BYTES: u64 = 16 << 20;

fn patterns_of(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(file)?;
    file.take(PATTERN_BYTES.saturating_add(1)).read_to_string(&mut text)?;
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > PATTERN_BYTES {
        bail!("it has more than {}", output::human(PATTERN_BYTES));
    }
    Ok(text)
}

/// Refuses a root that cannot be built before anything is created.
fn check_root(rootfs: &Path) -> anyhow::Result<()> {
    let metadata =
        std::fs::metadata(rootfs).with_context(|| format!("cannot build {}", rootfs.display()))?;
    if !metadata.is_dir() {
        bail!("cannot build {}: not a directory", rootfs.display());
    }
    Ok(())
}

fn object_id(path: &Path) -> anyhow::Result<ObjectId> {
    let metadata =
        std::fs::metadata(path).with_context(|| format!("cannot examine {}", path.display()))?;
    Ok(ObjectId { device: metadata.dev(), inode: metadata.ino() })
}

fn reason(skipped: &Skipped) -> String {
    match &skipped.reason {
        SkipReason::Output => "it is the store that is being written".to_owned(),
        SkipReason::OtherFilesystem => "it is on another filesystem".to_owned(),
        SkipReason::Failed(error) => chain_text(error),
    }
}

fn skipped_report(skipped: &Skipped) -> SkippedReport {
    SkippedReport { path: output::printable(&skipped.path), reason: reason(skipped) }
}

fn print(args: &BuildArgs, report: &Report, skipped: &[Skipped]) -> anyhow::Result<()> {
    if args.json {
        return output::json(report);
    }
    for skipped in skipped {
        let path = output::printable(&skipped.path);
        output::remark(format_args!("left out {path:?}: {}", reason(skipped)))?;
    }
    if !args.quiet {
        output::line(format_args!(
            "{}:{}\n  {}\n  {} inodes, {} of content in {} ({} deduplicated)",
            report.layout,
            report.tag,
            report.manifest,
            report.inodes,
            output::human(report.content_bytes),
            output::human(report.layer_bytes),
            output::human(report.deduplicated_bytes),
        ))?;
        if let Some(difference) = &report.difference {
            output::line(format_args!(
                "  on {}: {} objects stated, {} unchanged, {} names gone, {} found below",
                difference.base,
                difference.stated,
                difference.unchanged,
                difference.whiteouts,
                output::human(report.base_bytes),
            ))?;
        }
    }
    Ok(())
}
