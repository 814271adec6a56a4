//! `microfs dump`

use std::ffi::OsString;
use std::io::Write;

use clap::Args;
use microfs::dump::{DumpOptions, dump};
use microfs::stack::StackOptions;

use crate::exit::Outcome;
use crate::image;
use crate::options::PlatformArgs;
use crate::output;

/// Print an image as composefs-dump text
#[derive(Debug, Args)]
pub struct DumpArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG
    #[arg(required = true, num_args = 1..=2, value_name = "OCI-DIR[:TAG]")]
    words: Vec<OsString>,
    /// Print the fs-verity digest of files whose content is not printed
    #[arg(long)]
    digests: bool,
    /// Print the content of files of at most so many bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u64).range(..=5000))]
    inline_max: u64,
    #[command(flatten)]
    platform: PlatformArgs,
}

/// Prints one line for each name.
pub fn run(args: &DumpArgs) -> anyhow::Result<Outcome> {
    let (reference, _) = image::split(&args.words, 0)?;
    let opened = image::open(&reference, &args.platform.request(), &StackOptions::default())?;
    let options = DumpOptions { inline_max: args.inline_max, digests: args.digests };
    let mut out = output::stdout();
    dump(&opened.stack, &options, &mut out)?;
    out.flush()?;
    Ok(Outcome::Done)
}
