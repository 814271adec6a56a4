//! From an archive to a layer, in one pass.

use std::io::{Read, Write};
use std::sync::Arc;

use rayon::ThreadPool;
use thiserror::Error;

use super::error::{ArchiveError, Fault};
use super::layer::LayerTree;
use super::member::{Member, MemberKind, Segment};
use super::members::Members;
use super::names::{Meaning, components, meaning};
use crate::format::{index64, wide};
use crate::tree::{Metadata, Node, NodeId, NodeKind};
use crate::writer::{ContentWriter, Options, Progress, Summary, WriteError};

/// How a layer is made of an archive.
#[derive(Debug, Clone, Default)]
pub struct LayerOptions {
    /// What decides the blob's form.
    pub writer: Options,
}

/// Why an archive does not become a layer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LayerError {
    /// The archive is at fault.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The layer cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Reads an uncompressed archive to the end of its members and writes the
/// layer into `sink`. Returns both ends: what may follow the members is still
/// in the reader. The blob is a function of the archive and the options alone.
///
/// # Errors
/// [`LayerError`]; what was written is then no layer.
pub fn write_layer<R: Read, W: Write>(
    archive: R,
    sink: W,
    options: &LayerOptions,
    pool: Arc<ThreadPool>,
    progress: Arc<dyn Progress>,
) -> Result<(R, W, Summary), LayerError> {
    let writer = ContentWriter::new(sink, options.writer.clone(), pool, progress)?;
    let members = Members::new(archive);
    let mut conversion = Conversion { members, writer, layer: LayerTree::new() };
    while let Some(member) = conversion.members.next_member()? {
        conversion.take(member)?;
    }
    let Conversion { members, writer, layer } = conversion;
    let tree = layer.finish().map_err(|fault| members.error(fault))?;
    let (sink, summary) = writer.finish(&tree)?;
    Ok((members.into_inner(), sink, summary))
}

struct Conversion<R, W: Write> {
    members: Members<R>,
    writer: ContentWriter<W>,
    layer: LayerTree,
}

impl<R: Read, W: Write> Conversion<R, W> {
    fn take(&mut self, member: Member) -> Result<(), LayerError> {
        let placed = self.place(&member);
        let node = placed.map_err(|fault| self.members.error(fault))?;
        if let (Some(node), MemberKind::Regular { size, data }) = (node, &member.kind) {
            self.content(node, *size, data)?;
        }
        Ok(())
    }

    /// Puts a member into the tree; returns the node whose data follow.
    fn place(&mut self, member: &Member) -> Result<Option<NodeId>, Fault> {
        let mut path = components(&member.path)?;
        let Some(name) = path.pop() else { return self.root(member).map(|()| None) };
        for directory in &path {
            match meaning(directory)? {
                Meaning::Plain => {}
                Meaning::Ignored => return Ok(None),
                Meaning::Opaque | Meaning::Whiteout(_) => return Err(Fault::Whiteout),
            }
        }
        match meaning(&name)? {
            Meaning::Ignored => return Ok(None),
            Meaning::Opaque => {
                if let Some(directory) = self.layer.directory_to_mark(&path)? {
                    self.layer.make_opaque(directory);
                }
                return Ok(None);
            }
            Meaning::Whiteout(hidden) => {
                if let Some(directory) = self.layer.directory_to_mark(&path)? {
                    self.layer.white_out(directory, hidden);
                }
                return Ok(None);
            }
            Meaning::Plain => {}
        }
        // The target first: it may be found before its name is replaced.
        let node = match &member.kind {
            MemberKind::HardLink(target) => self.layer.link_node(target)?,
            _ => self.node(member)?,
        };
        let parent = self.layer.directory(&path)?;
        self.layer.place(parent, &name, node)?;
        Ok(Some(node))
    }

    fn root(&mut self, member: &Member) -> Result<(), Fault> {
        if member.kind != MemberKind::Directory {
            return Err(Fault::Root);
        }
        let metadata = self.metadata(member)?;
        self.layer.place_root(metadata);
        Ok(())
    }

    fn metadata(&mut self, member: &Member) -> Result<Metadata, Fault> {
        // Linux keeps user attributes for files and directories only.
        let holds_user = matches!(member.kind, MemberKind::Regular { .. } | MemberKind::Directory);
        let kept = |(name, _): &&(Vec<u8>, Vec<u8>)| holds_user || !name.starts_with(b"user.");
        let xattrs = member.xattrs.iter().filter(kept).cloned().collect();
        Ok(Metadata {
            permissions: member.permissions,
            uid: member.uid,
            gid: member.gid,
            mtime: member.mtime,
            xattrs: self.layer.tree_mut().xattrs_mut().intern(xattrs)?,
        })
    }

    fn node(&mut self, member: &Member) -> Result<NodeId, Fault> {
        let kind = match &member.kind {
            MemberKind::Regular { size, .. } => NodeKind::Regular { size: *size },
            MemberKind::Directory => NodeKind::Directory { opaque: false, implied: false },
            MemberKind::Symlink(target) if target.is_empty() => return Err(Fault::EmptyTarget),
            MemberKind::Symlink(target) => {
                NodeKind::Symlink { target: self.layer.tree_mut().intern_target(target)? }
            }
            MemberKind::CharDevice(device) => NodeKind::CharDevice(*device),
            MemberKind::BlockDevice(device) => NodeKind::BlockDevice(*device),
            MemberKind::Fifo => NodeKind::Fifo,
            // A hard link is a name, not an object.
            MemberKind::HardLink(_) => return Err(Fault::Type(b'1')),
        };
        let metadata = self.metadata(member)?;
        Ok(self.layer.tree_mut().add(Node { metadata, kind })?)
    }

    fn content(&mut self, node: NodeId, size: u64, data: &[Segment]) -> Result<(), LayerError> {
        let max = self.writer.piece_max();
        let mut at = 0u64;
        for segment in data {
            if segment.offset > at {
                self.writer.hole(node, at);
            }
            let end = segment.offset.saturating_add(segment.length);
            at = segment.offset;
            while at < end {
                let length = index64(end.saturating_sub(at)).min(max);
                let mut bytes = vec![0; length];
                self.members.read_data(&mut bytes)?;
                self.writer.piece(node, at, length, Box::new(move || Ok(bytes)))?;
                at = at.saturating_add(wide(length));
            }
        }
        if at < size {
            self.writer.hole(node, at);
        }
        Ok(())
    }
}
