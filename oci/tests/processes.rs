//! Many processes and threads on one layout, killed at any moment.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use microfs_oci::{GcOptions, Layout, OciError, PlatformRequest, Selector};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{add_image, new_layout, role, spawn};

/// Every image of the layout is whole. Gives the number of images.
fn check(path: &Path) -> usize {
    let layout = Layout::open(path).unwrap();
    let index = layout.index().unwrap();
    assert_eq!(index.unreadable(), 0);
    for name in index.names() {
        let selector = Selector::Tag(name);
        let (image, _files) = layout.resolve_and_open(&selector, &PlatformRequest::Host).unwrap();
        for layer in &image.layers {
            layout.verify_blob(&layer.descriptor).unwrap();
        }
    }
    index.names().len()
}

fn work(role: &str, path: &Path) {
    let (kind, name) = role.split_once(' ').unwrap();
    let layout = Layout::create_or_open(path).unwrap();
    match kind {
        // The same content from several builders, between removals of it.
        "build" => {
            for round in 0..40 {
                let session = layout.begin().unwrap();
                let mut content = vec![b'x'; 30_000];
                content.extend(format!("{}", round % 7).bytes());
                add_image(&session, &format!("{name}.{}", round % 5), &content);
            }
        }
        "untag" => {
            for round in 0..60 {
                match layout.untag(&format!("{name}.{}", round % 5)) {
                    Ok(()) | Err(OciError::TagNotFound { .. }) => {}
                    Err(error) => unreachable!("{error}"),
                }
            }
        }
        "gc" => {
            for _ in 0..60 {
                layout.gc(&GcOptions::default()).unwrap();
            }
        }
        // Reads an image that is replaced all the time.
        "read" => {
            let until = Instant::now() + Duration::from_secs(2);
            while Instant::now() < until {
                match layout.resolve_and_open(&Selector::Tag(name.into()), &PlatformRequest::Host) {
                    Ok(_) | Err(OciError::TagNotFound { .. }) => {}
                    Err(error) => unreachable!("{error}"),
                }
            }
        }
        // Begins with every number of files that may be open, until there are enough.
        "starve" => {
            let all = getrlimit(Resource::Nofile);
            let mut refused = 0;
            for limit in 0..64 {
                setrlimit(Resource::Nofile, Rlimit { current: Some(limit), ..all }).unwrap();
                let begun = layout.begin().map(drop);
                setrlimit(Resource::Nofile, all).unwrap();
                refused += u32::from(begun.is_err());
                let left = fs::read_dir(path.join(".microfs/sessions")).map_or(0, Iterator::count);
                assert_eq!(left, 0, "with at most {limit} files, {begun:?}");
            }
            assert!((5..60).contains(&refused), "{refused} of 64 were refused");
        }
        _ => unreachable!(),
    }
}

/// Does the work when this binary was started as a process of [`spawn`].
#[test]
fn child() {
    if let Some((role, path)) = role() {
        work(&role, &path);
    }
}

#[test]
fn builders_and_collectors_at_once_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let roles = ["build a", "build b", "build c", "untag a", "gc .", "gc .", "read b.1"];
    let mut children: Vec<_> = roles.iter().map(|role| spawn("child", role, &path)).collect();
    for (child, role) in children.iter_mut().zip(roles) {
        assert!(child.wait().unwrap().success(), "{role}");
    }
    assert!(check(&path) >= 10);
    let layout = Layout::open(&path).unwrap();
    layout.gc(&GcOptions::default()).unwrap();
    let report = layout.gc(&GcOptions::default()).unwrap();
    assert_eq!((report.stale_files, report.live_sessions, report.removed.len()), (0, 0, 0));
    check(&path);
}

#[test]
fn a_kill_at_any_moment_leaves_a_valid_layout() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let rounds: u64 = std::env::var("MICROFS_KILLS").map_or(40, |text| text.parse().unwrap());
    let roles = ["build a", "build b", "gc ."];
    let (mut seed, mut images) = (1_u64, 0);
    for _ in 0..rounds {
        let mut children: Vec<_> = roles.iter().map(|role| spawn("child", role, &path)).collect();
        for child in &mut children {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_micros((seed >> 33) % 25_000));
            child.kill().unwrap();
        }
        for child in &mut children {
            child.wait().unwrap();
        }
        if path.join("oci-layout").exists() {
            images = images.max(check(&path));
        }
    }
    assert!(images > 0, "every kill came before the first image");
    let layout = Layout::create_or_open(&path).unwrap();
    layout.gc(&GcOptions::default()).unwrap();
    assert_eq!(fs::read_dir(path.join(".microfs/sessions")).map_or(0, Iterator::count), 0);
    check(&path);
    add_image(&layout.begin().unwrap(), "after", b"works");
    check(&path);
}

#[test]
fn many_threads_create_and_tag() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let path = &path;
            scope.spawn(move || {
                let layout = Layout::create_or_open(path).unwrap();
                let session = layout.begin().unwrap();
                for number in 0..5 {
                    add_image(
                        &session,
                        &format!("t{thread}.{number}"),
                        format!("{thread}{number}").as_bytes(),
                    );
                }
            });
        }
    });
    assert_eq!(check(&path), 40);
}

#[test]
fn threads_of_one_session_share_its_lease() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let session = &session;
            scope.spawn(move || {
                for number in 0..10 {
                    session.put(format!("{thread} {number}").as_bytes()).unwrap();
                }
            });
        }
        for _ in 0..10 {
            assert_eq!(layout.gc(&GcOptions::default()).unwrap().removed, []);
        }
    });
    assert_eq!(layout.gc(&GcOptions::default()).unwrap().kept, 40);
}

#[test]
fn a_session_that_cannot_begin_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    assert!(spawn("child", "starve .", &path).wait().unwrap().success());
}
