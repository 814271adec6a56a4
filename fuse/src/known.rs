//! Which files the kernel knows, and which it has been given the content of.

use std::sync::atomic::{AtomicU64, Ordering};

use microfs::stack::NodeNum;

/// A set of nodes; 1 bit each.
#[derive(Debug)]
pub(crate) struct NodeSet(Vec<AtomicU64>);

impl NodeSet {
    /// An empty set that can hold nodes below `end`.
    pub(crate) fn new(end: u64) -> Self {
        let words = usize::try_from(end.div_ceil(64)).unwrap_or(0);
        let mut set = Vec::new();
        set.resize_with(words, AtomicU64::default);
        Self(set)
    }

    fn place(&self, node: NodeNum) -> Option<(&AtomicU64, u64)> {
        let word = usize::try_from(node.0 / 64).ok()?;
        Some((self.0.get(word)?, 1 << (node.0 % 64)))
    }

    /// Adds a node; whether it was not in the set before. One that the set
    /// cannot hold never is.
    pub(crate) fn insert(&self, node: NodeNum) -> bool {
        self.place(node).is_some_and(|(word, bit)| word.fetch_or(bit, Ordering::Relaxed) & bit == 0)
    }

    pub(crate) fn remove(&self, node: NodeNum) {
        if let Some((word, bit)) = self.place(node) {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    pub(crate) fn contains(&self, node: NodeNum) -> bool {
        self.place(node).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }
}
