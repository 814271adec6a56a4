//! `microfs build --base`: an image to build on top of.

use std::sync::Arc;

use anyhow::{Context, bail};
use microfs::stack::{Stack, StackOptions};
use microfs_oci::{
    Digest, HistoryChange, Layout, NewLayer, Platform, PlatformRequest, Reference, Selector,
    Session,
};

use crate::image::{self, Opened};

/// Most layers of an image: container runtimes give up above.
pub const LAYERS_MAX: usize = 127;

/// An image whose layers the new one begins with.
pub struct Base {
    image: microfs_oci::Image,
    /// Its merged tree.
    pub stack: Arc<Stack>,
}

impl Base {
    /// Opens the image of a tag or digest of the layout that is built into,
    /// and keeps its layers for as long as the session lasts.
    pub fn open(
        layout: &Layout,
        session: &Session,
        name: &str,
        platform: Option<Platform>,
    ) -> anyhow::Result<Self> {
        let name = image::without_layout(layout.path(), name).unwrap_or(name);
        let selector = match name.strip_prefix('@').unwrap_or(name).parse::<Digest>() {
            Ok(digest) => Selector::Digest(digest),
            Err(_) => Selector::Tag(name.to_owned()),
        };
        let reference = Reference { layout: layout.path().to_path_buf(), selector };
        let platform = platform.map_or(PlatformRequest::Host, PlatformRequest::Exact);
        let Opened { image, stack, .. } =
            image::open(&reference, &platform, &StackOptions::default()).with_context(|| {
                format!("cannot build on {}", image::reference_text(&reference))
            })?;
        if image.layers.len() >= LAYERS_MAX {
            bail!(
                "{} has {} layers, and no image should have more than {LAYERS_MAX}: \
                 make one layer of them with `microfs squash`",
                image::reference_text(&reference),
                image.layers.len(),
            );
        }
        for layer in &image.layers {
            let descriptor = &layer.descriptor;
            if !session.reuse(&descriptor.digest, descriptor.size)? {
                bail!("layer {} of the base image has gone meanwhile", descriptor.digest);
            }
        }
        Ok(Self { image, stack })
    }

    /// Base-2 logarithm of the content block size that goes with it.
    pub fn block_log(&self) -> Option<u8> {
        let top = self.stack.layers().last()?;
        (!self.image.layers.is_empty()).then(|| top.superblock().block_log)
    }

    /// Its layers, as they stand in its manifest.
    pub fn layers(&self) -> Vec<NewLayer> {
        let layer = |layer: &microfs_oci::ImageLayer| NewLayer {
            descriptor: layer.descriptor.clone(),
            diff_id: layer.diff_id.clone(),
        };
        self.image.layers.iter().map(layer).collect()
    }

    /// Its config.
    pub fn config(&self) -> Vec<u8> {
        self.image.config_json.clone()
    }

    /// One more entry where there is a history; it has one for each layer.
    pub fn history(&self, created: Option<&str>) -> anyhow::Result<HistoryChange> {
        let has_history =
            self.image.configuration()?.history().as_ref().is_some_and(|h| !h.is_empty());
        if !has_history {
            return Ok(HistoryChange::Keep);
        }
        let mut entry = image::history_entry(&self.image, "microfs build --base")?;
        if let Some(created) = created {
            entry.set_created(Some(created.to_owned()));
        }
        Ok(HistoryChange::Append(vec![entry]))
    }
}
