//! Whether files have the bytes and holes of those of a stack.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::ThreadPool;
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};

use super::DeltaError;
use crate::error::ReadError;
use crate::format::{index64, wide};
use crate::scan::{OnError, ScanError, SourceFile, SourceTable};
use crate::stack::{NodeNum, Stack};
use crate::tree::{NodeId, NodeKind, ValidTree};
use crate::writer::Progress;

/// Bytes read from each side at a time.
const CHUNK: u64 = 1 << 20;

/// Files that look the same as what they are compared with.
pub(super) struct Candidates<'a> {
    pub tree: &'a ValidTree,
    pub sources: &'a SourceTable,
    pub base: &'a Stack,
    pub on_error: OnError,
}

enum Fault {
    Source(ScanError),
    Base(ReadError),
}

impl From<ScanError> for Fault {
    fn from(error: ScanError) -> Self {
        Self::Source(error)
    }
}

impl From<ReadError> for Fault {
    fn from(error: ReadError) -> Self {
        Self::Base(error)
    }
}

#[derive(Default)]
struct Buffers {
    source: Vec<u8>,
    base: Vec<u8>,
}

impl Candidates<'_> {
    /// Those of the files whose content is not the same, in their order.
    pub(super) fn different(
        &self,
        files: &[(NodeId, NodeNum)],
        pool: &ThreadPool,
        progress: &dyn Progress,
    ) -> Result<Vec<NodeId>, DeltaError> {
        let failed = AtomicBool::new(false);
        let compare = |buffers: &mut Buffers, (node, below): &(NodeId, NodeNum)| {
            if failed.load(Ordering::Relaxed) {
                return None;
            }
            let result = self.verdict(*node, *below, buffers);
            failed.fetch_or(result.is_err(), Ordering::Relaxed);
            if let NodeKind::Regular { size } = self.tree.node(*node).kind {
                progress.bytes(size);
            }
            Some(result.map(|same| (!same).then_some(*node)))
        };
        let results: Vec<_> = pool.install(|| {
            files.par_iter().map_init(Buffers::default, compare).while_some().collect()
        });
        let different: Result<Vec<_>, _> = results.into_iter().collect();
        Ok(different?.into_iter().flatten().collect())
    }

    fn verdict(
        &self,
        node: NodeId,
        below: NodeNum,
        buffers: &mut Buffers,
    ) -> Result<bool, DeltaError> {
        match self.same(node, below, buffers) {
            Ok(same) => Ok(same),
            Err(Fault::Base(source)) => {
                Err(DeltaError::Base { path: self.tree.path(node), source })
            }
            Err(Fault::Source(error)) => match self.on_error {
                OnError::Skip if error.is_about_one_object() => Ok(false),
                _ => Err(error.into()),
            },
        }
    }

    fn same(&self, node: NodeId, below: NodeNum, buffers: &mut Buffers) -> Result<bool, Fault> {
        let file = self.sources.open(self.tree, node)?;
        let same = self.same_bytes(&file, below, buffers)?;
        file.finish()?;
        Ok(same)
    }

    fn same_bytes(
        &self,
        file: &SourceFile<'_>,
        below: NodeNum,
        buffers: &mut Buffers,
    ) -> Result<bool, Fault> {
        let mut at = 0;
        loop {
            let run = file.next_data(at)?;
            let start = self.base.seek_data(below, at)?;
            let (Some(run), Some(start)) = (run.clone(), start) else {
                return Ok(run.is_none() && start.is_none());
            };
            let end = self.base.seek_hole(below, start)?.unwrap_or(start);
            if (run.start, run.end) != (start, end) {
                return Ok(false);
            }
            let mut offset = start;
            while offset < end {
                let length = end.saturating_sub(offset).min(CHUNK.saturating_sub(offset % CHUNK));
                let size = index64(length);
                buffers.source.resize(size, 0);
                buffers.base.resize(size, 0);
                file.read_exact_at(offset, &mut buffers.source)?;
                let read = self.base.read_at(below, offset, &mut buffers.base)?;
                if wide(read) != length || buffers.source != buffers.base {
                    return Ok(false);
                }
                offset = offset.saturating_add(length);
            }
            at = end;
        }
    }
}
