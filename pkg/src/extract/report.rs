//! What was made and what could not be restored.

use std::fmt;
use std::path::PathBuf;

use crate::format::FileType;

/// Most cases that a report lists; all are counted.
pub(super) const LISTED_MAX: usize = 1000;

/// A property that could not be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Owner and group.
    Owner,
    /// setuid or setgid, which would have held for the wrong owner or group.
    SetId,
    /// The modification time: the filesystem cannot store it.
    Time,
    /// The device node: it was not made.
    Device,
    /// An extended attribute, by name.
    Xattr(Vec<u8>),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => write!(f, "the owner"),
            Self::SetId => write!(f, "setuid or setgid"),
            Self::Time => write!(f, "the modification time"),
            Self::Device => write!(f, "the device node"),
            Self::Xattr(name) => write!(f, "xattr {}", String::from_utf8_lossy(name)),
        }
    }
}

/// A case of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unrestored {
    /// The object's path in the image, without leading slash.
    pub path: PathBuf,
    /// What is missing.
    pub what: What,
}

/// Counts of what was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExtractReport {
    /// Directories, the target included.
    pub directories: u64,
    /// Regular files.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Device nodes.
    pub devices: u64,
    /// Named pipes.
    pub fifos: u64,
    /// Sockets.
    pub sockets: u64,
    /// Further names of files.
    pub hard_links: u64,
    /// Bytes of content written.
    pub bytes: u64,
    /// Objects whose owner was not restored.
    pub owners_lost: u64,
    /// Objects whose setuid or setgid bits were not.
    pub set_ids_lost: u64,
    /// Objects whose time was not.
    pub times_lost: u64,
    /// Device nodes that were not made.
    pub devices_lost: u64,
    /// Extended attributes that were not.
    pub xattrs_lost: u64,
    /// The first cases, at most 1000.
    pub unrestored: Vec<Unrestored>,
}

impl ExtractReport {
    /// Whether everything was restored.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.lost() == 0
    }

    /// Number of properties that were not restored.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let counts = [
            self.owners_lost,
            self.set_ids_lost,
            self.times_lost,
            self.devices_lost,
            self.xattrs_lost,
        ];
        counts.into_iter().fold(0, u64::saturating_add)
    }

    pub(super) fn count_lost(&mut self, what: &What) {
        let count = match what {
            What::Owner => &mut self.owners_lost,
            What::SetId => &mut self.set_ids_lost,
            What::Time => &mut self.times_lost,
            What::Device => &mut self.devices_lost,
            What::Xattr(_) => &mut self.xattrs_lost,
        };
        *count = count.saturating_add(1);
    }

    pub(super) fn count_made(&mut self, file_type: FileType) {
        let count = match file_type {
            FileType::Regular => &mut self.files,
            FileType::Directory => &mut self.directories,
            FileType::Symlink => &mut self.symlinks,
            FileType::CharDevice | FileType::BlockDevice => &mut self.devices,
            FileType::Fifo => &mut self.fifos,
            FileType::Socket => &mut self.sockets,
        };
        *count = count.saturating_add(1);
    }
}
