//! Standard tools accept what this crate writes. Where a tool is not installed
//! its test does nothing, unless the environment variable `CI` is set.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use microfs_oci::{GcOptions, Layout, PlatformRequest, Selector};
use support::{add_image, new_layout};

/// Runs a tool; `None` when it is not installed.
fn run(tool: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(tool).args(arguments).output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{tool} {arguments:?}: {errors}");
            Some(output)
        }
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("{tool} cannot be run ({error}); not tested");
            None
        }
        Err(error) => panic!("{tool} is needed when CI is set: {error}"),
    }
}

fn oci(path: &Path, tag: &str) -> String {
    format!("oci:{}:{tag}", path.display())
}

#[test]
fn skopeo_reads_and_copies_a_layout() {
    let (dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    add_image(&session, "t", b"opaque layer");
    add_image(&session, "docker.io/library/x:v1", b"another");
    let Some(output) = run("skopeo", &["inspect", "--raw", &oci(layout.path(), "t")]) else {
        return;
    };
    let image = layout.resolve(&Selector::Tag("t".into()), &PlatformRequest::Host).unwrap();
    assert_eq!(output.stdout, image.manifest_json);
    run("skopeo", &["inspect", "--config", &oci(layout.path(), "docker.io/library/x:v1")]);

    // Into a new layout, and into one of ours beside other images.
    let copy = dir.path().join("copy");
    run("skopeo", &["copy", &oci(layout.path(), "t"), &oci(&copy, "u")]);
    let copied = Layout::open(&copy).unwrap();
    let seen = copied.resolve(&Selector::Tag("u".into()), &PlatformRequest::Host).unwrap();
    assert_eq!((&seen.manifest_json, &seen.layers), (&image.manifest_json, &image.layers));
    copied.verify_blob(&seen.layers[0].descriptor).unwrap();
    run("skopeo", &["copy", &oci(&copy, "u"), &oci(layout.path(), "back")]);
    assert_eq!(layout.list().unwrap().len(), 3);
    drop(session);
    assert_eq!(layout.gc(&GcOptions::default()).unwrap().removed, []);

    // And we go on in the layout that skopeo made.
    add_image(&copied.begin().unwrap(), "ours", b"third");
    run("skopeo", &["inspect", "--raw", &oci(&copy, "ours")]);
    run("skopeo", &["inspect", "--raw", &oci(&copy, "u")]);
}

#[test]
fn umoci_lists_and_collects_a_layout() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    add_image(&session, "one", b"1");
    add_image(&session, "two", b"2");
    session.put(b"rubbish").unwrap();
    let path = layout.path().to_str().unwrap();
    let Some(output) = run("umoci", &["list", "--layout", path]) else { return };
    let mut names: Vec<&str> = std::str::from_utf8(&output.stdout).unwrap().lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["one", "two"]);
    run("umoci", &["gc", "--layout", path]);
    assert!(fs::read_dir(layout.path().join(".microfs/sessions")).unwrap().count() > 0);
    assert_eq!(support::count_blobs(layout.path()), 6);
    run("umoci", &["tag", "--image", &format!("{path}:one"), "three"]);
    run("umoci", &["remove", "--image", &format!("{path}:one")]);
    layout.resolve(&Selector::Tag("three".into()), &PlatformRequest::Host).unwrap();
    assert_eq!(layout.index().unwrap().names().len(), 2);
}

#[test]
fn what_umoci_makes_is_an_image() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let text = path.to_str().unwrap();
    if run("umoci", &["init", "--layout", text]).is_none() {
        return;
    }
    run("umoci", &["new", "--image", &format!("{text}:empty")]);
    let layout = Layout::create_or_open(&path).unwrap();
    let image = layout.resolve(&Selector::Only, &PlatformRequest::Host).unwrap();
    assert!(image.layers.is_empty());
    image.configuration().unwrap();
    assert_eq!(layout.gc(&GcOptions::default()).unwrap().removed, []);
}
