//! Archives that other tools write. Where a tool is not installed its test does
//! nothing, unless the environment variable `CI` is set.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use microfs_oci::source::SourceKind;
use support::archive::{Place, contents, image_of, layer};
use support::compress::{gzip, zstd};
use support::{Handmade, OCI_TAR, tagged};

/// Runs a tool; `false` when it is not installed.
fn run(tool: &str, arguments: &[&str]) -> bool {
    match Command::new(tool).args(arguments).output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{tool} {arguments:?}: {errors}");
            true
        }
        Err(error) if std::env::var_os("CI").is_none() => {
            println!("{tool} cannot be run ({error}); not tested");
            false
        }
        Err(error) => panic!("{tool} is needed when CI is set: {error}"),
    }
}

/// A layout with an image `t` of a gzip layer, one of another kind, a plain one
/// and the first again.
fn layout(second: &str, pack: fn(&[u8]) -> Vec<u8>) -> (Handmade, Vec<Vec<u8>>) {
    let made = Handmade::new();
    let plain = [layer(b"one"), layer(b"two"), layer(b"three"), layer(b"one")];
    let kind = |suffix: &str| format!("{OCI_TAR}{suffix}");
    let image = image_of(
        &made,
        &[
            (&kind("+gzip"), &gzip(&plain[0]), &plain[0]),
            (&kind(second), &pack(&plain[1]), &plain[1]),
            (OCI_TAR, &plain[2], &plain[2]),
            (&kind("+gzip"), &gzip(&plain[0]), &plain[0]),
        ],
    );
    made.index(&[tagged(image, "t")]);
    (made, plain.to_vec())
}

fn oci(path: &Path) -> String {
    format!("oci:{}:t", path.display())
}

#[test]
fn skopeo_writes_a_layout_archive() {
    let (made, plain) = layout("+zstd", zstd);
    let place = Place::new();
    let target = place.dir.path().join("oci.tar");
    let named = format!("oci-archive:{}:name", target.display());
    if !run(
        "skopeo",
        &["copy", "--insecure-policy", "--preserve-digests", &oci(made.path()), &named],
    ) {
        return;
    }
    let source = place.open("oci.tar:name").unwrap();
    assert_eq!(source.kind(), SourceKind::LayoutArchive);
    let image = place.image("oci.tar").unwrap();
    assert_eq!(contents(&image), plain);
    let index = made.open().index().unwrap();
    assert_eq!(image.manifest_digest, index.descriptors().next().map(|entry| entry.digest.clone()));
    assert!(place.image("oci.tar:other").is_err());
    for tool in ["gzip", "zstd", "xz", "bzip2"] {
        if run(tool, &["-k", target.to_str().unwrap()]) {
            let suffix = match tool {
                "gzip" => "gz",
                "zstd" => "zst",
                "bzip2" => "bz2",
                other => other,
            };
            let image = place.image(&format!("oci.tar.{suffix}:name")).unwrap();
            assert_eq!(contents(&image), plain, "{tool}");
        }
    }
}

#[test]
fn skopeo_writes_a_docker_archive() {
    let (made, plain) = layout("+gzip", gzip);
    let place = Place::new();
    let target = place.dir.path().join("docker.tar");
    let named = format!("docker-archive:{}:library/x:v1", target.display());
    if !run("skopeo", &["copy", "--insecure-policy", &oci(made.path()), &named]) {
        return;
    }
    for name in
        ["docker.tar", "docker.tar:x:v1", "docker.tar:docker.io/library/x:v1", "docker.tar:v1"]
    {
        let source = place.open(name).unwrap();
        assert_eq!(source.kind(), SourceKind::DockerArchive);
        assert_eq!(contents(&place.image(name).unwrap()), plain, "{name}");
    }
    // The same, unpacked.
    let folder = place.dir.path().join("folder");
    fs::create_dir(&folder).unwrap();
    let text = [target.to_str().unwrap(), folder.to_str().unwrap()];
    if run("tar", &["-xf", text[0], "-C", text[1]]) {
        assert_eq!(place.open("folder").unwrap().kind(), SourceKind::DockerFolder);
        assert_eq!(contents(&place.image("folder:x:v1").unwrap()), plain);
    }
}

#[test]
fn skopeo_changes_types_on_the_way() {
    let (made, plain) = layout("+gzip", gzip);
    let place = Place::new();
    let copy = place.dir.path().join("copy");
    let target = format!("oci:{}:t", copy.display());
    let to = ["copy", "--insecure-policy", "--dest-compress-format", "zstd", "--dest-compress"];
    let original = oci(made.path());
    let arguments: Vec<&str> = to.into_iter().chain([&*original, &*target]).collect();
    if run("skopeo", &arguments) {
        assert_eq!(contents(&place.image("copy:t").unwrap()), plain);
    }
    let folder = place.dir.path().join("schema2");
    let target = format!("dir:{}", folder.display());
    if run("skopeo", &["copy", "--insecure-policy", "--format", "v2s2", &oci(made.path()), &target])
    {
        // A folder of that kind is none of the forms, and said to be none.
        assert!(place.open("schema2").is_err() || place.image("schema2").is_err());
        let again = format!("oci-archive:{}:t", place.dir.path().join("again.tar").display());
        run("skopeo", &["copy", "--insecure-policy", &target, &again]);
        assert_eq!(contents(&place.image("again.tar:t").unwrap()), plain);
    }
}
