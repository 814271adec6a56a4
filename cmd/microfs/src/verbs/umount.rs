//! `microfs umount`

use std::path::PathBuf;

use clap::Args;
use microfs_fuse::{Unmount, unmount};

use crate::exit::Outcome;

/// Take a mount down
///
/// Any FUSE mount is taken down, and with a writable one the overlay over it.
#[derive(Debug, Args)]
pub struct UmountArgs {
    /// Where it is mounted
    directory: PathBuf,
    /// Take it out of sight now; it ends when its last user does
    #[arg(long, short)]
    lazy: bool,
}

/// Unmounts and waits until the mount is gone.
pub fn run(args: &UmountArgs) -> anyhow::Result<Outcome> {
    let how = if args.lazy { Unmount::Lazily } else { Unmount::WhenIdle };
    unmount(&args.directory, how)?;
    Ok(Outcome::Done)
}
