//! Images of small directories, and mounts of them.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use microfs::build::write_directory;
use microfs::scan::{OnError, Scan, ScanOptions};
use microfs::stack::{LayerSource, Stack, StackOptions};
use microfs::writer::{Options, Progress, Silent};
use microfs_fuse::{Capability, Log, MountOptions, Mounted, mount};
use tempfile::TempDir;

/// Length of the file `large`, in bytes: more than two blocks and not a whole number of them.
pub const LARGE: usize = 300_001;
/// Length of the file `sparse`, in bytes.
pub const SPARSE: u64 = 10 << 20;

/// Bytes that do not compress (a linear congruential generator's high bits).
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let step = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..length).map(step).collect()
}

/// A directory with one of everything that an ordinary user can make.
pub fn make_tree(root: &Path) {
    fs::write(root.join("small"), b"content").unwrap();
    fs::hard_link(root.join("small"), root.join("name two")).unwrap();
    fs::write(root.join("empty"), b"").unwrap();
    fs::write(root.join("large"), noise(LARGE)).unwrap();
    fs::create_dir_all(root.join("directory/below")).unwrap();
    fs::write(root.join("directory/file"), b"in a directory").unwrap();
    symlink("directory/file", root.join("link")).unwrap();
    let mut sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(SPARSE).unwrap();
    sparse.write_all_at(&[1; 65_536], 65_536).unwrap();
    sparse.flush().unwrap();
}

/// The blob of a directory.
pub fn blob(root: &Path) -> Vec<u8> {
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let scanned = Scan::run(root, &ScanOptions::default()).unwrap();
    let silent: Arc<dyn Progress> = Arc::new(Silent);
    let (sink, options) = (&mut || Ok(Vec::new()), Options::default());
    write_directory(sink, scanned, OnError::Fail, &options, &pool, &silent).unwrap().sink
}

/// A mount and all that it lives on.
pub struct Fixture {
    pub mounted: Option<Mounted>,
    pub log: Arc<Mutex<Vec<String>>>,
    mount_point: TempDir,
}

impl Fixture {
    /// Mounts a blob as on a kernel without the masked capabilities.
    pub fn new(blob: Vec<u8>, masked: &[Capability]) -> Self {
        let mount_point = tempfile::tempdir().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&log);
        let options = MountOptions {
            signals: false,
            masked: masked.iter().copied().collect(),
            log: Log::new(move |line| sink.lock().unwrap().push(line.to_owned())),
            ..MountOptions::default()
        };
        let mounted = mount(open(blob), mount_point.path(), &options).unwrap();
        Self { mounted: Some(mounted), log, mount_point }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.mount_point.path().join(name)
    }

    pub fn mounted(&self) -> &Mounted {
        self.mounted.as_ref().unwrap()
    }

    /// Whether the mount table has it.
    pub fn is_mounted(&self) -> bool {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let path = self.mount_point.path().canonicalize().unwrap();
        table.lines().any(|line| line.split(' ').nth(4) == path.to_str())
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Before the directory it is mounted on is removed.
        drop(self.mounted.take());
    }
}

pub fn open(blob: Vec<u8>) -> Arc<Stack> {
    let layer = LayerSource { source: Box::new(blob), sha256: None };
    Arc::new(Stack::open(vec![layer], &StackOptions::default()).unwrap())
}
