//! Small images, and the files they consist of.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::content::{Content, Fill};
use super::plan::{Meta, Plan, ROOT, What};
use super::program::ok;
use super::scratch::Scratch;

/// A source of a few files and a layout with its image under the tag `t`.
pub struct Image {
    pub source: PathBuf,
    pub layout: PathBuf,
}

/// Bytes of the file `large` in [`Image`]: several blocks that do not compress.
pub const LARGE: u64 = 300_000;

impl Image {
    #[track_caller]
    pub fn new(scratch: &Scratch) -> Self {
        let source = scratch.dir("source");
        plan().make(&source, None);
        let layout = scratch.join("layout");
        ok(words!["build", "-q", "--block-size", "64K", source, layout, "t"]);
        Self { source, layout }
    }

    /// The file of its only layer.
    #[track_caller]
    pub fn layer(&self) -> PathBuf {
        blob(&self.layout, self.inspect()["layers"][0]["digest"].as_str().unwrap())
    }

    /// The file of its manifest.
    #[track_caller]
    pub fn manifest(&self) -> PathBuf {
        blob(&self.layout, self.inspect()["manifest"].as_str().unwrap())
    }

    #[track_caller]
    fn inspect(&self) -> Value {
        serde_json::from_str(&ok(words!["inspect", "--json", self.layout, "t"])).unwrap()
    }
}

fn plan() -> Plan {
    let mut plan = Plan::new(Meta::plain(0o755));
    let directory = plan.add(ROOT, b"directory", What::Directory, Meta::plain(0o755));
    let small = Content::whole(2000, Fill::Words(1));
    let file = plan.add(directory, b"small", What::File(small), Meta::plain(0o644));
    plan.link(ROOT, b"linked", file);
    let large = Content::whole(LARGE, Fill::Random(2));
    plan.add(ROOT, b"large", What::File(large), Meta::plain(0o644));
    plan.add(ROOT, b"link", What::Symlink(b"directory/small".to_vec()), Meta::plain(0o777));
    plan
}

/// The file of a blob.
pub fn blob(layout: &Path, digest: &str) -> PathBuf {
    layout.join("blobs").join(digest.replace(':', "/"))
}

/// Inverts the bits of one byte of a file.
#[track_caller]
pub fn damage(path: &Path, offset: u64) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).unwrap();
    file.write_all_at(&[!byte[0]], offset).unwrap();
}

/// Nothing is tagged and nothing half-written is left.
#[track_caller]
pub fn assert_nothing_written(layout: &Path) {
    if !layout.join("oci-layout").exists() {
        return;
    }
    assert_eq!(ok(words!["images", layout]), "");
    let sessions = std::fs::read_dir(layout.join(".microfs/sessions")).into_iter().flatten();
    let unfinished = sessions.map(|session| std::fs::read_dir(session.unwrap().path()).unwrap());
    let unfinished: Vec<_> = unfinished.flatten().map(|file| file.unwrap().path()).collect();
    assert!(unfinished.is_empty(), "{unfinished:?}");
    for entry in std::fs::read_dir(layout.join("blobs/sha256")).into_iter().flatten() {
        // What has a blob's name is whole: `sha256sum` agrees.
        let path = entry.unwrap().path();
        let sum = super::program::succeed(super::program::tool("sha256sum").arg(&path));
        assert_eq!(sum.split(' ').next(), path.file_name().and_then(|name| name.to_str()));
    }
}
