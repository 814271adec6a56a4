//! `microfs cat`

use std::ffi::OsString;
use std::io::Write;

use anyhow::bail;
use clap::Args;
use microfs::stack::StackOptions;

use super::path::find;
use crate::exit::Outcome;
use crate::image;
use crate::options::{self, PlatformArgs};
use crate::output;

/// Print files of an image
#[derive(Debug, Args)]
pub struct CatArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG, then paths in the image, starting with /
    #[arg(required = true, num_args = 1.., value_name = options::THEN_PATH)]
    words: Vec<OsString>,
    #[command(flatten)]
    platform: PlatformArgs,
}

/// Bytes that are read at a time.
const CHUNK: usize = 1 << 20;

/// Writes the files' bytes to standard output.
pub fn run(args: &CatArgs) -> anyhow::Result<Outcome> {
    let (reference, paths) = image::split_paths(&args.words)?;
    if paths.is_empty() {
        bail!("a path in the image is missing");
    }
    let opened = image::open(&reference, &args.platform.request(), &StackOptions::default())?;
    let mut out = output::stdout();
    let mut buffer = vec![0; CHUNK];
    for path in paths {
        let (node, _) = find(&opened.stack, path, true)?;
        let mut offset = 0u64;
        loop {
            let read = opened.stack.read_at(node, offset, &mut buffer);
            let read =
                read.map_err(|error| anyhow::Error::new(error).context(format!("{path:?}")))?;
            if read == 0 {
                break;
            }
            out.write_all(buffer.get(..read).unwrap_or_default())?;
            offset = offset.saturating_add(u64::try_from(read)?);
        }
    }
    out.flush()?;
    Ok(Outcome::Done)
}
