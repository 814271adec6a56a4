//! A filesystem of its own for each test, and the end of everything on it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::mount::{MountFlags, UnmountFlags};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A tmpfs below the folder for temporary files. tmpfs keeps every time,
/// owner, attribute, device and size that the kernel can express. Everything
/// mounted below it is taken down with it, also when a test fails.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    #[track_caller]
    pub fn new() -> Self {
        super::need_root();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("microfs-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().canonicalize().unwrap().join(name);
        std::fs::create_dir(&path).unwrap();
        mount_tmpfs(&path, c"mode=0755,size=4g");
        Self { path }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path on it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// A new directory on it.
    #[track_caller]
    pub fn dir(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// A new file on it.
    #[track_caller]
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The lazy unmount of a FUSE mount also ends the process that serves it.
        let mut below = mounts_below(&self.path);
        below.reverse();
        for mount in below {
            let _ = rustix::mount::unmount(&mount, UnmountFlags::DETACH);
        }
        let _ = std::fs::remove_dir(&self.path);
    }
}

#[track_caller]
pub fn mount_tmpfs(path: &Path, data: &std::ffi::CStr) {
    rustix::mount::mount("microfs-test", path, "tmpfs", MountFlags::empty(), data)
        .unwrap_or_else(|error| panic!("cannot mount a tmpfs on {}: {error}", path.display()));
}

/// Mount points at or below a path, in the order in which they were made.
pub fn mounts_below(path: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    // Only blanks, tabs, line feeds and backslashes are escaped, as octal numbers.
    let points = points.map(|point| PathBuf::from(point.replace("\\040", " ")));
    points.filter(|point| point.starts_with(path)).collect()
}

/// Whether a filesystem is mounted exactly there.
pub fn is_mounted(path: &Path) -> bool {
    mounts_below(path).iter().any(|point| point == path)
}
