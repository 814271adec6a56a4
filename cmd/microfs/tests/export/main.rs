//! Images go back to ordinary tar layers, and come in again as they were.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

#[path = "../support/mod.rs"]
mod support;

mod archive;
mod hard_inputs;
mod images;
mod refuse;
mod trees;

use std::path::{Path, PathBuf};

use microfs::compare::CompareOptions;
use serde_json::json;
use support::content::Content;
use support::kinds::Kind;
use support::plan::{Meta, Plan, ROOT, What};
use support::program::{ok, output, succeed, texts, tool};
use support::scratch::Scratch;
use support::tars::{named, shell, two_layers};

fn dump(layout: &Path, tag: &str) -> String {
    ok(words!["dump", layout, tag])
}

/// A tree of a kind, and an image of it under the tag `t`.
fn built(scratch: &Scratch, kind: Kind, seed: u64) -> (PathBuf, PathBuf) {
    let source = scratch.dir("source");
    kind.plan(seed).make(&source, None);
    // Names that a layer cannot have.
    shell(&source, "find . -depth -name '.wh.*' -exec rm -r {} +");
    let layout = scratch.join("layout");
    ok(words!["build", "-q", source, layout, "t"]);
    (source, layout)
}

/// Unpacks an archive as root with GNU tar.
#[track_caller]
fn untar(archive: &Path, into: &Path) {
    std::fs::create_dir(into).unwrap();
    let mut tar = tool("tar");
    tar.args(["--xattrs", "--xattrs-include=*", "--numeric-owner", "--same-owner", "-p", "-x"]);
    // It sets times far from now, but says so.
    tar.arg("--warning=no-timestamp").arg("-f").arg(archive).arg("-C").arg(into);
    let output = output(&mut tar);
    let (_, errors) = texts(&output);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
}

/// The tree that umoci unpacks of an image.
#[track_caller]
fn umoci(scratch: &Scratch, layout: &Path, tag: &str) -> PathBuf {
    let bundle = scratch.join(&format!("bundle-{tag}"));
    succeed(tool("umoci").args(["unpack", "--image"]).arg(named(layout, tag)).arg(&bundle));
    bundle.join("rootfs")
}

fn extract(scratch: &Scratch, layout: &Path, tag: &str) -> PathBuf {
    let out = scratch.join(&format!("extracted-{tag}"));
    ok(words!["extract", "-q", "--strict", layout, tag, out]);
    out
}

/// An image of two layers, and a layout for what is given back.
fn two(scratch: &Scratch) -> (PathBuf, PathBuf) {
    (two_layers(scratch.path(), json!({}), json!({})), scratch.join("given"))
}

/// umoci writes the zeros of holes.
fn but_holes() -> CompareOptions {
    CompareOptions { holes: false, ..CompareOptions::default() }
}

/// A plan whose directory holds an object of this name.
fn with(name: &[u8], what: What) -> Plan {
    let mut plan = Plan::new(Meta::plain(0o755));
    let directory = plan.add(ROOT, b"d", What::Directory, Meta::plain(0o755));
    plan.add(directory, b"f", What::File(Content::text("f")), Meta::plain(0o644));
    let object = plan.add(directory, name, what, Meta::plain(0o644));
    plan.link(ROOT, [name, b"-again"].concat().as_slice(), object);
    plan
}
