//! The pieces of content that the layers of a stack have.

use rayon::ThreadPool;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use crate::error::ReadError;
use crate::format::inode::{Inode, InodeKind};
use crate::format::section::Section;
use crate::format::{FileType, index, wide};
use crate::reader::{Image, RunKind};
use crate::stack::Stack;
use crate::writer::{Base, BaseBlob, BasePlace};

/// How many pieces a layer may have for each of its inodes, extents and
/// blocks: more would be files that share without end.
const SHARING_MAX: u64 = 16;

/// The part of a file that lies in one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    block: u64,
    offset: u32,
    length: u32,
    /// One file that has it, and where.
    inode: u32,
    file_offset: u64,
}

impl Piece {
    fn place(&self) -> (u64, u32, u32) {
        (self.block, self.offset, self.length)
    }
}

/// All pieces of all layers whose blob digest is known.
pub(super) fn of_stack(stack: &Stack, pool: &ThreadPool) -> Result<Base, ReadError> {
    let mut images = Vec::new();
    let mut blobs = Vec::new();
    for (number, image) in (0u32..).zip(stack.layers()) {
        if let Some(record) = stack.blob_record(number) {
            images.push(&**image);
            blobs.push(BaseBlob { record, block_size: image.superblock().block_size() });
        }
    }
    let mut base = Base::new(blobs);
    for (blob, image) in (0u32..).zip(images) {
        let pieces = pieces(image)?;
        let digest = |piece: &Piece| {
            let inode = image.inode(piece.inode)?;
            let mut bytes = vec![0; index(piece.length)];
            let read = image.read_at(&inode, piece.file_offset, &mut bytes)?;
            bytes.truncate(read);
            Ok(*blake3::hash(&bytes).as_bytes())
        };
        // Neighbours share blocks, which are decoded once while they are cached.
        let digests: Result<Vec<[u8; 32]>, ReadError> =
            pool.install(|| pieces.par_iter().map(digest).collect());
        for (piece, digest) in pieces.iter().zip(digests?) {
            base.add(digest, BasePlace { blob, block: piece.block, offset: piece.offset });
        }
    }
    Ok(base)
}

/// The pieces of a layer in its own blocks, in the order of their places.
fn pieces(image: &Image) -> Result<Vec<Piece>, ReadError> {
    let superblock = image.superblock();
    let extents = superblock.sections.span(Section::Extents).count;
    let limit = superblock
        .content_blocks
        .saturating_add(extents)
        .saturating_add(superblock.inode_count())
        .saturating_mul(SHARING_MAX);
    let mut pieces = Vec::new();
    for number in 0..superblock.inode_count() {
        let Ok(number) = u32::try_from(number) else { break };
        let inode = image.inode(number)?;
        if inode.file_type() != Some(FileType::Regular)
            || matches!(inode.kind, InodeKind::LinkBelow(_))
        {
            continue;
        }
        add_file(image, &inode, limit, &mut pieces)?;
    }
    pieces.sort_unstable();
    pieces.dedup_by_key(|piece| piece.place());
    Ok(pieces)
}

fn add_file(
    image: &Image,
    inode: &Inode,
    limit: u64,
    pieces: &mut Vec<Piece>,
) -> Result<(), ReadError> {
    let size = u64::from(image.superblock().block_size());
    let mut at = 0;
    while let Some(run) = image.run_at(inode, at)? {
        at = run.end;
        let RunKind::Data(slice) = run.kind else { continue };
        // Blocks of other blobs count there.
        if slice.blob != 0 {
            continue;
        }
        let (mut block, mut offset) = (slice.block, slice.offset);
        let mut start = run.start;
        while start < run.end {
            let length = run.end.saturating_sub(start).min(size.saturating_sub(offset.into()));
            let Some(bytes) = u32::try_from(length).ok().filter(|length| *length > 0) else {
                break;
            };
            if wide(pieces.len()) >= limit {
                return Err(ReadError::Limit { what: "pieces of content in a base layer", limit });
            }
            let inode = inode.index;
            pieces.push(Piece { block, offset, length: bytes, inode, file_offset: start });
            start = start.saturating_add(length);
            block = block.saturating_add(1);
            offset = 0;
        }
    }
    Ok(())
}
