//! `microfs images`

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use microfs_oci::{Layout, OciError};
use serde::Serialize;

use crate::exit::{Outcome, chain_text};
use crate::output;

/// List the images of a layout
#[derive(Debug, Args)]
pub struct ImagesArgs {
    /// The layout
    #[arg(value_name = "OCI-DIR")]
    layout: PathBuf,
    /// Print the list as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    tag: Option<String>,
    digest: String,
    platform: Option<String>,
    layers: Option<usize>,
    bytes: Option<u64>,
    problem: Option<String>,
}

/// Prints one line for each manifest, and one on standard error for each
/// entry of the index that is broken.
pub fn run(args: &ImagesArgs) -> anyhow::Result<Outcome> {
    let layout = Layout::open(&args.layout)?;
    let index = layout.index()?;
    let broken = index.broken();
    let mut rows = Vec::new();
    for listed in layout.list_of(&index) {
        let tag = listed.entry.tag().map(str::to_owned);
        let broken = |digest: String, problem: String| Row {
            tag: tag.clone(),
            digest,
            platform: None,
            layers: None,
            bytes: None,
            problem: Some(problem),
        };
        let manifests = match listed.manifests {
            Ok(manifests) => manifests,
            Err(error) => {
                rows.push(broken(listed.entry.digest.to_string(), error.to_string()));
                continue;
            }
        };
        for manifest in manifests {
            let digest = manifest.manifest.digest.to_string();
            rows.push(match manifest.image {
                Ok(image) => Row {
                    tag: tag.clone(),
                    digest,
                    platform: Some(image.platform.to_string()),
                    layers: Some(image.layers.len()),
                    bytes: Some(image.layers_size()),
                    problem: None,
                },
                Err(error) => broken(digest, error.to_string()),
            });
        }
    }
    if args.json {
        output::json(&rows)?;
        return outcome(&broken);
    }
    let mut out = output::stdout();
    for row in &rows {
        let tag = row.tag.as_deref().unwrap_or("-");
        write!(out, "{tag}\t{}", row.digest)?;
        match (&row.platform, row.layers, row.bytes, &row.problem) {
            (Some(platform), Some(layers), Some(bytes), _) => {
                writeln!(out, "\t{platform}\t{layers} layers\t{}", output::human(bytes))?;
            }
            (.., problem) => writeln!(out, "\t{}", problem.as_deref().unwrap_or("-"))?,
        }
    }
    out.flush()?;
    outcome(&broken)
}

/// Names each entry that cannot be listed; with one, the list is not whole.
fn outcome(broken: &[OciError]) -> anyhow::Result<Outcome> {
    for error in broken {
        output::remark(format_args!("{}", chain_text(error)))?;
    }
    Ok(if broken.is_empty() { Outcome::Done } else { Outcome::Negative })
}
