//! Remembered merges, bounded in bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::NodeNum;
use super::list::Listing;
use super::merge::Parts;
use crate::format::wide;

/// Merged directories, oldest out first.
#[derive(Debug)]
pub(super) struct MergeCache {
    budget: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    parts: HashMap<NodeNum, Parts>,
    listings: HashMap<NodeNum, Arc<Listing>>,
    order: VecDeque<(NodeNum, bool, u64)>,
    bytes: u64,
}

/// Bookkeeping of one entry in bytes.
const ENTRY: u64 = 120;

impl State {
    fn add(&mut self, node: NodeNum, is_listing: bool, size: u64, budget: u64) {
        let size = size.saturating_add(ENTRY);
        self.order.push_back((node, is_listing, size));
        self.bytes = self.bytes.saturating_add(size);
        while self.bytes > budget {
            let Some((node, is_listing, size)) = self.order.pop_front() else { return };
            if is_listing {
                self.listings.remove(&node);
            } else {
                self.parts.remove(&node);
            }
            self.bytes = self.bytes.saturating_sub(size);
        }
    }
}

impl MergeCache {
    pub(super) fn new(budget: u64) -> Self {
        Self { budget, state: Mutex::default() }
    }

    pub(super) fn parts(&self, node: NodeNum) -> Option<Parts> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.parts.get(&node).map(Arc::clone)
    }

    pub(super) fn remember_parts(&self, node: NodeNum, parts: &Parts) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.parts.insert(node, Arc::clone(parts)).is_none() {
            state.add(node, false, wide(parts.len()).saturating_mul(8), self.budget);
        }
    }

    pub(super) fn listing(&self, node: NodeNum) -> Option<Arc<Listing>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.listings.get(&node).map(Arc::clone)
    }

    pub(super) fn remember_listing(&self, node: NodeNum, listing: &Arc<Listing>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.listings.insert(node, Arc::clone(listing)).is_none() {
            state.add(node, true, listing.bytes(), self.budget);
        }
    }
}
