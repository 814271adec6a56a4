use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};

use super::fixture::{Fixture, is_root, names};
use crate::scan::{OnError, Scan, ScanError, ScanOptions, ScanProgress, SkipReason};

/// Runs something with the rights of an ordinary user, in a thread of its own
/// (Linux gives rights to threads). `root` is made reachable.
pub(crate) fn as_ordinary_user<T: Send>(root: &Path, run: impl FnOnce() -> T + Send) -> T {
    if !is_root() {
        return run();
    }
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).unwrap();
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let (gid, uid) = (Gid::from_raw(65_534), Uid::from_raw(65_534));
            set_thread_res_gid(gid, gid, gid).unwrap();
            set_thread_res_uid(uid, uid, uid).unwrap();
            run()
        });
        thread.join().unwrap()
    })
}

fn skipping() -> ScanOptions {
    ScanOptions { on_error: OnError::Skip, ..ScanOptions::default() }
}

#[test]
fn unreadable_directory_fails_or_is_left_out() {
    let fixture = Fixture::new();
    fixture.directory("a").file("a/f", b"").directory("closed").file("closed/f", b"");
    fixture.directory("listed").file("listed/f", b"").file("z", b"");
    fs::set_permissions(fixture.join("closed"), fs::Permissions::from_mode(0o311)).unwrap();
    // It can be listed, but what is in it cannot be reached.
    fs::set_permissions(fixture.join("listed"), fs::Permissions::from_mode(0o644)).unwrap();
    let run = |options: ScanOptions| {
        as_ordinary_user(fixture.path(), || Scan::run(fixture.path(), &options))
    };
    let expected = fixture.join("closed");
    let error = run(ScanOptions::default()).unwrap_err();
    assert!(matches!(&error, ScanError::Unreadable { path, .. } if *path == expected), "{error}");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("Permission denied"), "{cause}");
    let scanned = run(skipping()).unwrap();
    let skipped: Vec<_> = scanned.skipped.iter().map(|skipped| skipped.path.as_slice()).collect();
    assert_eq!(skipped, [&b"closed"[..], b"listed"]);
    assert_eq!(names(&scanned.tree), ["", "a", "a/f", "z"]);
    scanned.tree.validate().unwrap();
    if is_root() {
        assert_eq!(fixture.scan().tree.node_count(), 8);
    }
    // So that an ordinary user can take them down.
    for name in ["closed", "listed"] {
        fs::set_permissions(fixture.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Does something to the directory at a certain report.
struct Meddler<F> {
    at: u64,
    calls: AtomicU64,
    meddle: F,
}

impl<F: Fn() + Send + Sync> ScanProgress for Meddler<F> {
    fn entries(&self, _: u64) -> ControlFlow<()> {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.at {
            (self.meddle)();
        }
        ControlFlow::Continue(())
    }
}

fn meddling(at: u64, meddle: impl Fn() + Send + Sync + 'static) -> ScanOptions {
    let progress = Arc::new(Meddler { at, calls: AtomicU64::new(0), meddle });
    ScanOptions { progress: Some(progress), ..ScanOptions::default() }
}

#[test]
fn vanished_entries_fail_or_are_left_out() {
    let fixture = Fixture::new();
    let paths: Vec<PathBuf> = ["f", "d"].iter().map(|name| fixture.join(name)).collect();
    let vanish = move || {
        // The root has been listed, but its entries were not looked at yet.
        fs::remove_file(&paths[0]).unwrap();
        fs::remove_dir(&paths[1]).unwrap();
    };
    fixture.file("f", b"").directory("d").file("stays", b"");
    let error = Scan::run(fixture.path(), &meddling(0, vanish.clone())).unwrap_err();
    assert!(
        matches!(&error, ScanError::Vanished { path } if *path == fixture.join("d")),
        "{error}"
    );
    fixture.file("f", b"").directory("d");
    let options = ScanOptions { on_error: OnError::Skip, ..meddling(0, vanish) };
    let scanned = fixture.scan_with(&options);
    assert_eq!(names(&scanned.tree), ["", "stays"]);
    assert_eq!(scanned.skipped.len(), 2);
    for skipped in &scanned.skipped {
        let vanished =
            SkipReason::Failed(ScanError::Vanished { path: fixture.join(&skipped.path) });
        assert_eq!(format!("{:?}", skipped.reason), format!("{vanished:?}"));
    }
    scanned.tree.validate().unwrap();
}

#[test]
fn a_directory_that_grows_is_listed_anew() {
    let fixture = Fixture::new();
    fixture.directory("a").directory("b");
    let late = fixture.join("b/late");
    // Reports: for the root, then for `a`; `b` was seen from above before both.
    let scanned = fixture.scan_with(&meddling(1, move || fs::write(&late, b"x").unwrap()));
    assert_eq!(names(&scanned.tree), ["", "a", "b", "b/late"]);
    let (_, b) = super::fixture::find(&scanned.tree, "b");
    let now = fs::metadata(fixture.join("b")).unwrap();
    assert_eq!(b.metadata.mtime.seconds, std::os::unix::fs::MetadataExt::mtime(&now));
}

#[test]
fn a_directory_that_became_a_link_is_not_entered() {
    let fixture = Fixture::new();
    fixture.directory("a").directory("b").directory("secret").file("secret/f", b"");
    let (b, moved) = (fixture.join("b"), fixture.join("moved"));
    let swap = move || {
        fs::rename(&b, &moved).unwrap();
        std::os::unix::fs::symlink("secret", &b).unwrap();
    };
    let error = Scan::run(fixture.path(), &meddling(1, swap)).unwrap_err();
    assert!(matches!(&error, ScanError::Changed { path } if *path == fixture.join("b")), "{error}");
}

#[test]
fn an_ancestor_that_moves_is_found_by_name_or_noticed() {
    const DEPTH: usize = 200;
    for lost in [false, true] {
        let fixture = Fixture::in_memory();
        fixture.chain(DEPTH, |_| false).directory("elsewhere").directory("d/d/e");
        let (from, to) = (fixture.join("d/d/d"), fixture.join("elsewhere/d"));
        let (above, renamed) = (fixture.join("d/d"), fixture.join("d/x"));
        let meddle = move || {
            // The walk is at the bottom, and what is moved is no longer open:
            // the way back by `..` leads elsewhere.
            fs::rename(&from, &to).unwrap();
            if lost {
                fs::rename(&above, &renamed).unwrap();
            }
        };
        let at = u64::try_from(DEPTH).unwrap();
        let result = Scan::run(fixture.path(), &meddling(at, meddle));
        if lost {
            let error = result.unwrap_err();
            let expected = fixture.join("d/d");
            assert!(matches!(&error, ScanError::Vanished { path } if *path == expected), "{error}");
        } else {
            let names = names(&result.unwrap().tree);
            assert!(names.contains(&"d/d/e".to_owned()));
        }
    }
}

#[test]
fn messages_name_the_path_harmlessly() {
    let fixture = Fixture::new();
    let error = Scan::run(&fixture.join("gone\x1b"), &ScanOptions::default()).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("gone\\u{1b}") && message.contains("vanished"), "{message}");
}
