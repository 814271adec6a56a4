//! The grammar of the command line.

use clap::{Parser, Subcommand};

use crate::exit::Outcome;
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
    match Cli::parse().verb {
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
