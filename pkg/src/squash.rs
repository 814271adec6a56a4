//! From a stack of many layers to one layer.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use rayon::ThreadPool;
use thiserror::Error;

use crate::error::ReadError;
use crate::format::{FileType, index64, wide};
use crate::stack::{NodeNum, Stack};
use crate::tree::{Metadata, Node, NodeId, NodeKind, Target, Tree, TreeError, ValidTree};
use crate::walk::Walk;
use crate::writer::{ContentWriter, Options, Progress, Segment, SourceError, Summary, WriteError};

/// Why a stack does not become one layer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SquashError {
    /// An object cannot be read.
    #[error("cannot read {:?}", String::from_utf8_lossy(.path))]
    Read {
        /// Its path, relative to the root.
        path: Vec<u8>,
        /// Why.
        #[source]
        cause: ReadError,
    },
    /// The layer cannot be written. Under [`WriteError::Source`] is a
    /// [`SquashError::Read`].
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl From<TreeError> for SquashError {
    fn from(error: TreeError) -> Self {
        Self::Write(error.into())
    }
}

/// What reading the files needs, shared with the workers.
struct Inputs {
    stack: Arc<Stack>,
    tree: ValidTree,
    /// By node of the tree.
    numbers: Vec<NodeNum>,
}

/// Writes all that a stack shows as one layer into `sink`, which must be
/// empty: the layer that a build of the same tree gives, byte for byte.
/// Content is verified as it is read. The root and all directories have the
/// attributes that show, so nothing is implied or opaque, and no whiteouts
/// are left.
///
/// # Errors
/// [`SquashError`]; what was written is then no layer.
pub fn squash<W: Write>(
    stack: &Arc<Stack>,
    sink: W,
    options: Options,
    pool: Arc<ThreadPool>,
    progress: Arc<dyn Progress>,
) -> Result<(W, Summary), SquashError> {
    let (tree, numbers) = collect(stack)?;
    let stack = Arc::clone(stack);
    let inputs = Arc::new(Inputs { stack, tree: tree.validate()?, numbers });
    let mut writer = ContentWriter::new(sink, options, pool, progress)?;
    for node in inputs.tree.order() {
        if let NodeKind::Regular { size } = inputs.tree.node(*node).kind {
            write_file(&mut writer, &inputs, *node, size)?;
        }
    }
    Ok(writer.finish(&inputs.tree)?)
}

/// The tree that a stack shows, and the number of each of its nodes.
fn collect(stack: &Stack) -> Result<(Tree, Vec<NodeNum>), SquashError> {
    let mut collected = Collected {
        stack,
        tree: Tree::new(Metadata::default()),
        numbers: Vec::new(),
        several: HashMap::new(),
    };
    let mut walk = Walk::new(stack);
    let mut above: Vec<NodeId> = Vec::new();
    loop {
        let visit = walk.next_name();
        let failed = |cause| SquashError::Read { path: walk.path().to_vec(), cause };
        let Some(visit) = visit.map_err(failed)? else { break };
        let node = collected.node(visit.name.node).map_err(|fault| fault.at(walk.path()))?;
        above.truncate(visit.depth);
        if let Some(parent) = above.last() {
            let name = walk.path().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            collected.tree.link(*parent, name, Target::Node(node))?;
        }
        if visit.name.file_type == FileType::Directory {
            above.push(node);
        }
    }
    Ok((collected.tree, collected.numbers))
}

struct Collected<'a> {
    stack: &'a Stack,
    tree: Tree,
    numbers: Vec<NodeNum>,
    /// Objects of several names.
    several: HashMap<NodeNum, NodeId>,
}

enum Fault {
    Read(ReadError),
    Tree(TreeError),
}

impl From<ReadError> for Fault {
    fn from(cause: ReadError) -> Self {
        Self::Read(cause)
    }
}

impl From<TreeError> for Fault {
    fn from(cause: TreeError) -> Self {
        Self::Tree(cause)
    }
}

impl Fault {
    fn at(self, path: &[u8]) -> SquashError {
        match self {
            Self::Read(cause) => SquashError::Read { path: path.to_vec(), cause },
            Self::Tree(cause) => cause.into(),
        }
    }
}

impl Collected<'_> {
    /// The node of an object, made when its first name is met.
    fn node(&mut self, number: NodeNum) -> Result<NodeId, Fault> {
        if let Some(node) = self.several.get(&number) {
            return Ok(*node);
        }
        let attr = self.stack.attr(number)?;
        let kind = match attr.file_type {
            FileType::Regular => NodeKind::Regular { size: attr.size },
            FileType::Directory => NodeKind::Directory { opaque: false, implied: false },
            FileType::Symlink => {
                let target = self.stack.read_link(number)?;
                NodeKind::Symlink { target: self.tree.intern_target(&target)? }
            }
            FileType::CharDevice => NodeKind::CharDevice(attr.device),
            FileType::BlockDevice => NodeKind::BlockDevice(attr.device),
            FileType::Fifo => NodeKind::Fifo,
            FileType::Socket => NodeKind::Socket,
        };
        let xattrs = self.stack.xattrs(number)?;
        let metadata = Metadata {
            permissions: attr.permissions,
            uid: attr.uid,
            gid: attr.gid,
            mtime: attr.mtime,
            xattrs: self.tree.xattrs_mut().intern(xattrs)?,
        };
        let node = if number == NodeNum::ROOT {
            *self.tree.node_mut(NodeId::ROOT) = Node { metadata, kind };
            NodeId::ROOT
        } else {
            self.tree.add(Node { metadata, kind })?
        };
        self.numbers.push(number);
        if attr.links > 1 && kind != (NodeKind::Directory { opaque: false, implied: false }) {
            self.several.insert(number, node);
        }
        Ok(node)
    }
}

fn write_file<W: Write>(
    writer: &mut ContentWriter<W>,
    inputs: &Arc<Inputs>,
    node: NodeId,
    size: u64,
) -> Result<(), WriteError> {
    let max = writer.piece_max();
    if size <= wide(max) {
        if size == 0 {
            return Ok(());
        }
        let shared = Arc::clone(inputs);
        let read = Box::new(move || shared.read_small(node, size));
        return writer.small_file(node, index64(size), read);
    }
    let mut at = 0;
    while at < size {
        let run = inputs.run(node, at, size).map_err(WriteError::Source)?;
        if run.start > at {
            writer.hole(node, at);
        }
        let mut offset = run.start;
        while offset < run.end {
            let length = index64(run.end.saturating_sub(offset)).min(max);
            let shared = Arc::clone(inputs);
            let read = Box::new(move || shared.read(node, offset, length));
            writer.piece(node, offset, length, read)?;
            offset = offset.saturating_add(wide(length));
        }
        at = run.end;
    }
    Ok(())
}

/// A run of data in a file.
struct Run {
    start: u64,
    end: u64,
}

impl Inputs {
    fn failed(&self, node: NodeId) -> impl Fn(ReadError) -> SourceError {
        let path = self.tree.path(node);
        move |cause| SquashError::Read { path: path.clone(), cause }.into()
    }

    fn number(&self, node: NodeId) -> NodeNum {
        let number = usize::try_from(node.0).ok().and_then(|node| self.numbers.get(node));
        number.copied().unwrap_or(NodeNum::ROOT)
    }

    /// The next run at or after `at`; an empty one at the end of the file when
    /// only a hole follows.
    fn run(&self, node: NodeId, at: u64, size: u64) -> Result<Run, SourceError> {
        let number = self.number(node);
        let start = self.stack.seek_data(number, at).map_err(|cause| self.failed(node)(cause))?;
        let Some(start) = start else { return Ok(Run { start: size, end: size }) };
        let end = self.stack.seek_hole(number, start).map_err(|cause| self.failed(node)(cause))?;
        Ok(Run { start, end: end.unwrap_or(size) })
    }

    /// Bytes that the file's size says are there.
    fn read(&self, node: NodeId, offset: u64, length: usize) -> Result<Vec<u8>, SourceError> {
        let mut bytes = vec![0; length];
        let read = self.stack.read_at(self.number(node), offset, &mut bytes);
        let read = read.map_err(|cause| self.failed(node)(cause))?;
        // The writer refuses a piece that is short.
        bytes.truncate(read);
        Ok(bytes)
    }

    fn read_small(&self, node: NodeId, size: u64) -> Result<Vec<Segment>, SourceError> {
        let mut segments = Vec::new();
        let mut at = 0;
        while at < size {
            let run = self.run(node, at, size)?;
            if run.start > at {
                segments.push(Segment { offset: at, data: None });
            }
            if run.start < run.end {
                let length = index64(run.end.saturating_sub(run.start));
                let data = Some(self.read(node, run.start, length)?);
                segments.push(Segment { offset: run.start, data });
            }
            at = run.end;
        }
        Ok(segments)
    }
}
