//! The grammar of the command line.

use std::io::Write;

use anyhow::Context;
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::exit::{Outcome, USAGE};
use crate::verbs;

/// Builds container root filesystems into compressed, content-addressed,
/// read-only layers in an OCI image layout, and mounts them without root.
///
/// An image is named OCI-DIR TAG or OCI-DIR:TAG.
#[derive(Debug, Parser)]
#[command(name = "microfs", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Build(Box<verbs::build::BuildArgs>),
    Convert(verbs::convert::ConvertArgs),
    Mount(verbs::mount::MountArgs),
    Umount(verbs::umount::UmountArgs),
    Status(verbs::status::StatusArgs),
    Bundle(verbs::bundle::BundleArgs),
    Extract(verbs::extract::ExtractArgs),
    Export(verbs::export::ExportArgs),
    Squash(verbs::squash::SquashArgs),
    Check(verbs::check::CheckArgs),
    Diff(verbs::diff::DiffArgs),
    Ls(verbs::ls::LsArgs),
    Cat(verbs::cat::CatArgs),
    Inspect(verbs::inspect::InspectArgs),
    Dump(verbs::dump::DumpArgs),
    Images(verbs::images::ImagesArgs),
    Tag(verbs::tag::TagArgs),
    Untag(verbs::tag::UntagArgs),
    Gc(verbs::gc::GcArgs),
    Completions(verbs::docs::CompletionsArgs),
    Manual(verbs::docs::ManualArgs),
}

/// Parses the command line and does what it says.
pub fn run() -> anyhow::Result<Outcome> {
    if let Some(outcome) = verbs::mount::as_mount_helper()? {
        return Ok(outcome);
    }
    let cli = match parse() {
        Ok(cli) => cli,
        Err(other) => return say(&other),
    };
    match cli.verb {
        Verb::Build(args) => verbs::build::run(&args),
        Verb::Convert(args) => verbs::convert::run(&args),
        Verb::Mount(args) => verbs::mount::run(&args),
        Verb::Umount(args) => verbs::umount::run(&args),
        Verb::Status(args) => verbs::status::run(&args),
        Verb::Bundle(args) => verbs::bundle::run(&args),
        Verb::Extract(args) => verbs::extract::run(&args),
        Verb::Export(args) => verbs::export::run(&args),
        Verb::Squash(args) => verbs::squash::run(&args),
        Verb::Check(args) => verbs::check::run(&args),
        Verb::Diff(args) => verbs::diff::run(&args),
        Verb::Ls(args) => verbs::ls::run(&args),
        Verb::Cat(args) => verbs::cat::run(&args),
        Verb::Inspect(args) => verbs::inspect::run(&args),
        Verb::Dump(args) => verbs::dump::run(&args),
        Verb::Images(args) => verbs::images::run(&args),
        Verb::Tag(args) => verbs::tag::run(&args),
        Verb::Untag(args) => verbs::tag::run_untag(&args),
        Verb::Gc(args) => verbs::gc::run(&args),
        Verb::Completions(args) => verbs::docs::completions(&args),
        Verb::Manual(args) => verbs::docs::manual(&args),
    }
}

/// Parses, and counts words that options may stand between: clap counts each
/// run of them by itself.
fn parse() -> Result<Cli, clap::Error> {
    let mut command = Cli::command();
    let matches = command.try_get_matches_from_mut(std::env::args_os())?;
    let Some((verb, of_verb)) = matches.subcommand() else {
        return Cli::from_arg_matches(&matches);
    };
    let (id, least, most) = match verb {
        "mount" | "bundle" | "extract" | "squash" | "diff" | "tag" => ("words", 2, 3),
        "check" | "inspect" | "dump" | "untag" => ("words", 1, 2),
        "build" | "convert" => ("image", 1, 2),
        "export" => ("words", 1, 4),
        "cat" => ("words", 2, usize::MAX),
        _ => return Cli::from_arg_matches(&matches),
    };
    let words: Vec<_> = of_verb.get_raw(id).into_iter().flatten().collect();
    let wrong = match words.get(most) {
        Some(word) => Some(format!("unexpected argument '{}' found", word.display())),
        None if !words.is_empty() && words.len() < least => {
            Some("a word is missing on the command line".to_owned())
        }
        None => None,
    };
    match wrong {
        None => Cli::from_arg_matches(&matches),
        Some(text) => {
            let of_verb = command.find_subcommand_mut(verb);
            Err(of_verb.map_or_else(
                || clap::Error::raw(ErrorKind::WrongNumberOfValues, &text),
                |command| command.error(ErrorKind::WrongNumberOfValues, &text),
            ))
        }
    }
}

/// What the grammar has to say itself: help, version, and wrong usage.
fn say(what: &clap::Error) -> anyhow::Result<Outcome> {
    let printed = what.print().and_then(|()| std::io::stdout().flush());
    if what.use_stderr() {
        // Where it cannot be said, the exit code says it.
        return Ok(Outcome::Failed(USAGE));
    }
    printed.context("cannot write to standard output")?;
    Ok(Outcome::Done)
}
