//! Bounds on what is read from a layout that somebody else wrote.

/// Upper bounds that hold before memory is allocated or work is done.
///
/// All sizes are bytes. [`Limits::default`] suits images met in practice by a
/// wide margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Size of the layout's `index.json`. Also holds when it is written, so a
    /// layout never grows into one that cannot be read. Default 16 MiB.
    pub index_bytes: u64,
    /// Size of one image manifest or one nested index. Default 4 MiB, which
    /// is what the OCI distribution specification asks registries to accept.
    pub manifest_bytes: u64,
    /// Size of one image config. Default 16 MiB.
    pub config_bytes: u64,
    /// Layers of one image. Default 1024.
    pub layers: usize,
    /// Indexes inside indexes below `index.json`. Default 8.
    pub index_depth: usize,
    /// Members of an image archive. Default 65,536.
    pub archive_members: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            index_bytes: 16 << 20,
            manifest_bytes: 4 << 20,
            config_bytes: 16 << 20,
            layers: 1024,
            index_depth: 8,
            archive_members: 1 << 16,
        }
    }
}
