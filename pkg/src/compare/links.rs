//! Which names are the same object.

use std::collections::HashMap;

use super::{Attributes, Difference, What};

/// Groups of names by object, in both trees. Holds an entry for each object
/// that claims more than one link, and the first path of each.
#[derive(Debug, Default)]
pub(super) struct LinkGroups {
    a: HashMap<(u64, u64), Group>,
    b: HashMap<(u64, u64), Group>,
    /// By the first name that both trees have.
    pairs: Vec<Pair>,
}

/// The names of one object met so far.
#[derive(Debug, Clone, Copy)]
struct Group {
    names: u32,
    /// Index of the pair at whose path it was met first; `None` when that
    /// path is not in the other tree.
    first: Option<usize>,
}

/// Two objects met at one path.
#[derive(Debug)]
struct Pair {
    path: Vec<u8>,
    a: Attributes,
    b: Attributes,
}

/// What is known about a pair of objects.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// At least one of them was not seen before.
    First,
    /// Both were, at one earlier path, and were compared there.
    Before,
}

impl LinkGroups {
    /// Notes a name that only one tree has.
    pub(super) fn only_a(&mut self, attributes: &Attributes) {
        note(&mut self.a, attributes, None);
    }

    /// The same for the second tree.
    pub(super) fn only_b(&mut self, attributes: &Attributes) {
        note(&mut self.b, attributes, None);
    }

    /// Notes a name of two objects that are not directories.
    pub(super) fn both(
        &mut self,
        path: impl FnOnce() -> Vec<u8>,
        a: &Attributes,
        b: &Attributes,
    ) -> (Met, Option<What>) {
        if a.links <= 1 && b.links <= 1 {
            return (Met::First, None);
        }
        let here = self.pairs.len();
        let first_a = note(&mut self.a, a, Some(here)).filter(|first| *first != here);
        let first_b = note(&mut self.b, b, Some(here)).filter(|first| *first != here);
        if first_a.is_none() || first_b.is_none() {
            self.pairs.push(Pair { path: path(), a: *a, b: *b });
        }
        if first_a == first_b {
            let met = if first_a.is_some() { Met::Before } else { Met::First };
            return (met, None);
        }
        let path_of = |first: Option<usize>| {
            first.and_then(|first| self.pairs.get(first)).map(|pair| pair.path.clone())
        };
        (Met::First, Some(What::LinkedTo { a: path_of(first_a), b: path_of(first_b) }))
    }

    /// Compares link counts when all names have been met. Where an object has
    /// names outside the tree, the count is what it would be without them; but
    /// in a closed tree there can be none, and it is taken as it is.
    pub(super) fn counts(self, a_closed: bool, b_closed: bool) -> Vec<Difference> {
        let mut found = Vec::new();
        for pair in &self.pairs {
            let names_a = self.a.get(&pair.a.identity).map_or(1, |group| group.names);
            let names_b = self.b.get(&pair.b.identity).map_or(1, |group| group.names);
            let a = if a_closed { pair.a.links } else { pair.a.links.min(names_a) };
            let b = if b_closed { pair.b.links } else { pair.b.links.min(names_b) };
            if a != b {
                found.push(Difference { path: pair.path.clone(), what: What::Links { a, b } });
            }
        }
        found
    }
}

/// Counts a name and tells at which pair the object was met first.
fn note(
    groups: &mut HashMap<(u64, u64), Group>,
    attributes: &Attributes,
    here: Option<usize>,
) -> Option<usize> {
    if attributes.links <= 1 {
        return here;
    }
    let group = groups.entry(attributes.identity).or_insert(Group { names: 0, first: here });
    group.names = group.names.saturating_add(1);
    if group.first.is_none() {
        group.first = here;
    }
    group.first
}
