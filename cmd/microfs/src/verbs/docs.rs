//! `microfs completions` and `microfs manual`: made from the grammar itself.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Outcome;
use crate::output;

/// Print completions for a shell
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Write the manual pages into a directory
#[derive(Debug, Args)]
pub struct ManualArgs {
    /// Where to write them
    directory: PathBuf,
}

/// Prints the completion script.
pub fn completions(args: &CompletionsArgs) -> anyhow::Result<Outcome> {
    let mut command = Cli::command();
    // Into memory first: it panics when it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "microfs", &mut script);
    let mut out = output::stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(Outcome::Done)
}

/// Writes one page for the program and one for each verb.
pub fn manual(args: &ManualArgs) -> anyhow::Result<Outcome> {
    let directory = &args.directory;
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .with_context(|| format!("cannot write manual pages to {}", directory.display()))?;
    Ok(Outcome::Done)
}
