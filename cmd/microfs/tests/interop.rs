//! Other tools take our layouts, and we take what they make of them.
//!
//! The tools are needed: `make setup` installs them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::image::Image;
use support::program::{ok, succeed, tool, unmount};
use support::same::assert_same;
use support::scratch::Scratch;

fn oci(layout: &Path, tag: &str) -> String {
    format!("oci:{}:{tag}", layout.display())
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Mounts an image and compares it with its source.
#[track_caller]
fn assert_mounts(scratch: &Scratch, layout: &Path, tag: &str, source: &Path) {
    let at = scratch.dir("mount");
    ok(words!["check", layout, tag]);
    ok(words!["mount", layout, tag, at]);
    assert_same(source, &at);
    unmount(&at);
}

#[test]
fn skopeo_inspects() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    ok(words![
        "build",
        "-q",
        "--config-env",
        "A=b",
        "--config-label",
        "k=v",
        "--config-cmd",
        "/large",
        "--config-workdir",
        "/directory",
        "--config-user",
        "5:6",
        "--config-platform",
        "linux/arm64/v8",
        "--config-created",
        "2020-01-02T03:04:05Z",
        source,
        layout,
        "c"
    ]);
    let ours = parse(&ok(words!["inspect", "--json", "--platform", "linux/arm64/v8", layout, "c"]));
    let skopeo =
        |words: &[&str]| succeed(tool("skopeo").arg("inspect").args(words).arg(oci(&layout, "c")));
    let seen = parse(&skopeo(&[]));
    assert_eq!(seen["Digest"], ours["manifest"]);
    assert_eq!(seen["Layers"], json!([ours["layers"][0]["digest"]]));
    assert_eq!(seen["Architecture"], "arm64");
    assert_eq!(seen["Created"], "2020-01-02T03:04:05Z");
    assert_eq!(seen["Labels"], json!({ "k": "v" }));
    assert_eq!(seen["Env"], json!(["A=b"]));
    let config = parse(&skopeo(&["--config"]));
    assert_eq!(config, ours["image_config"]);
    assert_eq!(config["config"]["WorkingDir"], "/directory");
    assert_eq!(config["config"]["User"], "5:6");
    assert_eq!(config["config"]["Cmd"], json!(["/large"]));
    // A layer without outer compression is its own diff_id.
    assert_eq!(config["rootfs"]["diff_ids"], seen["Layers"]);
}

#[test]
fn what_skopeo_copied_mounts() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let copy = scratch.join("copy");
    succeed(tool("skopeo").args(["copy", "-q"]).arg(oci(&layout, "t")).arg(oci(&copy, "u")));
    assert_mounts(&scratch, &copy, "u", &source);
    let (old, new) = (["inspect", "--json"], ok(words!["inspect", "--json", copy, "u"]));
    assert_eq!(ok(words![old[0], old[1], layout, "t"]), new);
    // Back into the first layout, beside the images there.
    succeed(tool("skopeo").args(["copy", "-q"]).arg(oci(&copy, "u")).arg(oci(&layout, "back")));
    assert_mounts(&scratch, &layout, "back", &source);
    ok(words!["gc", layout]);
    assert_mounts(&scratch, &layout, "t", &source);
    // And we go on in the layout that skopeo made.
    ok(words!["build", "-q", "--all-root", source, copy, "v"]);
    assert_mounts(&scratch, &copy, "v", &source);
    assert_mounts(&scratch, &copy, "u", &source);
    // An archive, and unpacked again.
    let archive = scratch.join("image.tar");
    let name = format!("oci-archive:{}:t", archive.display());
    succeed(tool("skopeo").args(["copy", "-q"]).arg(oci(&layout, "t")).arg(name));
    let unpacked = scratch.dir("unpacked");
    succeed(tool("tar").arg("-xf").arg(&archive).arg("-C").arg(&unpacked));
    assert_mounts(&scratch, &unpacked, "t", &source);
}

#[test]
fn umoci_lists_and_describes() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    ok(words!["tag", layout, "t", "v1.0-rc.2"]);
    let list = succeed(tool("umoci").args(["list", "--layout"]).arg(&layout));
    let mut tags: Vec<&str> = list.lines().collect();
    tags.sort_unstable();
    assert_eq!(tags, ["t", "v1.0-rc.2"]);
    let image = format!("{}:t", layout.display());
    let stat = parse(&succeed(tool("umoci").args(["stat", "--json", "--image", &image])));
    assert!(stat.is_object(), "{stat}");
    // umoci edits the config and writes an image of its own.
    succeed(tool("umoci").args(["config", "--image", &image, "--config.env", "X=y", "--tag", "e"]));
    let edited = parse(&ok(words!["inspect", "--json", layout, "e"]));
    assert_eq!(edited["image_config"]["config"]["Env"], json!(["X=y"]));
    let ours = parse(&ok(words!["inspect", "--json", layout, "t"]));
    assert_eq!(edited["layers"][0]["digest"], ours["layers"][0]["digest"]);
    succeed(tool("umoci").args(["gc", "--layout"]).arg(&layout));
    ok(words!["check", layout, "t"]);
    ok(words!["untag", layout, "e"]);
    ok(words!["gc", layout]);
    let list = succeed(tool("umoci").args(["list", "--layout"]).arg(&layout));
    assert_eq!(list.lines().count(), 2, "{list}");
}
