//! The heap: what is in it and what is not.

use super::Checker;
use crate::format::section::Section;
use crate::format::{Place, Rule, wide};

/// Strings in the heap: start and end.
#[derive(Debug, Default)]
pub(super) struct HeapUse {
    strings: Vec<(u64, u64)>,
}

impl HeapUse {
    pub(super) fn add(&mut self, position: u64, length: u64) {
        if length > 0 {
            self.strings.push((position, position.saturating_add(length)));
        }
    }
}

impl Checker<'_> {
    /// Rule 34 for the heap: bytes between strings are zero.
    pub(super) fn heap_gaps(&mut self, mut heap: HeapUse) {
        // The bytes of a string that is broken would not be known as such.
        if self.incomplete {
            return;
        }
        heap.strings.sort_unstable();
        let length = self.image.superblock.sections.heap_length();
        heap.strings.push((length, length));
        let mut at = 0u64;
        for (start, end) in heap.strings {
            if start > at && !self.heap_gap(at, start) {
                return;
            }
            at = at.max(end);
        }
    }

    fn heap_gap(&mut self, start: u64, end: u64) -> bool {
        let sections = self.image.superblock.sections;
        let size = sections.metadata_size();
        let first = sections.span(Section::Heap).first_block;
        let mut at = start;
        while at < end {
            let (block, inside) = (at.checked_div(size), at.checked_rem(size));
            let (Some(block), Some(inside)) = (block, inside) else { return false };
            let block = self.image.metadata_block(first.saturating_add(block));
            let Some(block) = self.read(block) else { return false };
            let take = size.saturating_sub(inside).min(end.saturating_sub(at));
            let from = crate::format::index64(inside);
            let part = block.get(from..).unwrap_or_default();
            let part = part.get(..crate::format::index64(take)).unwrap_or(part);
            if let Some(found) = part.iter().position(|byte| *byte != 0) {
                let place = Place::Heap(at.saturating_add(wide(found)));
                self.findings.broken(Rule::Unaccounted, place);
                return !self.findings.is_full();
            }
            at = at.saturating_add(take.max(1));
        }
        true
    }
}
