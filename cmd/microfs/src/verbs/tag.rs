//! `microfs tag` and `microfs untag`

use std::ffi::OsString;

use anyhow::bail;
use clap::Args;
use microfs_oci::{Layout, Reference, Selector};

use crate::exit::Outcome;
use crate::image;
use crate::options;

/// Give an image another tag
#[derive(Debug, Args)]
pub struct TagArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG, then the new tag
    #[arg(required = true, num_args = 1..=3, value_name = options::THEN_TAG)]
    words: Vec<OsString>,
}

/// Remove a tag; `gc` then frees what nothing else uses
#[derive(Debug, Args)]
pub struct UntagArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG
    #[arg(required = true, num_args = 1..=2, value_name = "OCI-DIR[:TAG]")]
    words: Vec<OsString>,
}

fn tag_of(reference: &Reference) -> anyhow::Result<&str> {
    match &reference.selector {
        Selector::Tag(tag) => Ok(tag),
        _ => bail!("a tag is missing: OCI-DIR TAG or OCI-DIR:TAG"),
    }
}

/// Adds a tag.
pub fn run(args: &TagArgs) -> anyhow::Result<Outcome> {
    let (reference, rest) = image::split(&args.words, 1)?;
    let new = image::new_tag(&reference.layout, rest.first())?;
    let layout = Layout::open(&reference.layout)?;
    image::writing("tag", layout.tag(tag_of(&reference)?, new))?;
    Ok(Outcome::Done)
}

/// Removes a tag.
pub fn run_untag(args: &UntagArgs) -> anyhow::Result<Outcome> {
    let (reference, _) = image::split(&args.words, 0)?;
    let layout = Layout::open(&reference.layout)?;
    image::writing("untag", layout.untag(tag_of(&reference)?))?;
    Ok(Outcome::Done)
}
