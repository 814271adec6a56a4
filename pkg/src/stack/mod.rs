//! Several layers as one tree.
//!
//! Layers lie bottom first; the rules are the OCI image-spec's ("Image Layer
//! Filesystem Changeset"): a whiteout hides what is below, an opaque directory
//! hides everything below, a directory over a directory merges and the upper
//! one's metadata counts, anything else replaces. Directories are merged when
//! they are first listed, so opening costs a few KiB a layer.
//!
//! **Numbers.** The root is 1; every other object is `2 + base + index`, where
//! `base` counts the inodes of the layers below its own. Numbers depend on the
//! layers alone: any process can serve a number that another one gave out.

use std::sync::{Arc, OnceLock};

use crate::error::ReadError;
use crate::format::blob_table::BlobRecord;
use crate::format::inode::{FileData, Inode, InodeKind};
use crate::format::{index, index64, wide};
use crate::reader::{Block, BlockCache, CacheCounts, Image, Share};
use crate::source::ReadAt;

pub use self::attr::Attr;
pub use self::hazards::OverlayHazard;
pub use self::knowledge::XattrKnowledge;
pub use self::links::UnresolvedLink;
pub use self::list::DirEntry;
use self::redirect::Redirects;

mod attr;
mod cache;
mod hazards;
mod knowledge;
mod links;
mod list;
mod merge;
mod redirect;
mod walk;

#[cfg(test)]
mod tests;

/// Number of an object in a stack; equal to its FUSE inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeNum(pub u64);

impl NodeNum {
    /// The root directory.
    pub const ROOT: Self = Self(1);
}

/// Number of the first inode of the lowest layer.
const FIRST: u64 = 2;

/// An inode of one of the layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LayerInode {
    /// The layer, 0 being the lowest.
    pub layer: u32,
    /// Its inode index there.
    pub inode: u32,
}

/// Where the content of a file begins in its layer's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedFile {
    /// Number of the content block.
    pub block: u64,
    /// First byte in it.
    pub offset: u32,
    /// Size of the file in bytes; it may go on in the next blocks.
    pub size: u64,
}

/// How a stack reads.
#[derive(Debug, Clone, Copy)]
pub struct StackOptions {
    /// Bytes of decoded blocks to keep.
    pub cache_bytes: u64,
    /// Bytes of merged directory listings to keep.
    pub listing_bytes: u64,
}

impl Default for StackOptions {
    fn default() -> Self {
        Self { cache_bytes: 64 << 20, listing_bytes: 16 << 20 }
    }
}

/// Sums over all layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Inodes of all layers.
    pub inodes: u64,
    /// Plain bytes of content.
    pub plain_bytes: u64,
    /// Bytes of all blobs.
    pub stored_bytes: u64,
    /// Content block size of the top layer, in bytes.
    pub block_size: u32,
}

/// An opened stack of layers.
#[derive(Debug)]
pub struct Stack {
    layers: Vec<Arc<Image>>,
    /// SHA-256 of each layer's blob, where known.
    digests: Vec<Option<[u8; 32]>>,
    bases: Vec<u64>,
    cache: Arc<BlockCache>,
    merge: cache::MergeCache,
    knowledge: XattrKnowledge,
    redirects: Redirects,
    links: OnceLock<links::LinksBelow>,
    counts: links::LinkCounts,
}

/// A blob and, where known, its SHA-256 for the blob tables of layers above.
pub struct LayerSource {
    /// The blob's bytes.
    pub source: Box<dyn ReadAt>,
    /// SHA-256 of the blob: its OCI digest.
    pub sha256: Option<[u8; 32]>,
}

impl Stack {
    /// Opens layers, the lowest first. Costs a few KiB a layer, whatever its size.
    ///
    /// # Errors
    /// Everything of [`Image::open`]; [`ReadError::MissingBlob`] when a layer
    /// refers to a blob that is not below it; [`ReadError::Limit`] for no
    /// layers, more than 4096, or numbers beyond 2^63.
    pub fn open(layers: Vec<LayerSource>, options: &StackOptions) -> Result<Self, ReadError> {
        const LAYERS_MAX: u64 = 4096;
        let limit = |what| ReadError::Limit { what, limit: LAYERS_MAX };
        if layers.is_empty() || wide(layers.len()) > LAYERS_MAX {
            return Err(limit("layers of a stack"));
        }
        let cache = Arc::new(BlockCache::new(options.cache_bytes));
        let mut opened: Vec<(Arc<Image>, Option<[u8; 32]>)> = Vec::new();
        let mut bases = Vec::new();
        let mut base = 0u64;
        for (number, layer) in (0u32..).zip(layers) {
            let mut image = Image::open(layer.source, number, Arc::clone(&cache))?;
            let mut below = Vec::new();
            for record in image.blob_table() {
                let wanted = |(_, sha256): &&(Arc<Image>, Option<[u8; 32]>)| {
                    *sha256 == Some(record.blob_sha256)
                };
                match opened.iter().find(wanted) {
                    Some((image, _)) => below.push(Arc::clone(image)),
                    None => {
                        let digest = record.blob_sha256;
                        return Err(ReadError::MissingBlob { layer: number, digest });
                    }
                }
            }
            image.attach(below)?;
            bases.push(base);
            base = base.saturating_add(image.superblock().inode_count());
            opened.push((Arc::new(image), layer.sha256));
        }
        let (layers, digests): (Vec<_>, _) = opened.into_iter().unzip();
        let knowledge = XattrKnowledge::of(&layers)?;
        let mut stack = Self {
            layers,
            digests,
            bases,
            cache,
            merge: cache::MergeCache::new(options.listing_bytes),
            knowledge,
            redirects: Redirects::default(),
            links: OnceLock::new(),
            counts: links::LinkCounts::default(),
        };
        stack.redirect()?;
        // Numbers were given out while the redirects were not yet known.
        stack.merge = cache::MergeCache::new(options.listing_bytes);
        stack.counts = links::LinkCounts::default();
        Ok(stack)
    }

    /// The layers, the lowest first.
    #[must_use]
    pub fn layers(&self) -> &[Arc<Image>] {
        &self.layers
    }

    /// What a blob table says of a layer; `None` when there is none of that
    /// number, or the stack was opened without the digest of its blob.
    #[must_use]
    pub fn blob_record(&self, layer: u32) -> Option<BlobRecord> {
        let image = self.layers.get(index(layer))?;
        Some(BlobRecord {
            blob_sha256: self.digests.get(index(layer)).copied().flatten()?,
            superblock_sha256: image.superblock_sha256(),
            length: image.superblock().blob_length,
        })
    }

    fn image(&self, layer: u32) -> Result<&Image, ReadError> {
        let image = self.layers.get(index(layer));
        image.map(|image| &**image).ok_or(ReadError::NoSuchNode(0))
    }

    fn top(&self) -> u32 {
        u32::try_from(self.layers.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// The number of an inode of a layer; that of any layer's root is 1.
    #[must_use]
    pub fn number(&self, at: LayerInode) -> NodeNum {
        if at.inode == 0 {
            return NodeNum::ROOT;
        }
        let base = self.bases.get(index(at.layer)).copied().unwrap_or(0);
        NodeNum(FIRST.saturating_add(base).saturating_add(u64::from(at.inode)))
    }

    /// The inode behind a number. For the root, that of the top layer.
    ///
    /// # Errors
    /// [`ReadError::NoSuchNode`].
    pub fn resolve(&self, node: NodeNum) -> Result<LayerInode, ReadError> {
        if node == NodeNum::ROOT {
            return Ok(LayerInode { layer: self.top(), inode: 0 });
        }
        let unknown = ReadError::NoSuchNode(node.0);
        let Some(number) = node.0.checked_sub(FIRST) else { return Err(unknown) };
        let after = self.bases.partition_point(|base| *base <= number);
        let Some(layer) = after.checked_sub(1) else { return Err(unknown) };
        let base = self.bases.get(layer).copied().unwrap_or(0);
        let inode = u32::try_from(number.saturating_sub(base)).unwrap_or(u32::MAX);
        let count = self.layers.get(layer).map_or(0, |image| image.superblock().inode_count());
        if inode == 0 || u64::from(inode) >= count {
            return Err(unknown);
        }
        Ok(LayerInode { layer: u32::try_from(layer).unwrap_or(u32::MAX), inode })
    }

    fn inode(&self, at: LayerInode) -> Result<Inode, ReadError> {
        self.image(at.layer)?.inode(at.inode)
    }

    fn open_node(&self, node: NodeNum) -> Result<(&Image, Inode), ReadError> {
        let at = self.resolve(node)?;
        let image = self.image(at.layer)?;
        let inode = image.inode(at.inode)?;
        // A link-below is a name for something else and has no number of its own.
        if matches!(inode.kind, InodeKind::LinkBelow(_)) {
            let target = image.target(&inode)?;
            return Err(ReadError::LinkUnresolved { target });
        }
        Ok((image, inode))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`ReadError::NotASymlink`] and everything of the reader.
    pub fn read_link(&self, node: NodeNum) -> Result<Vec<u8>, ReadError> {
        let (image, inode) = self.open_node(node)?;
        image.target(&inode)
    }

    /// Fills `buffer` from byte `offset` of a regular file; returns the number
    /// of bytes, fewer than asked only at the end. Holes read as zeros.
    ///
    /// # Errors
    /// [`ReadError::IsADirectory`], [`ReadError::NotARegularFile`] and
    /// everything of the reader.
    pub fn read_at(
        &self,
        node: NodeNum,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, ReadError> {
        let (image, inode) = self.open_node(node)?;
        image.read_at(&inode, offset, buffer)
    }

    /// As [`Stack::read_at`]; `shares` hears of every block that was decoded,
    /// now or before, and not wanted whole.
    ///
    /// # Errors
    /// As [`Stack::read_at`].
    pub fn read_sharing(
        &self,
        node: NodeNum,
        offset: u64,
        buffer: &mut [u8],
        shares: &mut dyn FnMut(Share),
    ) -> Result<usize, ReadError> {
        let (image, inode) = self.open_node(node)?;
        image.read_sharing(&inode, offset, buffer, shares)
    }

    /// Where a layer's file begins. The inner `None` is for other objects, files whose
    /// data are elsewhere or have holes, and empty ones; the outer for numbers
    /// that the layer has not. Files that were packed one after the other have
    /// numbers that follow each other, or nearly so.
    ///
    /// # Errors
    /// Everything of the reader.
    pub fn packed_file(&self, at: LayerInode) -> Result<Option<Option<PackedFile>>, ReadError> {
        let image = self.image(at.layer)?;
        if u64::from(at.inode) >= image.superblock().inode_count() {
            return Ok(None);
        }
        let inode = image.inode(at.inode)?;
        Ok(Some(match inode.kind {
            InodeKind::Regular(FileData::Inline(slice)) if slice.blob == 0 => {
                Some(PackedFile { block: slice.block, offset: slice.offset, size: inode.size })
            }
            _ => None,
        }))
    }

    /// The plain bytes of a content block, from the cache if they are there.
    ///
    /// # Errors
    /// Everything of the reader.
    pub fn content_block(&self, layer: u32, number: u64) -> Result<Block, ReadError> {
        self.image(layer)?.content_block(number)
    }

    /// First byte at or after `offset` that is data; `None` when only holes
    /// follow, or `offset` is at or past the end.
    ///
    /// # Errors
    /// As [`Stack::read_at`].
    pub fn seek_data(&self, node: NodeNum, offset: u64) -> Result<Option<u64>, ReadError> {
        let (image, inode) = self.open_node(node)?;
        image.seek_data(&inode, offset)
    }

    /// First byte at or after `offset` that is in a hole, the end of the file
    /// being one; `None` when `offset` is at or past the end.
    ///
    /// # Errors
    /// As [`Stack::read_at`].
    pub fn seek_hole(&self, node: NodeNum, offset: u64) -> Result<Option<u64>, ReadError> {
        let (image, inode) = self.open_node(node)?;
        image.seek_hole(&inode, offset)
    }

    /// Sums over all layers.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals { block_size: self.block_size(), ..Totals::default() };
        for image in &self.layers {
            let superblock = image.superblock();
            let plain = superblock.totals.data_bytes.get();
            totals.inodes = totals.inodes.saturating_add(superblock.inode_count());
            totals.plain_bytes = totals.plain_bytes.saturating_add(plain);
            totals.stored_bytes = totals.stored_bytes.saturating_add(superblock.blob_length);
        }
        totals
    }

    /// Content block size of the top layer, in bytes.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        self.layers.last().map_or(4096, |image| image.superblock().block_size())
    }

    /// What the block cache did so far.
    #[must_use]
    pub fn cache_counts(&self) -> CacheCounts {
        self.cache.counts()
    }

    /// Bytes of decoded blocks held now.
    #[must_use]
    pub fn cache_bytes(&self) -> usize {
        index64(self.cache.bytes())
    }
}
