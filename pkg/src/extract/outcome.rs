//! What the threads have to tell: counts, losses, the first failure.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::directories::DirectoryId;
use super::error::Failure;
use super::report::{ExtractReport, LISTED_MAX, What};
use crate::format::FileType;
use crate::stack::NodeNum;

/// A name that something happened to.
#[derive(Debug, Clone)]
pub struct Spot {
    /// The directory that it is in.
    pub directory: DirectoryId,
    /// The name; empty for the directory itself.
    pub name: Box<[u8]>,
}

#[derive(Debug, Default)]
struct State {
    report: ExtractReport,
    lost: Vec<(Spot, What)>,
    missing: HashSet<NodeNum>,
    failure: Option<(Spot, Failure)>,
}

/// Shared by all threads of one extraction.
#[derive(Debug)]
pub struct Outcome {
    strict: bool,
    stopped: AtomicBool,
    state: Mutex<State>,
}

/// The end of it.
pub struct Ended {
    /// Counts; nothing is listed yet.
    pub report: ExtractReport,
    /// What is to be listed.
    pub lost: Vec<(Spot, What)>,
    /// What stopped the work.
    pub failure: Option<(Spot, Failure)>,
}

impl Outcome {
    /// With `strict`, any loss is a failure.
    pub fn new(strict: bool) -> Self {
        Self { strict, stopped: AtomicBool::new(false), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether something failed and nothing more should be begun.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// An object was made, or not.
    pub fn made(
        &self,
        spot: &Spot,
        file_type: FileType,
        node: NodeNum,
        result: Result<Vec<What>, Failure>,
    ) {
        match result {
            Ok(lost) => {
                let mut state = self.lock();
                if lost.contains(&What::Device) {
                    state.missing.insert(node);
                } else {
                    state.report.count_made(file_type);
                }
                drop(state);
                self.lose(spot, lost);
            }
            Err(failure) => self.fail(spot, failure),
        }
    }

    /// One more name was made.
    pub fn linked(&self) {
        let mut state = self.lock();
        state.report.hard_links = state.report.hard_links.saturating_add(1);
    }

    /// Whether the object was not made.
    pub fn is_missing(&self, node: NodeNum) -> bool {
        self.lock().missing.contains(&node)
    }

    /// So many bytes were written.
    pub fn wrote(&self, bytes: u64) {
        let mut state = self.lock();
        state.report.bytes = state.report.bytes.saturating_add(bytes);
    }

    /// Something of an object could not be restored.
    pub fn lose(&self, spot: &Spot, lost: Vec<What>) {
        for what in lost {
            if self.strict {
                return self.fail(spot, Failure::Strict(what));
            }
            let mut state = self.lock();
            state.report.count_lost(&what);
            if state.lost.len() < LISTED_MAX {
                state.lost.push((spot.clone(), what));
            }
        }
    }

    /// Stops the work; the first failure counts.
    pub fn fail(&self, spot: &Spot, failure: Failure) {
        self.stopped.store(true, Ordering::Relaxed);
        self.lock().failure.get_or_insert((spot.clone(), failure));
    }

    /// What it came to.
    pub fn end(self) -> Ended {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ended { report: state.report, lost: state.lost, failure: state.failure }
    }
}
