//! What is asked of the kernel when a mount is initialised.

use std::str::FromStr;

use fuser::{InitFlags, KernelConfig};
use thiserror::Error;

/// Largest request in bytes. Nothing is ever written, but the kernel derives
/// the size of reads from it.
const MAX_REQUEST: u32 = 1 << 20;
/// Read-ahead requests in flight, and how many of them mean congestion.
const MAX_BACKGROUND: u16 = 64;
const CONGESTION: u16 = 48;

/// A feature of the kernel's FUSE driver that makes an immutable filesystem
/// faster or more complete. Each is used only when the kernel offers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Capability {
    /// Files are opened without a message.
    NoOpen = 1 << 0,
    /// Directories are opened without a message.
    NoOpenDir = 1 << 1,
    /// Listings bring attributes along.
    ReadDirPlus = 1 << 2,
    /// Link targets are cached.
    CacheSymlinks = 1 << 3,
    /// Lookups in one directory run in parallel.
    ParallelDirOps = 1 << 4,
    /// The mount can be cloned with mapped owners.
    AllowIdmap = 1 << 5,
    /// The kernel honours and caches POSIX access control lists.
    PosixAcl = 1 << 6,
    /// File handles stay valid when the kernel forgets a file (NFS, overlayfs).
    Export = 1 << 7,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::NoOpen,
        Self::NoOpenDir,
        Self::ReadDirPlus,
        Self::CacheSymlinks,
        Self::ParallelDirOps,
        Self::AllowIdmap,
        Self::PosixAcl,
        Self::Export,
    ];

    /// Name as accepted by [`Capability::from_str`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoOpen => "no-open",
            Self::NoOpenDir => "no-opendir",
            Self::ReadDirPlus => "readdirplus",
            Self::CacheSymlinks => "cache-symlinks",
            Self::ParallelDirOps => "parallel-dirops",
            Self::AllowIdmap => "allow-idmap",
            Self::PosixAcl => "posix-acl",
            Self::Export => "export",
        }
    }

    fn flag(self) -> InitFlags {
        match self {
            Self::NoOpen => InitFlags::FUSE_NO_OPEN_SUPPORT,
            Self::NoOpenDir => InitFlags::FUSE_NO_OPENDIR_SUPPORT,
            Self::ReadDirPlus => InitFlags::FUSE_DO_READDIRPLUS,
            Self::CacheSymlinks => InitFlags::FUSE_CACHE_SYMLINKS,
            Self::ParallelDirOps => InitFlags::FUSE_PARALLEL_DIROPS,
            Self::AllowIdmap => InitFlags::FUSE_ALLOW_IDMAP,
            Self::PosixAcl => InitFlags::FUSE_POSIX_ACL,
            Self::Export => InitFlags::FUSE_EXPORT_SUPPORT,
        }
    }
}

/// A name that [`Capability::from_str`] does not know.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "unknown FUSE capability (known: no-open, no-opendir, readdirplus, cache-symlinks, parallel-dirops, allow-idmap, posix-acl, export)"
)]
pub struct UnknownCapability;

impl FromStr for Capability {
    type Err = UnknownCapability;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|known| known.name() == name).ok_or(UnknownCapability)
    }
}

/// A set of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CapabilitySet(u16);

impl CapabilitySet {
    /// Adds one.
    pub fn insert(&mut self, capability: Capability) {
        self.0 |= capability as u16;
    }

    /// Whether it is in the set.
    #[must_use]
    pub fn contains(self, capability: Capability) -> bool {
        self.0 & capability as u16 != 0
    }
}

impl FromIterator<Capability> for CapabilitySet {
    fn from_iter<I: IntoIterator<Item = Capability>>(capabilities: I) -> Self {
        let mut set = Self::default();
        capabilities.into_iter().for_each(|capability| set.insert(capability));
        set
    }
}

/// Asks for everything that is offered, not masked and of use; ACL support is
/// of use only when `acls` occur, because the kernel then asks for them on
/// every first look at a file. Says what the kernel agreed to.
pub(crate) fn negotiate(
    config: &mut KernelConfig,
    masked: CapabilitySet,
    acls: bool,
) -> CapabilitySet {
    let mut agreed = CapabilitySet::default();
    for capability in Capability::ALL {
        let useful = capability != Capability::PosixAcl || acls;
        if useful
            && !masked.contains(capability)
            && config.add_capabilities(capability.flag()).is_ok()
        {
            agreed.insert(capability);
        }
    }
    // Each of these is refused only for values that the constants do not have.
    let _ = config.set_max_write(MAX_REQUEST);
    let _ = config.set_max_background(MAX_BACKGROUND);
    let _ = config.set_congestion_threshold(CONGESTION);
    agreed
}

#[cfg(test)]
mod tests;
