//! Link counts across layers: how many names of a file show.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use super::{LayerInode, NodeNum, Stack};
use crate::error::ReadError;
use crate::format::inode::{Inode, InodeKind};

/// Every link-below of every layer.
#[derive(Debug, Default)]
pub(super) struct LinksBelow {
    by_target: HashMap<LayerInode, Vec<LayerInode>>,
    unresolved: Vec<LayerInode>,
}

/// Files whose counts are remembered; all are forgotten when there are more.
const COUNTS_MAX: usize = 1 << 20;

/// How many names show, of files that have several: every name is asked for
/// the count of all, and each count looks at every name.
#[derive(Debug, Default)]
pub(super) struct LinkCounts(Mutex<HashMap<LayerInode, u32>>);

impl LinkCounts {
    fn get(&self, at: LayerInode) -> Option<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&at).copied()
    }

    fn remember(&self, at: LayerInode, count: u32) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= COUNTS_MAX {
            counts.clear();
        }
        counts.insert(at, count);
    }
}

/// A hard link to a lower layer whose target is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnresolvedLink {
    /// Layer of the link, the lowest being 0.
    pub layer: u32,
    /// Its path.
    pub path: Vec<u8>,
    /// Where it should lead.
    pub target: Vec<u8>,
}

impl Stack {
    /// Names of a file that show: those of its own layer and of links to it
    /// from the layers above, less what is hidden.
    pub(super) fn visible_names(&self, at: LayerInode, inode: &Inode) -> Result<u32, ReadError> {
        let mut candidates = vec![(at, inode.links)];
        if self.has_links_below() {
            let links = self.links_below()?;
            for link in links.by_target.get(&at).into_iter().flatten() {
                candidates.push((*link, self.inode(*link)?.links));
            }
        }
        if candidates.len() == 1 && inode.links == 1 {
            return Ok(1);
        }
        if let Some(count) = self.counts.get(at) {
            return Ok(count);
        }
        // Two layers may have one name for it.
        let mut paths = HashSet::new();
        for (candidate, links) in candidates {
            self.visible_of(candidate, links, at, &mut paths)?;
        }
        // Asked about through a name, so one is there at least.
        let count = u32::try_from(paths.len()).unwrap_or(u32::MAX).max(1);
        self.counts.remember(at, count);
        Ok(count)
    }

    /// Adds those paths of `candidate` that show `target`.
    fn visible_of(
        &self,
        candidate: LayerInode,
        links: u32,
        target: LayerInode,
        paths: &mut HashSet<Vec<u8>>,
    ) -> Result<(), ReadError> {
        let image = self.image(candidate.layer)?;
        let names = if links == 1 {
            let inode = image.inode(candidate.inode)?;
            vec![(inode.parent, inode.dentry.unwrap_or(0))]
        } else {
            image.hard_links(&image.inode(candidate.inode)?)?
        };
        for (parent, dentry) in names {
            let directory = LayerInode { layer: candidate.layer, inode: parent };
            let (_, name) = image.dentry(dentry)?;
            let mut path = self.path_in_stack(directory)?;
            if self.shows(&path, &name, target)? {
                path.push(b'/');
                path.extend_from_slice(&name);
                paths.insert(path);
            }
        }
        Ok(())
    }

    /// Whether `name` in the directory of a path shows `target` in the stack.
    fn shows(&self, path: &[u8], name: &[u8], target: LayerInode) -> Result<bool, ReadError> {
        let mut node = NodeNum::ROOT;
        for part in path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()) {
            match self.lookup(node, part) {
                Ok(Some(next)) => node = next,
                Ok(None) | Err(ReadError::NotADirectory | ReadError::LinkUnresolved { .. }) => {
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        match self.lookup(node, name) {
            Ok(found) => Ok(found == Some(self.number(target))),
            Err(ReadError::NotADirectory | ReadError::LinkUnresolved { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn has_links_below(&self) -> bool {
        let has = |kinds: &[zerocopy::little_endian::U64]| {
            kinds.last().is_some_and(|count| count.get() > 0)
        };
        self.layers.iter().any(|image| has(&image.superblock().totals.kinds))
    }

    /// Hard links to lower layers whose target is not there. Looks at every
    /// inode of the layers that have such links.
    ///
    /// # Errors
    /// Everything of the reader.
    pub fn unresolved_links(&self) -> Result<Vec<UnresolvedLink>, ReadError> {
        if !self.has_links_below() {
            return Ok(Vec::new());
        }
        let describe = |at: &LayerInode| {
            let image = self.image(at.layer)?;
            let target = image.target(&image.inode(at.inode)?)?;
            Ok(UnresolvedLink { layer: at.layer, path: self.path_in_stack(*at)?, target })
        };
        self.links_below()?.unresolved.iter().map(describe).collect()
    }

    /// Collected once, when a link count is first asked for.
    fn links_below(&self) -> Result<&LinksBelow, ReadError> {
        if let Some(links) = self.links.get() {
            return Ok(links);
        }
        let mut links = LinksBelow::default();
        for (layer, image) in (0u32..).zip(&self.layers) {
            let mut left = image.superblock().totals.kinds.last().map_or(0, |count| count.get());
            let count = u32::try_from(image.superblock().inode_count()).unwrap_or(u32::MAX);
            for number in 0..count {
                if left == 0 {
                    break;
                }
                if let InodeKind::LinkBelow(_) = image.inode(number)?.kind {
                    left = left.saturating_sub(1);
                    let at = LayerInode { layer, inode: number };
                    match self.link_target(at) {
                        Ok(target) => links.by_target.entry(target).or_default().push(at),
                        Err(ReadError::LinkUnresolved { .. }) => links.unresolved.push(at),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(self.links.get_or_init(|| links))
    }
}
