//! `microfs check`

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use microfs::check::{CheckOptions, CheckReport, CodecCount, Finding as Found, check_stack};
use microfs::format::Codec;
use microfs::stack::StackOptions;
use serde::Serialize;

use crate::exit::{Outcome, chain_text};
use crate::image;
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

#[derive(Debug, Serialize)]
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
    let opened = image::open(&reference, &args.platform.request(), &StackOptions::default())?;
    let quiet = args.quiet || args.json;
    let bar = Bar::bytes("checking", opened.stack.totals().stored_bytes, quiet);
    let options = CheckOptions { findings_max: args.max };
    let pool = args.threads.pool()?;
    let mut report = report(&check_stack(&opened.stack, &options, &pool, &bar));
    bar.finish();
    // The digests of whole blobs, on top of every digest inside them.
    for layer in &opened.image.layers {
        if let Err(error) = opened.layout.verify_blob(&layer.descriptor) {
            report.findings.push(Finding { rule: None, text: chain_text(&error) });
            report.sound = false;
        }
    }
    if args.json {
        output::json(&report)?;
    } else {
        print(args, &report)?;
    }
    Ok(if report.sound { Outcome::Done } else { Outcome::Negative })
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
