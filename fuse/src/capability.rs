//! What is asked of the kernel when a mount is initialised.

use std::str::FromStr;

use thiserror::Error;

use crate::abi::init;

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

    pub(crate) fn flag(self) -> u64 {
        match self {
            Self::NoOpen => init::NO_OPEN_SUPPORT,
            Self::NoOpenDir => init::NO_OPENDIR_SUPPORT,
            Self::ReadDirPlus => init::DO_READDIRPLUS,
            Self::CacheSymlinks => init::CACHE_SYMLINKS,
            Self::ParallelDirOps => init::PARALLEL_DIROPS,
            Self::AllowIdmap => init::ALLOW_IDMAP,
            Self::PosixAcl => init::POSIX_ACL,
            Self::Export => init::EXPORT_SUPPORT,
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

    /// Their flags of INIT.
    pub(crate) fn flags(self) -> u64 {
        let all = Capability::ALL.into_iter().filter(|capability| self.contains(*capability));
        all.map(Capability::flag).fold(0, |flags, flag| flags | flag)
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

#[cfg(test)]
mod tests;
