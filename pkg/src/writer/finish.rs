//! Parts 2, 3 and 1: metadata, block pointers, superblock.

use std::io::Write;

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U32, U64};

use super::blocks::PartSums;
use super::content::{Content, ContentWriter, Contents, DedupCounts};
use super::dentries::{DentryPacker, hard_links, kind_of};
use super::error::WriteError;
use super::heap::Heap;
use super::sections::SectionWriter;
use super::xattrs::XattrSections;
use super::{Options, encoder};
use crate::format::block_pointer::POINTER_SIZE;
use crate::format::dentry::DentryKind;
use crate::format::extent::Extent;
use crate::format::inode::{FileData, Inode, InodeKind};
use crate::format::section::{Section, Sections};
use crate::format::superblock::{RawTotals, Superblock};
use crate::format::{Codec, PROLOGUE_SIZE, SUPERBLOCK_SIZE, WINDOW_LOG_MAX, wide};
use crate::tree::{NodeId, NodeKind, Target, ValidTree};

/// Base-2 logarithm of the number of block pointers in a page.
const POINTERS_LOG: u8 = 6;

/// What was written.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The superblock.
    pub superblock: Superblock,
    /// Its 4096 bytes, the end of the blob.
    pub superblock_bytes: [u8; SUPERBLOCK_SIZE],
    /// What deduplication saved.
    pub dedup: DedupCounts,
}

impl<W: Write> ContentWriter<W> {
    /// Writes the metadata of `tree`, whose files' content this writer was
    /// given under the same node ids, the block pointers and the superblock.
    ///
    /// # Errors
    /// Any [`WriteError`]; the blob is then unusable.
    pub fn finish(mut self, tree: &ValidTree) -> Result<(W, Summary), WriteError> {
        self.finish_content()?;
        let content_sums = self.blocks.finish_part()?;
        let content_blocks = self.blocks.block_count();
        let content = (wide(PROLOGUE_SIZE), self.blocks.offset());
        let dedup = self.dedup();
        let blobs = self.below.records();
        let Self { mut blocks, options, contents, .. } = self;

        let mut totals = RawTotals::default();
        let size = options.metadata_size();
        let mut heap = Heap::new(size);
        let xattrs = XattrSections::build(tree, &mut heap)?;
        let targets = target_positions(tree, &mut heap);
        let sections = SectionWriter::new(&mut blocks, options.metadata_compression(), size);
        let hollow = tree.hollow();
        let layout = Layout {
            tree,
            contents: &contents,
            options: &options,
            xattrs: &xattrs,
            hollow: &hollow,
        };
        let spans = layout.write(sections, &heap, targets, &mut totals)?;
        let metadata_sums = blocks.finish_part()?;
        let metadata = (content.1, blocks.offset());

        let pointers_offset = blocks.offset();
        let pages = write_pointers(&mut blocks, &options)?;
        let pages_offset = blocks.offset();
        let mut tail = pages;
        for blob in &blobs {
            tail.extend_from_slice(blob.to_raw().as_bytes());
        }
        blocks.write(&tail)?;
        let blob_bytes = wide(blobs.len()).saturating_mul(72);
        let blobs_offset = blocks.offset().saturating_sub(blob_bytes);
        let unit = wide(SUPERBLOCK_SIZE);
        let padded = blocks.offset().next_multiple_of(unit);
        let padding = padded.saturating_sub(blocks.offset());
        blocks.write(&vec![0; usize::try_from(padding).unwrap_or(0)])?;

        totals.content_plain = content_sums.plain.into();
        totals.content_stored = content_sums.stored.into();
        totals.metadata_plain = metadata_sums.plain.into();
        totals.metadata_stored = metadata_sums.stored.into();
        let superblock = Superblock {
            blob_length: padded.saturating_add(unit),
            block_log: options.block_log,
            metadata_log: options.metadata_log,
            page_log: POINTERS_LOG,
            window_log: window_log(&options, &[content_sums, metadata_sums]),
            digest_algorithm: options.digest,
            content_codecs: content_sums.codecs,
            metadata_codecs: metadata_sums.codecs,
            content_blocks,
            content,
            metadata,
            pointers_offset,
            pages_offset,
            blobs_offset,
            blob_count: u32::try_from(blobs.len()).map_err(|_| WriteError::TooMany("blobs"))?,
            tail_digest: options.digest.digest(&tail),
            sections: spans,
            totals,
            xattr_known: xattrs.known,
            encoder: encoder_field(),
        };
        let superblock_bytes = superblock.to_bytes();
        blocks.write(&superblock_bytes)?;
        Ok((blocks.into_sink(), Summary { superblock, superblock_bytes, dedup }))
    }
}

/// Adds link targets and link-below paths to the heap, in inode order.
fn target_positions(tree: &ValidTree, heap: &mut Heap) -> Vec<u64> {
    let mut positions = Vec::new();
    for node in tree.order() {
        match tree.node(*node).kind {
            NodeKind::Symlink { target } | NodeKind::LinkBelow { path: target } => {
                positions.push(heap.add(tree.tree().bytes(target)));
            }
            _ => {}
        }
    }
    positions
}

fn window_log(options: &Options, parts: &[PartSums]) -> u8 {
    let zstd = |part: &PartSums| part.codecs & Codec::Zstd.bit() != 0;
    if !parts.iter().any(zstd) {
        return 0;
    }
    // A frame's window is its content, or the power of two above it.
    options.block_log.max(options.metadata_log).clamp(10, WINDOW_LOG_MAX)
}

fn encoder_field() -> [u8; 64] {
    let mut field = [0; 64];
    let text = encoder();
    let length = text.len().min(field.len());
    if let (Some(to), Some(from)) = (field.get_mut(..length), text.as_bytes().get(..length)) {
        to.copy_from_slice(from);
    }
    field
}

fn write_pointers<W: Write>(
    blocks: &mut super::blocks::BlockSink<W>,
    options: &Options,
) -> Result<Vec<u8>, WriteError> {
    let mut bytes = Vec::new();
    for pointer in blocks.pointers() {
        bytes.extend_from_slice(pointer?.to_raw().as_bytes());
    }
    blocks.write(&bytes)?;
    let page = POINTER_SIZE << POINTERS_LOG;
    Ok(bytes.chunks(page).flat_map(|page| options.digest.digest(page)).collect())
}

/// Everything that the metadata sections are made from.
struct Layout<'a> {
    tree: &'a ValidTree,
    contents: &'a Contents,
    options: &'a Options,
    xattrs: &'a XattrSections,
    hollow: &'a [bool],
}

impl Layout<'_> {
    fn write<W: Write>(
        &self,
        mut out: SectionWriter<'_, W>,
        heap: &Heap,
        targets: Vec<u64>,
        totals: &mut RawTotals,
    ) -> Result<Sections, WriteError> {
        let mut cursor = Cursor { extents: 0, targets: targets.into_iter() };
        out.records::<72, _>(self.tree.order().iter().map(|node| {
            let inode = self.inode(*node, &mut cursor)?;
            self.count(&inode, *node, totals);
            Ok(inode.to_raw())
        }))?;
        let index = self.dentries(&mut out, totals)?;
        out.records::<8, _>(index.into_iter().map(U64::new).map(Ok))?;
        let several = self.tree.order().iter().flat_map(|node| self.extents(*node));
        out.records::<24, _>(several.map(Extent::to_raw).map(Ok))?;
        out.records::<12, _>(self.xattrs.sets.iter().copied().map(Ok))?;
        out.records::<16, _>(self.xattrs.entries.iter().copied().map(Ok))?;
        out.records::<12, _>(self.xattrs.names.iter().copied().map(Ok))?;
        out.heap(heap.bytes())?;
        out.records::<16, _>(hard_links(self.tree).into_iter().map(Ok))?;
        out.records::<4, _>(self.implied().map(U32::new).map(Ok))?;
        let size = wide(out.size());
        let spans: [(u64, u64); Section::ALL.len()] =
            out.spans.try_into().map_err(|_| WriteError::TooMany("sections"))?;
        Sections::new(spans, size).map_err(|_| WriteError::TooMany("metadata blocks"))
    }

    fn dentries<W: Write>(
        &self,
        out: &mut SectionWriter<'_, W>,
        totals: &mut RawTotals,
    ) -> Result<Vec<u64>, WriteError> {
        let mut packer = DentryPacker::new(out.size());
        let tree = self.tree.tree();
        for dentry in tree.dentries() {
            let kind = kind_of(self.tree, dentry.target);
            let inode = match dentry.target {
                Target::Node(node) => self.tree.inode_index(node),
                Target::Whiteout => 0,
            };
            if kind == DentryKind::Whiteout {
                totals.whiteouts += 1;
            }
            if let Some(full) = packer.add(tree.bytes(dentry.name), inode, kind) {
                out.block(full)?;
            }
        }
        if let Some(last) = packer.take() {
            out.block(last)?;
        }
        out.spans.push((wide(packer.index.len()), wide(tree.dentries().len())));
        Ok(packer.index)
    }

    fn implied(&self) -> impl Iterator<Item = u32> {
        let flagged = |node: &&NodeId| {
            matches!(self.tree.node(**node).kind, NodeKind::Directory { implied: true, .. })
        };
        let order = self.tree.order().iter().filter(flagged);
        order.map(|node| self.tree.inode_index(*node))
    }

    /// The extent records of a file; none when it is empty or its only extent
    /// is in the inode.
    fn extents(&self, node: NodeId) -> &[Extent] {
        match (self.contents.of(node), self.tree.node(node).kind) {
            (Content::Extents { first, count, .. }, NodeKind::Regular { .. }) => {
                self.contents.extents(first, count)
            }
            _ => &[],
        }
    }

    fn inode(&self, node: NodeId, cursor: &mut Cursor) -> Result<Inode, WriteError> {
        let tree = self.tree;
        let index = tree.inode_index(node);
        let record = tree.node(node);
        let metadata = record.metadata;
        let target =
            |cursor: &mut Cursor, length: usize| (cursor.targets.next().unwrap_or(0), wide(length));
        let (kind, size, hole_bytes) = match record.kind {
            NodeKind::Regular { size } => {
                let data = self.file_data(node, size, cursor)?;
                (InodeKind::Regular(data), size, self.hole_bytes(node, size))
            }
            NodeKind::Directory { opaque, implied } => {
                let first = tree.first_dentry(node).unwrap_or(0);
                let count = u32::try_from(tree.children(node).len());
                let count = count.map_err(|_| WriteError::TooMany("names in a directory"))?;
                let first = if count == 0 { 0 } else { first };
                let hollow = self.hollow.get(crate::format::index(index)).copied();
                let hollow = hollow.unwrap_or(false);
                (InodeKind::Directory { first, count, opaque, implied, hollow }, 0, 0)
            }
            NodeKind::Symlink { target: bytes } => {
                let (at, size) = target(cursor, tree.tree().bytes(bytes).len());
                (InodeKind::Symlink(at), size, 0)
            }
            NodeKind::LinkBelow { path } => {
                let (at, size) = target(cursor, tree.tree().bytes(path).len());
                (InodeKind::LinkBelow(at), size, 0)
            }
            NodeKind::CharDevice(device) => (InodeKind::CharDevice(device), 0, 0),
            NodeKind::BlockDevice(device) => (InodeKind::BlockDevice(device), 0, 0),
            NodeKind::Fifo => (InodeKind::Fifo, 0, 0),
            NodeKind::Socket => (InodeKind::Socket, 0, 0),
        };
        let dentry = tree.first_name(index);
        let parent = dentry
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| tree.tree().dentries().get(at))
            .map_or(0, |dentry| tree.inode_index(dentry.parent));
        let link = matches!(kind, InodeKind::LinkBelow(_));
        Ok(Inode {
            index,
            permissions: if link { 0 } else { metadata.permissions & 0o7777 },
            uid: metadata.uid,
            gid: metadata.gid,
            links: tree.links(index),
            size,
            hole_bytes,
            mtime: metadata.mtime,
            xattrs: self.xattrs.number(metadata.xattrs),
            parent,
            dentry,
            kind,
        })
    }

    fn file_data(
        &self,
        node: NodeId,
        size: u64,
        cursor: &mut Cursor,
    ) -> Result<FileData, WriteError> {
        let extents = self.extents(node);
        match self.contents.of(node) {
            Content::None if size == 0 => Ok(FileData::Empty),
            Content::Slice { slice, end } if end == size => Ok(FileData::Inline(slice)),
            Content::Extents { count, end, .. } if covers(extents, end, size) => {
                let first = cursor.extents;
                cursor.extents = first.saturating_add(u64::from(count));
                Ok(FileData::Extents { first, count })
            }
            _ => Err(WriteError::MissingContent),
        }
    }

    fn hole_bytes(&self, node: NodeId, size: u64) -> u64 {
        let extents = self.extents(node);
        let ends = extents.iter().skip(1).map(|extent| extent.file_offset).chain([size]);
        let holes = extents.iter().zip(ends).filter(|(extent, _)| extent.data.is_none());
        holes.map(|(extent, end)| end.saturating_sub(extent.file_offset)).sum()
    }

    fn count(&self, inode: &Inode, node: NodeId, totals: &mut RawTotals) {
        let code = inode.file_type().map_or(8, crate::format::FileType::code);
        let slot = usize::from(code).saturating_sub(1);
        if let Some(count) = totals.kinds.get_mut(slot) {
            *count += 1;
        }
        if let InodeKind::Directory { opaque: true, .. } = inode.kind {
            totals.opaque += 1;
        }
        if matches!(inode.kind, InodeKind::Regular(_)) {
            let data = inode.size.saturating_sub(inode.hole_bytes);
            let add = |sum: u64, more: u64| sum.saturating_add(more).into();
            totals.data_bytes = add(totals.data_bytes.get(), data);
            totals.hole_bytes = add(totals.hole_bytes.get(), inode.hole_bytes);
            if !self.is_mappable(inode, node) {
                totals.unmappable_bytes = add(totals.unmappable_bytes.get(), data);
            }
        }
    }

    /// Whether the kernel's EROFS driver can map the file's extents: see
    /// FORMAT.md, "Blocks that the kernel can read".
    fn is_mappable(&self, inode: &Inode, node: NodeId) -> bool {
        let kernel_size = (12..20).contains(&self.options.block_log);
        let data = || self.extents(node).iter().filter_map(|extent| extent.data);
        let mapped = match inode.kind {
            InodeKind::Regular(FileData::Inline(slice)) => {
                let end = u64::from(slice.offset).saturating_add(inode.size);
                slice.offset == 0 || end <= wide(self.options.block_size())
            }
            _ => data().all(|slice| slice.offset == 0),
        };
        mapped && (kernel_size || inode.size == inode.hole_bytes)
    }
}

/// Whether extents whose data end at `end` are all of a file of `size` bytes.
fn covers(extents: &[Extent], end: u64, size: u64) -> bool {
    let from_start = extents.first().is_some_and(|extent| extent.file_offset == 0);
    from_start
        && match extents.last() {
            Some(Extent { file_offset, data: None }) => *file_offset >= end && *file_offset < size,
            _ => end == size,
        }
}

/// Running positions of the inode pass.
struct Cursor {
    extents: u64,
    targets: std::vec::IntoIter<u64>,
}
