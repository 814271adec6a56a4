//! OCI image layouts: blob store, images, tags and garbage collection.
//!
//! This crate knows the OCI image specification and nothing of what is inside
//! a layer: a layer is bytes with a media type, a digest and a size.
//!
//! | module | its one job |
//! |---|---|
//! | [`layout`] | the folder: created whole or not at all, `index.json` replaced atomically |
//! | [`session`] | a lease that keeps what a builder has stored safe from [`gc`] |
//! | [`store`] | blobs in (hashed while written) and blobs out (checked while read) |
//! | [`verified`] | a reader that checks digest and size |
//! | [`mod@reference`] | `OCI-DIR`, `OCI-DIR:TAG`, `OCI-DIR@DIGEST` and the grammar of tags |
//! | [`image`] | selector → index entry → manifest → config and layers |
//! | [`platform`] | which of several manifests fits |
//! | [`media_type`] | layer types and annotation keys |
//! | [`assemble`] | layers → config → manifest |
//! | [`tar_layer`] | tar layers out: compressed, hashed before and after, stored |
//! | [`source`] | images to be converted: layouts, archives, single layers |
//! | [`decompress`] | a layer without its outer compression, recognised by its first bytes |
//! | [`runtime`] | image config → `config.json` of a runtime bundle |
//! | [`tags`] | list, tag, untag |
//! | [`gc`] | unreferenced blobs and left-over files |
//!
//! # What other processes see
//!
//! Files of this crate that are not part of the OCI layout live in a folder
//! `.microfs` beside `index.json`, which other tools ignore:
//!
//! | path | meaning |
//! |---|---|
//! | `.microfs/lock` | flocked: shared while a blob is put in place, exclusive while `index.json` changes and while [`gc`] runs |
//! | `.microfs/index.json.new` | the next `index.json`; left over only by a kill |
//! | `.microfs/sessions/N/lease` | flocked by a running builder; lists the digests it relies on |
//! | `.microfs/sessions/N/*.tmp` | blobs being written |
//!
//! Readers take no lock and write nothing, so a read-only store works: every
//! file they see is either replaced by a rename or never changed.
//!
//! # Example
//!
//! ```
//! use std::io::Write;
//! use microfs_oci::{ImageSpec, Layout, NewLayer, Platform, PlatformRequest, Selector, media_type};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! let layout = Layout::create_or_open(dir.path().join("store"))?;
//! let session = layout.begin()?;
//! let mut layer = session.blob()?;
//! layer.write_all(b"the bytes of a layer")?;
//! let layer = layer.commit()?;
//! let spec = ImageSpec {
//!     layers: vec![NewLayer::opaque(media_type::microfs_layer(), layer)],
//!     platform: Some(Platform::new("linux", "amd64")),
//!     ..ImageSpec::default()
//! };
//! let image = session.assemble(&spec)?;
//! session.publish("first", &image.manifest)?;
//!
//! let image = layout.resolve(&Selector::Tag("first".into()), &PlatformRequest::Host)?;
//! assert_eq!(image.layers.len(), 1);
//! # Ok(())
//! # }
//! ```

pub mod assemble;
pub mod config;
mod create;
pub mod decompress;
pub mod descriptor;
mod dir;
pub mod error;
pub mod gc;
pub mod image;
pub mod index;
mod json;
pub mod layout;
pub mod limits;
mod lock;
pub mod media_type;
pub mod platform;
pub mod reference;
pub mod runtime;
mod select;
pub mod session;
pub mod source;
pub mod store;
pub mod tags;
pub mod tar_layer;
pub mod verified;

pub use assemble::{Assembled, HistoryChange, ImageSpec, NewLayer};
pub use config::ConfigOptions;
pub use descriptor::Descriptor;
pub use error::OciError;
pub use gc::{GcOptions, GcReport};
pub use image::{BlobSource, Image, ImageLayer};
pub use index::Index;
pub use layout::Layout;
pub use limits::Limits;
pub use media_type::{Compression, LayerKind};
pub use oci_spec::image::{Digest, DigestAlgorithm, History, HistoryBuilder, MediaType};
pub use platform::{Platform, PlatformRequest};
pub use reference::{Reference, Selector, check_tag};
pub use session::Session;
pub use source::{LayerReader, Source, SourceError, SourceImage, SourceLayer, VerifiedLayer};
pub use store::{Blob, BlobWriter};
pub use tags::{ListedImage, ListedManifest};
pub use tar_layer::{TarCompression, TarEncoder, TarLayerWriter};
pub use verified::VerifiedReader;
