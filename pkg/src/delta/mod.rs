//! The difference between a scanned directory and a stack of layers, as the
//! tree of a layer on top of that stack.
//!
//! [`Delta::find`] walks both side by side. What is the same in every
//! attribute, hard-link group and byte is left out; a name that is gone
//! becomes a whiteout; a directory that changed nothing but what is in it is
//! implied, so that its attributes stay those from below. An object that is
//! not the same is whole, with all its names; its content costs nothing where
//! [`Delta::base`] knows it.
//!
//! A stack has one object for a group of names. Names that are separate files
//! now cannot all stand for it: the first in tree order may, the others are new.

use std::sync::Arc;

use rayon::ThreadPool;
use thiserror::Error;

use crate::error::ReadError;
use crate::scan::{OnError, ScanError, Scanned};
use crate::stack::Stack;
use crate::tree::{NodeId, NodeKind, TreeError};
use crate::writer::{Base, Progress};

mod content;
mod pieces;
mod walk;

/// Why a difference cannot be found.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeltaError {
    /// The scanned tree breaks a rule.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A file of the directory cannot be read.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// The stack cannot be read.
    #[error("cannot read {:?} of the base image", String::from_utf8_lossy(.path))]
    Base {
        /// Path in the stack; empty for the root or the stack as a whole.
        path: Vec<u8>,
        /// Why.
        #[source]
        source: ReadError,
    },
}

/// Counts of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeltaCounts {
    /// Objects that the layer states: new, changed or directories on the way.
    pub stated: u64,
    /// Objects that stay those of the base.
    pub unchanged: u64,
    /// Names that are gone.
    pub whiteouts: u64,
    /// Bytes of data and holes of the regular files that are stated.
    pub file_bytes: u64,
}

/// What a layer on top of a stack must say.
#[derive(Debug)]
pub struct Delta {
    /// The scan, its tree cut down to the difference.
    pub scanned: Scanned,
    /// Numbers about it.
    pub counts: DeltaCounts,
}

impl Delta {
    /// Compares a scan with a stack. Reads all files whose attributes are the
    /// same on both sides, on the pool; `progress` hears their bytes.
    ///
    /// # Errors
    /// [`DeltaError`]; with [`OnError::Skip`] a file that cannot be read counts
    /// as changed, so that writing it meets the same trouble again.
    pub fn find(
        scanned: Scanned,
        base: &Stack,
        on_error: OnError,
        pool: &ThreadPool,
        progress: &Arc<dyn Progress>,
    ) -> Result<Self, DeltaError> {
        let Scanned { tree, sources, skipped, statistics } = scanned;
        let tree = tree.validate()?;
        let mut found = walk::walk(&tree, base)?;
        let candidates = content::Candidates { tree: &tree, sources: &sources, base, on_error };
        for node in candidates.different(&found.to_read(&tree), pool, &**progress)? {
            found.differs(node);
        }
        let kept = found.kept(&tree);
        let mut counts = DeltaCounts::default();
        for node in tree.order() {
            let count = if kept.has(*node) { &mut counts.stated } else { &mut counts.unchanged };
            *count = count.saturating_add(1);
            if let (true, NodeKind::Regular { size }) = (kept.has(*node), tree.node(*node).kind) {
                counts.file_bytes = counts.file_bytes.saturating_add(size);
            }
        }
        counts.whiteouts = u64::try_from(found.whiteouts().len()).unwrap_or(u64::MAX);
        let implied: Vec<NodeId> =
            tree.order().iter().copied().filter(|node| found.is_implied(&tree, *node)).collect();
        let mut tree = tree.into_tree();
        tree.retain(|node| kept.has(node));
        for node in implied {
            if let NodeKind::Directory { implied, .. } = &mut tree.node_mut(node).kind {
                *implied = true;
            }
        }
        for (directory, name) in found.whiteouts() {
            tree.link(*directory, name, crate::tree::Target::Whiteout)?;
        }
        let scanned = Scanned { tree, sources, skipped, statistics };
        Ok(Self { scanned, counts })
    }

    /// Everything that the layers of a stack have, for the layer on top. Reads
    /// all their content on the pool; layers whose blob digest is not known to
    /// the stack are left out.
    ///
    /// # Errors
    /// [`DeltaError::Base`].
    pub fn base(stack: &Stack, pool: &ThreadPool) -> Result<Base, DeltaError> {
        let whole = |source| DeltaError::Base { path: Vec::new(), source };
        pieces::of_stack(stack, pool).map_err(whole)
    }
}
