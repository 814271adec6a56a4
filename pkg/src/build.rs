//! From a scanned directory to a layer.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::ThreadPool;

use crate::format::{index64, wide};
use crate::scan::{OnError, ScanError, Scanned, SkipReason, Skipped, SourceFile, SourceTable};
use crate::tree::{NodeId, NodeKind, ValidTree};
use crate::writer::{
    Base, ContentWriter, Options, Progress, Segment, SourceError, Summary, WriteError,
};

/// A layer that was built from a directory.
#[derive(Debug)]
pub struct Built<W> {
    /// The sink, with the whole blob in it.
    pub sink: W,
    /// What was written.
    pub summary: Summary,
    /// What was left out under [`OnError::Skip`], by the scan and by reading.
    pub skipped: Vec<Skipped>,
}

/// What reading a directory's files needs, shared with the workers.
struct Inputs {
    tree: ValidTree,
    sources: Arc<SourceTable>,
    on_error: OnError,
    failed: Mutex<Vec<(NodeId, ScanError)>>,
}

/// Makes an empty sink. It is asked for another one when what was written is of
/// no use.
pub type NewSink<'a, W> = &'a mut dyn FnMut() -> std::io::Result<W>;

/// How often files that cannot be read are left out before the build gives up
/// on a tree that does not hold still.
const ROUNDS: u32 = 8;

/// Writes the layer of a scanned directory.
///
/// Files are read in tree order. Each is checked against the scan before and
/// after every read, so what is written is what the scan saw. When a file is left
/// out under [`OnError::Skip`], the layer is written anew without it: nothing
/// of its content stays.
///
/// # Errors
/// [`WriteError::Source`] with a [`ScanError`] that names the file, unless
/// `on_error` says to skip it; any other [`WriteError`].
pub fn write_directory<W: Write>(
    sink: NewSink<'_, W>,
    scanned: Scanned,
    on_error: OnError,
    options: &Options,
    pool: &Arc<ThreadPool>,
    progress: &Arc<dyn Progress>,
) -> Result<Built<W>, WriteError> {
    let writer = || ContentWriter::new(sink()?, options.clone(), pool.clone(), progress.clone());
    write(writer, scanned, on_error, false)
}

/// Writes the layer of a [`Delta`](crate::delta::Delta). Content that `base`
/// knows is referred to. A file that is left out under [`OnError::Skip`] is
/// whited out, so that the one from below does not show in its place.
///
/// # Errors
/// As [`write_directory`].
pub fn write_delta<W: Write>(
    sink: NewSink<'_, W>,
    difference: Scanned,
    base: &Base,
    on_error: OnError,
    options: &Options,
    pool: &Arc<ThreadPool>,
    progress: &Arc<dyn Progress>,
) -> Result<Built<W>, WriteError> {
    let writer = || {
        let writer = ContentWriter::new(sink()?, options.clone(), pool.clone(), progress.clone())?;
        Ok(writer.on(base.clone()))
    };
    write(writer, difference, on_error, true)
}

fn write<W: Write>(
    mut new_writer: impl FnMut() -> Result<ContentWriter<W>, WriteError>,
    scanned: Scanned,
    on_error: OnError,
    is_delta: bool,
) -> Result<Built<W>, WriteError> {
    let Scanned { tree, sources, mut skipped, .. } = scanned;
    let sources = Arc::new(sources);
    let mut tree = tree.validate()?;
    for round in 1.. {
        let failed = Mutex::default();
        let on_error = if round < ROUNDS { on_error } else { OnError::Fail };
        let inputs = Arc::new(Inputs { tree, sources: sources.clone(), on_error, failed });
        let mut writer = new_writer()?;
        for node in inputs.tree.order() {
            if let NodeKind::Regular { size } = inputs.tree.node(*node).kind {
                write_file(&mut writer, &inputs, *node, size)?;
            }
        }
        writer.drain()?;
        let mut failed = std::mem::take(&mut *inputs.lock_failed());
        if failed.is_empty() {
            let (sink, summary) = writer.finish(&inputs.tree)?;
            return Ok(Built { sink, summary, skipped });
        }
        // Workers report in any order, and once for each piece.
        failed.sort_by_key(|(node, _)| inputs.tree.inode_index(*node));
        failed.dedup_by_key(|(node, _)| *node);
        let mut rest = inputs.tree.clone().into_tree();
        let left_out = failed.iter().map(|(node, _)| *node);
        if is_delta {
            rest.white_out(left_out);
        } else {
            rest.remove(left_out);
        }
        for (node, error) in failed {
            let path = inputs.tree.path(node);
            skipped.push(Skipped { path, reason: SkipReason::Failed(error) });
        }
        tree = rest.validate()?;
    }
    Err(WriteError::WorkerLost)
}

fn write_file<W: Write>(
    writer: &mut ContentWriter<W>,
    inputs: &Arc<Inputs>,
    node: NodeId,
    size: u64,
) -> Result<(), WriteError> {
    let max = writer.piece_max();
    if size == 0 {
        return inputs
            .tolerate(node, inputs.check_empty(node))
            .map(|_| ())
            .map_err(WriteError::Source);
    }
    if size <= wide(max) {
        let shared = Arc::clone(inputs);
        let read = Box::new(move || shared.tolerate(node, shared.read_small(node)));
        return writer.small_file(node, index64(size), read);
    }
    match write_large(writer, inputs, node, size) {
        Err(WriteError::Source(error)) => match error.downcast::<ScanError>() {
            Ok(error) => inputs.give_up(node, *error).map_err(WriteError::Source),
            Err(other) => Err(WriteError::Source(other)),
        },
        other => other,
    }
}

fn write_large<W: Write>(
    writer: &mut ContentWriter<W>,
    inputs: &Arc<Inputs>,
    node: NodeId,
    size: u64,
) -> Result<(), WriteError> {
    let max = writer.piece_max();
    let file = inputs.open(node).map_err(WriteError::Source)?;
    let mut at = 0;
    while at < size {
        let run = file.next_data(at).map_err(|error| WriteError::Source(error.into()))?;
        let Some(run) = run else {
            writer.hole(node, at);
            break;
        };
        if run.start > at {
            writer.hole(node, at);
        }
        let mut offset = run.start;
        while offset < run.end {
            let length = index64(run.end.saturating_sub(offset)).min(max);
            let shared = Arc::clone(inputs);
            let read = Box::new(move || {
                let bytes = shared.read_piece(node, offset, length);
                match bytes {
                    Ok(bytes) => Ok(bytes),
                    // The file is dropped; its bytes do not matter any more.
                    Err(error) => shared.give_up(node, error).map(|()| vec![0; length]),
                }
            });
            writer.piece(node, offset, length, read)?;
            offset = offset.saturating_add(wide(length));
        }
        at = run.end;
    }
    Ok(())
}

impl Inputs {
    fn lock_failed(&self) -> std::sync::MutexGuard<'_, Vec<(NodeId, ScanError)>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An error, or under [`OnError::Skip`] a note that the file is to be left out.
    fn give_up(&self, node: NodeId, error: ScanError) -> Result<(), SourceError> {
        match self.on_error {
            OnError::Skip => {
                self.lock_failed().push((node, error));
                Ok(())
            }
            OnError::Fail => Err(error.into()),
        }
    }

    fn tolerate(
        &self,
        node: NodeId,
        read: Result<Vec<Segment>, ScanError>,
    ) -> Result<Vec<Segment>, SourceError> {
        match read {
            Ok(segments) => Ok(segments),
            Err(error) => self.give_up(node, error).map(|()| Vec::new()),
        }
    }

    fn open(&self, node: NodeId) -> Result<SourceFile<'_>, SourceError> {
        Ok(self.sources.open(&self.tree, node)?)
    }

    fn check_empty(&self, node: NodeId) -> Result<Vec<Segment>, ScanError> {
        self.sources.open(&self.tree, node)?.finish().map(|()| Vec::new())
    }

    fn read_small(&self, node: NodeId) -> Result<Vec<Segment>, ScanError> {
        let file = self.sources.open(&self.tree, node)?;
        let mut segments = Vec::new();
        let mut at = 0;
        while at < file.size() {
            let run = file.next_data(at)?;
            if run.as_ref().is_none_or(|run| run.start > at) {
                segments.push(Segment { offset: at, data: None });
            }
            let Some(run) = run else { break };
            let mut bytes = vec![0; index64(run.end.saturating_sub(run.start))];
            file.read_exact_at(run.start, &mut bytes)?;
            segments.push(Segment { offset: run.start, data: Some(bytes) });
            at = run.end;
        }
        file.finish()?;
        Ok(segments)
    }

    fn read_piece(&self, node: NodeId, offset: u64, length: usize) -> Result<Vec<u8>, ScanError> {
        let file = self.sources.open(&self.tree, node)?;
        let mut bytes = vec![0; length];
        file.read_exact_at(offset, &mut bytes)?;
        file.finish()?;
        Ok(bytes)
    }
}
