//! `microfs check`

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use microfs::check::{
    CheckOptions, CheckReport, CodecCount, Finding as Found, Problem, check_blob, check_stack,
};
use microfs::format::{Codec, Rule};
use microfs::stack::StackOptions;
use microfs_oci::media_type::LayerKind;
use microfs_oci::{Layout, OciError, Reference};
use rustix::io::Errno;
use serde::Serialize;

use crate::exit::{Outcome, chain_text};
use crate::image::{self, Opened};
use crate::options::{PlatformArgs, ThreadArgs};
use crate::output::{self, human};
use crate::progress::Bar;

/// Check every byte and every rule of an image
///
/// Exits with 1 when anything is wrong.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG
    #[arg(required = true, num_args = 1..=2, value_name = "OCI-DIR[:TAG]")]
    words: Vec<OsString>,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Stop after so many findings
    #[arg(long, value_name = "N", default_value_t = 100)]
    max: usize,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print nothing but findings
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    platform: PlatformArgs,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    sound: bool,
    findings: Vec<Finding>,
    /// Whether there may be more findings.
    cut: bool,
    layers: u64,
    bytes: u64,
    inodes: u64,
    dentries: u64,
    whiteouts: u64,
    extents: u64,
    codecs: BTreeMap<&'static str, CodecReport>,
    /// Plain bytes of blocks that no file uses.
    unused_bytes: u64,
    /// Bytes between parts and blocks.
    gap_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Finding {
    rule: Option<String>,
    text: String,
}

#[derive(Debug, Serialize)]
struct CodecReport {
    content_blocks: u64,
    metadata_blocks: u64,
    plain_bytes: u64,
    stored_bytes: u64,
}

/// Checks; [`Outcome::Negative`] when something is wrong.
pub fn run(args: &CheckArgs) -> anyhow::Result<Outcome> {
    let (reference, _) = image::split(&args.words, 0)?;
    let report = match image::open(&reference, &args.platform.request(), &StackOptions::default()) {
        Ok(opened) => whole(args, &opened)?,
        Err(error) => pieces(args, &reference, error)?,
    };
    if args.json {
        output::json(&report)?;
    } else {
        print(args, &report)?;
    }
    Ok(if report.sound { Outcome::Done } else { Outcome::Negative })
}

/// Checks an image that can be opened.
fn whole(args: &CheckArgs, opened: &Opened) -> anyhow::Result<Report> {
    let quiet = args.quiet || args.json;
    let bar = Bar::bytes("checking", opened.stack.totals().stored_bytes, quiet);
    let options = CheckOptions { findings_max: args.max };
    let pool = args.threads.pool()?;
    let mut report = report(&check_stack(&opened.stack, &options, &pool, &bar));
    bar.finish();
    // The digests of whole blobs, on top of every digest inside them.
    for layer in &opened.image.layers {
        match opened.layout.verify_blob(&layer.descriptor) {
            Ok(()) => {}
            Err(error) if is_damage(&error) => report.find(&error),
            // Not the image's fault: nothing is known of it.
            Err(error) => return Err(error.into()),
        }
    }
    Ok(report)
}

/// Checks what there is of an image that cannot be opened: each layer by
/// itself. Gives that error back when the blobs are not to blame for it.
fn pieces(
    args: &CheckArgs,
    reference: &Reference,
    unopened: anyhow::Error,
) -> anyhow::Result<Report> {
    let layout = Layout::open(&reference.layout)?;
    let mut report = Report { sound: true, ..Report::default() };
    let image = match layout.resolve(&reference.selector, &args.platform.request()) {
        Ok(image) => image,
        Err(error) if is_damage(&error) => {
            report.find(&error);
            return Ok(report);
        }
        Err(_) => return Err(unopened),
    };
    if image.layers.iter().any(|layer| layer.kind != LayerKind::Microfs) {
        return Err(unopened);
    }
    let bar = Bar::bytes("checking", image.layers_size(), args.quiet || args.json);
    let options = CheckOptions { findings_max: args.max };
    let pool = args.threads.pool()?;
    let mut all = CheckReport::default();
    let mut of_blobs = Vec::new();
    for (number, layer) in (0u32..).zip(&image.layers) {
        let descriptor = &layer.descriptor;
        let file = match layout.open_blob(&descriptor.digest, descriptor.size) {
            Ok(file) => file,
            Err(error) if is_damage(&error) => {
                of_blobs.push(anyhow::Error::from(error));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        of_blobs.extend(image::verify(&layout, layer, &file).err());
        let mut found = check_blob(Box::new(file), &options, &pool, &bar);
        if found.findings.iter().any(|finding| is_other_version(&finding.problem)) {
            return Err(unopened);
        }
        for finding in &mut found.findings {
            finding.layer = number;
        }
        all.add(found);
        match layout.verify_blob(descriptor) {
            Ok(()) => {}
            Err(error) if is_damage(&error) => of_blobs.push(error.into()),
            Err(error) => return Err(error.into()),
        }
    }
    bar.finish();
    let mut report = self::report(&all);
    of_blobs.iter().for_each(|error| report.find(error.as_ref()));
    if report.sound { Err(unopened) } else { Ok(report) }
}

/// Whether a blob is not what its descriptor says, or its storage is broken.
fn is_damage(error: &OciError) -> bool {
    use OciError::{BlobDigest, BlobMissing, BlobSize, Io};
    match error {
        BlobMissing { .. } | BlobSize { .. } | BlobDigest { .. } => true,
        Io { source, .. } => source.raw_os_error() == Some(Errno::IO.raw_os_error()),
        _ => false,
    }
}

/// Whether a layer is of another version of the format, and thus not damaged.
fn is_other_version(problem: &Problem) -> bool {
    matches!(problem.rule(), Some(Rule::Version | Rule::Feature))
}

impl Report {
    /// Adds what is wrong beside the rules of the format.
    fn find(&mut self, error: &dyn Error) {
        self.findings.push(Finding { rule: None, text: chain_text(error) });
        self.sound = false;
    }
}

fn report(found: &CheckReport) -> Report {
    let finding = |finding: &Found| Finding {
        rule: finding.problem.rule().map(|rule| format!("R{}", rule.number())),
        text: finding.to_string(),
    };
    let codec = |count: &CodecCount| {
        let report = CodecReport {
            content_blocks: count.content_blocks,
            metadata_blocks: count.metadata_blocks,
            plain_bytes: count.plain_bytes,
            stored_bytes: count.stored_bytes,
        };
        (Codec::name(count.codec), report)
    };
    Report {
        sound: found.is_sound(),
        findings: found.findings.iter().map(finding).collect(),
        cut: found.is_cut,
        layers: found.layers,
        bytes: found.blob_bytes,
        inodes: found.inodes(),
        dentries: found.dentries,
        whiteouts: found.whiteouts,
        extents: found.extents,
        codecs: found.codecs.iter().map(codec).collect(),
        unused_bytes: found.unused_bytes,
        gap_bytes: found.gap_bytes,
    }
}

fn print(args: &CheckArgs, report: &Report) -> anyhow::Result<()> {
    let mut out = output::stdout();
    for finding in &report.findings {
        writeln!(out, "{}", finding.text)?;
    }
    if report.cut {
        writeln!(out, "stopped after {} findings", report.findings.len())?;
    }
    if !args.quiet {
        let verdict = if report.sound { "sound" } else { "DAMAGED" };
        write!(
            out,
            "{verdict}: {} layers, {}, {} inodes, {} names",
            report.layers,
            human(report.bytes),
            report.inodes,
            report.dentries,
        )?;
        for (name, codec) in &report.codecs {
            let blocks = codec.content_blocks.saturating_add(codec.metadata_blocks);
            write!(out, "; {name}: {blocks} blocks, {}", human(codec.stored_bytes))?;
        }
        writeln!(out)?;
        if report.unused_bytes > 0 {
            writeln!(out, "{} of content that no file uses", human(report.unused_bytes))?;
        }
    }
    out.flush()?;
    Ok(())
}
