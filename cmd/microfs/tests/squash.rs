//! Many layers become one that shows the same.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::image::{Image, damage};
use support::kinds::Kind;
use support::mutate::mutate;
use support::program::{ok, refuse, succeed, tool, unmount};
use support::same::assert_same;
use support::scratch::Scratch;
use support::seeds;
use support::tars::{config, layer_files, manifest, named, two_layers};

fn dump(layout: &Path, tag: &str) -> String {
    ok(words!["dump", layout, tag])
}

#[test]
fn a_built_layer_stays_the_same_byte_for_byte() {
    for seed in seeds() {
        for kind in Kind::ALL {
            eprintln!("{kind:?}, seed {seed}");
            let scratch = Scratch::new();
            let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
            kind.plan(seed).make(&source, None);
            for (tag, options) in [
                ("t", &[][..]),
                ("small", &["--block-size", "4K", "--compression", "zstd:3"]),
                ("plain", &["--compression", "none", "--no-dedup"]),
            ] {
                let mut words = words!["build", "-q", source, layout, tag];
                words.extend(options.iter().map(Into::into));
                ok(words);
                let squashed = format!("{tag}-squashed");
                let mut words = words!["squash", "-q", layout, "t", squashed];
                words.extend(options.iter().map(Into::into));
                ok(words);
                assert_eq!(layer_files(&layout, &squashed), layer_files(&layout, tag), "{tag}");
            }
        }
    }
}

#[test]
fn two_layers_become_one() {
    let scratch = Scratch::new();
    let image = two_layers(scratch.path(), json!({}), json!({}));
    let said = ok(words!["squash", image, "t", "one"]);
    assert!(said.starts_with(&format!("{}:one\n", image.display())), "{said}");
    assert_eq!(layer_files(&image, "one").len(), 1);
    assert_eq!(dump(&image, "one"), dump(&image, "t"));
    ok(words!["check", "-q", image, "one"]);
    let (out, at) = (scratch.join("out"), scratch.dir("mount"));
    ok(words!["extract", "-q", "--strict", image, "one", out]);
    assert_same(&scratch.join("merged"), &out);
    ok(words!["mount", image, "one", at]);
    assert_same(&scratch.join("merged"), &at);
    unmount(&at);
    // A build of the same tree gives the same layer; the other form of a name.
    ok(words!["build", "-q", out, image, "built"]);
    assert_eq!(layer_files(&image, "built"), layer_files(&image, "one"));
    ok(words!["squash", "-q", named(&image, "t"), "two"]);
    assert_eq!(manifest(&image, "two"), manifest(&image, "one"));
    // skopeo takes it as any other.
    let copy = format!("oci:{}:copy", scratch.join("copy").display());
    succeed(
        tool("skopeo").args(["copy", "-q"]).arg(format!("oci:{}:one", image.display())).arg(copy),
    );
    assert_eq!(dump(&scratch.join("copy"), "copy"), dump(&image, "t"));
}

#[test]
fn versions_of_a_tree_become_one() {
    for seed in seeds() {
        let scratch = Scratch::new();
        let layout = scratch.join("layout");
        let mut plan = Kind::Links.plan(seed);
        for version in 0..5u64 {
            let source = scratch.dir(&format!("v{version}"));
            plan.make(&source, None);
            let tag = format!("v{version}");
            let mut words = words!["build", "-q", source, layout, tag];
            if version > 0 {
                words.extend(words!["--base", format!("v{}", version - 1)]);
            }
            ok(words);
            mutate(&mut plan, seed + version, 30);
        }
        ok(words!["squash", "-q", layout, "v4", "one"]);
        assert_eq!(dump(&layout, "one"), dump(&layout, "v4"));
        assert_eq!(ok(words!["diff", layout, "one", scratch.join("v4")]), "");
        ok(words!["check", "-q", layout, "one"]);
        // It needs nothing of the others.
        for version in 0..5 {
            ok(words!["untag", layout, format!("v{version}")]);
        }
        ok(words!["gc", layout]);
        ok(words!["check", "-q", layout, "one"]);
        ok(words!["build", "-q", scratch.join("v4"), layout, "built"]);
        assert_eq!(layer_files(&layout, "built"), layer_files(&layout, "one"));
    }
}

#[test]
fn threads_do_not_matter() {
    let scratch = Scratch::new();
    let image = two_layers(scratch.path(), json!({}), json!({}));
    for threads in ["1", "2", "7"] {
        ok(words!["squash", "-q", "-j", threads, image, "t", format!("one-{threads}")]);
    }
    assert_eq!(manifest(&image, "one-2"), manifest(&image, "one-1"));
    assert_eq!(manifest(&image, "one-7"), manifest(&image, "one-1"));
}

#[test]
fn the_config_stays_and_the_history_fits() {
    let scratch = Scratch::new();
    let more = json!({
        "created": "2021-02-03T04:05:06Z", "unknown": { "x": 1 },
        "config": { "Cmd": ["/bin/tool"], "Env": ["A=b"], "Labels": { "k": "v" } },
        "history": [{ "created_by": "one" }, { "created_by": "two" }],
    });
    let image = two_layers(scratch.path(), more, json!({ "org.example.a": "1" }));
    let report = ok(words!["squash", "--json", image, "t", "one"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["source_layers"], &report["tag"]), (&json!(2), &json!("one")));
    let (before, mut after) = (config(&image, "t"), config(&image, "one"));
    let entry = json!({ "created": "2021-02-03T04:05:06Z", "created_by": "microfs squash" });
    assert_eq!(after["history"], json!([entry]));
    assert_eq!(after["rootfs"]["diff_ids"], json!([report["layer"]]));
    after["history"] = before["history"].clone();
    after["rootfs"] = before["rootfs"].clone();
    assert_eq!(after, before);
    let manifest = manifest(&image, "one");
    assert_eq!(manifest["annotations"], json!({ "org.example.a": "1" }));
    let layer = &manifest["layers"][0];
    assert_eq!(layer["digest"], report["layer"]);
    assert_eq!(layer["mediaType"], "application/vnd.oci.image.layer.microfs.v1");
    assert_eq!(layer["annotations"].as_object().unwrap().len(), 2, "{layer}");
}

#[test]
fn an_image_can_be_squashed_in_its_place() {
    let scratch = Scratch::new();
    let image = two_layers(scratch.path(), json!({}), json!({}));
    let before = dump(&image, "t");
    ok(words!["squash", "-q", image, "t", "t"]);
    assert_eq!((layer_files(&image, "t").len(), dump(&image, "t")), (1, before.clone()));
    ok(words!["gc", image]);
    ok(words!["check", "-q", image, "t"]);
    assert_eq!(dump(&image, "t"), before);
}

#[test]
fn damage_is_never_copied() {
    let scratch = Scratch::new();
    let image = Image::new(&scratch);
    damage(&image.layer(), 100_000);
    let blobs = || std::fs::read_dir(image.layout.join("blobs/sha256")).unwrap().count();
    let before = blobs();
    refuse(words!["squash", image.layout, "t", "one"], &["cannot read \"large\"", "block"]);
    assert_eq!(ok(words!["images", image.layout]).lines().count(), 1);
    assert_eq!(blobs(), before);
    let sessions = std::fs::read_dir(image.layout.join(".microfs/sessions")).unwrap().count();
    assert_eq!(sessions, 0);
    refuse(words!["squash", image.layout, "t", "a b"], &["not a valid tag"]);
    refuse(words!["squash", image.layout, "no", "one"], &["no"]);
}
