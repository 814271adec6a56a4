//! Files that are read in no order, so densely that all of them will be wanted.

use std::collections::VecDeque;

use microfs::stack::NodeNum;

/// Files that are watched; the one that was read longest ago goes first.
const WATCHED: usize = 8;
/// Largest file in bytes: the page cache is not ours to fill.
const SIZE_MAX: u64 = 128 << 20;
/// Pieces that must have been read, and the part of all pieces, one in so many.
const LEAST: usize = 16;
const PART: usize = 8;

/// Pieces that may be wanted though they were given: some requests were on their
/// way. More say that the kernel drops what it is given, and has no room for all.
const STALE_MAX: usize = 16;

/// A piece of a file to be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) node: NodeNum,
    pub(super) offset: u64,
}

/// A file and which pieces of it the kernel was given.
#[derive(Debug)]
struct Watched {
    node: NodeNum,
    given: Vec<bool>,
    count: usize,
    stale: usize,
    /// Where to look for the next piece to give; `None` before it is dense.
    next: Option<usize>,
}

/// What is watched. A piece is `unit` bytes at a multiple of it.
#[derive(Debug)]
pub(super) struct Dense {
    unit: u64,
    files: VecDeque<Watched>,
}

impl Dense {
    /// Watches nothing yet.
    pub(super) fn new(unit: u64) -> Self {
        Self { unit: unit.max(1), files: VecDeque::with_capacity(WATCHED) }
    }

    /// A request wanted a part of `length` bytes at `offset` of a file, and all
    /// of them were given. `size` is asked for a file that is not watched yet.
    pub(super) fn touched(
        &mut self,
        node: NodeNum,
        offset: u64,
        length: u64,
        size: impl FnOnce() -> Option<u64>,
    ) {
        let Some(mut file) = self.take(node).or_else(|| self.watch(node, size()?)) else { return };
        let end = offset.saturating_add(length).div_ceil(self.unit);
        let mut is_news = false;
        for piece in offset / self.unit..end {
            let given = usize::try_from(piece).ok().and_then(|piece| file.given.get_mut(piece));
            if let Some(given) = given.filter(|given| !**given) {
                *given = true;
                file.count = file.count.saturating_add(1);
                is_news = true;
            }
        }
        if !is_news {
            file.stale = file.stale.saturating_add(1);
            if file.stale > STALE_MAX {
                return;
            }
        }
        let is_dense = file.count >= LEAST && file.count.saturating_mul(PART) >= file.given.len();
        if is_dense {
            file.next.get_or_insert(0);
        }
        self.files.push_back(file);
    }

    /// The next piece that nobody has asked for; it counts as given from now on.
    pub(super) fn next(&mut self) -> Option<Piece> {
        let unit = self.unit;
        self.files.iter_mut().find_map(|file| {
            let from = file.next?;
            let left = file.given.get(from..).unwrap_or_default();
            let Some(skipped) = left.iter().position(|given| !given) else {
                file.next = None;
                return None;
            };
            let at = from.saturating_add(skipped);
            if let Some(given) = file.given.get_mut(at) {
                *given = true;
            }
            file.count = file.count.saturating_add(1);
            file.next = Some(at.saturating_add(1));
            let offset = u64::try_from(at).unwrap_or(u64::MAX).saturating_mul(unit);
            Some(Piece { node: file.node, offset })
        })
    }

    /// Whether there is anything to be given.
    pub(super) fn is_pending(&self) -> bool {
        self.files.iter().any(|file| file.next.is_some())
    }

    /// Forgets a file that the kernel has forgotten.
    pub(super) fn forget(&mut self, node: NodeNum) {
        let _ = self.take(node);
    }

    fn take(&mut self, node: NodeNum) -> Option<Watched> {
        let at = self.files.iter().position(|file| file.node == node)?;
        self.files.remove(at)
    }

    fn watch(&mut self, node: NodeNum, size: u64) -> Option<Watched> {
        if size > SIZE_MAX {
            return None;
        }
        let pieces = usize::try_from(size.div_ceil(self.unit)).ok()?;
        // A smaller one is never dense.
        if pieces < LEAST {
            return None;
        }
        if self.files.len() >= WATCHED {
            self.files.pop_front();
        }
        Some(Watched { node, given: vec![false; pieces], count: 0, stale: 0, next: None })
    }
}

#[cfg(test)]
#[path = "dense/tests.rs"]
mod tests;
