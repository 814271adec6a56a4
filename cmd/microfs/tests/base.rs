//! `build --base`: the image is the tree, and the layer only the difference.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::path::Path;

use serde_json::Value;
use support::content::{Content, Fill};
use support::kinds::Kind;
use support::mutate::mutate;
use support::plan::{Meta, Plan, ROOT, What};
use support::program::{ok, refuse, succeed, tool, unmount};
use support::same::assert_same;
use support::scratch::Scratch;
use support::{is_long, seeds};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn inspect(layout: &Path, tag: &str) -> Value {
    json(&ok(words!["inspect", "--json", layout, tag]))
}

/// Builds a tree on top of an image and says what the layer has.
fn build_on(source: &Path, layout: &Path, base: &str, tag: &str) -> Value {
    json(&ok(words!["build", "--json", source, layout, tag, "--base", base]))
}

#[track_caller]
fn assert_image_is(layout: &Path, tag: &str, source: &Path, scratch: &Scratch) {
    ok(words!["check", "-q", layout, tag]);
    assert_eq!(ok(words!["diff", layout, tag, source]), "");
    let extracted = scratch.join("extracted");
    ok(words!["extract", "-q", layout, tag, extracted]);
    assert_same(source, &extracted);
    std::fs::remove_dir_all(&extracted).unwrap();
}

#[test]
fn every_version_on_top_of_the_one_before() {
    for seed in seeds() {
        for kind in Kind::ALL {
            let scratch = Scratch::new();
            let layout = scratch.join("layout");
            let mut plan = kind.plan(seed);
            let source = scratch.dir("v0");
            plan.make(&source, None);
            ok(words!["build", "-q", source, layout, "v0"]);
            let versions = if is_long() { 6 } else { 3 };
            for version in 1..=versions {
                eprintln!("{kind:?}, seed {seed}, version {version}");
                mutate(&mut plan, seed * 100 + version, 12);
                let source = scratch.dir(&format!("v{version}"));
                plan.make(&source, Some(version));
                let (before, now) = (format!("v{}", version - 1), format!("v{version}"));
                build_on(&source, &layout, &before, &now);
                assert_image_is(&layout, &now, &source, &scratch);
            }
            let source = scratch.join(&format!("v{versions}"));
            let mount = scratch.dir("mount");
            ok(words!["mount", layout, format!("v{versions}"), mount]);
            assert_same(&source, &mount);
            unmount(&mount);
        }
    }
}

#[test]
fn an_unchanged_tree_gives_an_almost_empty_layer() {
    for kind in Kind::ALL {
        let scratch = Scratch::new();
        let (one, two) = (scratch.dir("one"), scratch.dir("two"));
        let plan = kind.plan(3);
        plan.make(&one, None);
        // The same tree, made in another order with other inode numbers.
        plan.make(&two, Some(5));
        let layout = scratch.join("layout");
        ok(words!["build", "-q", one, layout, "a"]);
        let report = build_on(&two, &layout, "a", "b");
        assert_eq!(report["difference"]["stated"], 1, "{kind:?}: only the root");
        assert_eq!(report["difference"]["whiteouts"], 0);
        // Superblock, and what comes before it in one unit of 4096 bytes.
        assert_eq!(report["layer_bytes"], 8192, "{kind:?}");
        assert_image_is(&layout, "b", &one, &scratch);
    }
}

/// A file of some MiB that cannot be compressed, and small ones.
fn heavy() -> Plan {
    let mut plan = Plan::new(Meta::plain(0o755));
    let content = Content::whole(5_000_000, Fill::Random(9));
    let big = plan.add(ROOT, b"big", What::File(content), Meta::plain(0o644));
    plan.link(ROOT, b"big too", big);
    for number in 0..50 {
        let name = format!("small {number}");
        let content = Content::whole(3000, Fill::Random(100 + number));
        plan.add(ROOT, name.as_bytes(), What::File(content), Meta::plain(0o644));
    }
    plan
}

#[test]
fn content_that_is_there_is_not_stored_again() {
    let stored = |command: &str, more: &[&str]| {
        let scratch = Scratch::new();
        let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
        heavy().make(&source, None);
        ok(words!["build", "-q", source, layout, "a"]);
        succeed(tool("sh").args(["-e", "-c", command]).current_dir(&source));
        let mut words = words!["build", "--json", source, layout, "b", "--base", "a"];
        words.extend(more.iter().map(std::ffi::OsString::from));
        let report = json(&ok(words));
        assert_image_is(&layout, "b", &source, &scratch);
        let number = |key: &str| report[key].as_u64().unwrap();
        (number("stored_content_bytes"), number("base_bytes"))
    };
    assert_eq!(stored("chmod 600 *", &[]), (0, 5_150_000));
    assert_eq!(stored("touch -d @7 big 'small 3'", &[]), (0, 5_003_000));
    assert_eq!(stored("mkdir d; mv big small* d", &[]), (0, 5_150_000));
    // What is left of a group of links is not stated at all.
    assert_eq!(stored("cp big copy; rm big", &[]), (0, 5_000_000));
    // 131,072 bytes a block: the last one begins at 4,980,736.
    let (new, below) = stored("printf 123 >> big", &[]);
    assert_eq!((new, below), (5_000_003 - 4_980_736, 4_980_736));
    let (new, below) = stored("chmod 600 *", &["--no-dedup"]);
    assert!(new >= 5_150_000 && below == 0, "{new} {below}");
    // Small files and tails are found whatever the block size is.
    let (new, below) = stored("chmod 600 *", &["-b", "64K"]);
    assert_eq!((new, below), (4_980_736, 5_150_000 - 4_980_736));
}

#[test]
fn a_large_file_on_top_of_small_blocks_is_one_extent_where_it_can_be() {
    let scratch = Scratch::new();
    let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
    // Two neighbours of 512 bytes each in a block of 1024.
    let mut plan = Plan::new(Meta::plain(0o755));
    let half = |seed| Content::whole(512, Fill::Random(seed));
    plan.add(ROOT, b"a", What::File(half(1)), Meta::plain(0o644));
    plan.add(ROOT, b"b", What::File(half(2)), Meta::plain(0o644));
    plan.make(&source, None);
    ok(words!["build", "-q", "-b", "1K", source, layout, "a"]);
    succeed(tool("sh").args(["-e", "-c", "cat a b a b > c"]).current_dir(&source));
    ok(words!["build", "-q", "-b", "512", source, layout, "b", "--base", "a"]);
    assert_image_is(&layout, "b", &source, &scratch);
}

#[test]
fn threads_and_places_do_not_matter() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.dir("one"), scratch.dir("t/w/o"));
    let mut plan = Kind::Mixed.plan(4);
    let base = scratch.dir("base");
    plan.make(&base, None);
    mutate(&mut plan, 44, 40);
    plan.make(&one, None);
    plan.make(&two, Some(1));
    let mut manifests = Vec::new();
    for (source, threads) in [(&one, "1"), (&two, "5"), (&one, "2")] {
        let layout = scratch.join(&format!("layout {threads}"));
        ok(words!["build", "-q", base, layout, "a"]);
        let report = words!["build", "--json", source, layout, "b", "--base", "a", "-j", threads];
        manifests.push(json(&ok(report))["manifest"].clone());
    }
    assert_eq!(manifests[0], manifests[1]);
    assert_eq!(manifests[0], manifests[2]);
}

#[test]
fn the_config_goes_on_from_that_of_the_base() {
    let scratch = Scratch::new();
    let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
    ok(words![
        "build",
        "-q",
        source,
        layout,
        "a",
        "--config-env",
        "A=1",
        "--config-cmd",
        "first",
        "--config-platform",
        "linux/riscv64"
    ]);
    let base = "a";
    ok(words![
        "build",
        "-q",
        source,
        layout,
        "b",
        "--base",
        base,
        "--config-env",
        "B=2",
        "--config-platform",
        "linux/riscv64"
    ]);
    let config = ok(words!["inspect", "--json", "--platform", "linux/riscv64", layout, "b"]);
    let config = json(&config);
    assert_eq!(config["layers"].as_array().unwrap().len(), 2);
    assert_eq!(config["platform"], "linux/riscv64");
    let digest = config["config"].as_str().unwrap().trim_start_matches("sha256:").to_owned();
    let stored = std::fs::read(layout.join("blobs/sha256").join(digest)).unwrap();
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    assert_eq!(stored["config"]["Env"], serde_json::json!(["A=1", "B=2"]));
    assert_eq!(stored["config"]["Cmd"], serde_json::json!(["first"]));
    assert_eq!(stored["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
}

#[test]
fn bases_that_cannot_be_are_refused() {
    let scratch = Scratch::new();
    let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
    ok(words!["build", "-q", source, layout, "here"]);
    refuse(words!["build", "-q", source, layout, "new", "--base", "there"], &["there", "here"]);
    let none = "@sha256:0000000000000000000000000000000000000000000000000000000000000000";
    refuse(words!["build", "-q", source, layout, "new", "--base", none], &["sha256:0000"]);
    assert_eq!(ok(words!["images", layout]).lines().count(), 1, "nothing is tagged");

    // An image of tar layers, made by another tool.
    let other = scratch.join("tar layers");
    succeed(tool("umoci").args(["init", "--layout"]).arg(&other));
    succeed(tool("umoci").args(["new", "--image"]).arg(format!("{}:t", other.display())));
    std::fs::write(source.join("file"), "").unwrap();
    let insert = format!("{}:t", other.display());
    succeed(tool("umoci").args(["insert", "--image", &insert]).arg(source.join("file")).arg("/f"));
    refuse(words!["build", "-q", source, other, "new", "--base", "t"], &["not a microfs layer"]);
}

#[test]
fn a_chain_that_is_too_long_says_so() {
    let scratch = Scratch::new();
    let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
    ok(words!["build", "-q", source, layout, "t"]);
    for _ in 1..127 {
        ok(words!["build", "-q", source, layout, "t", "--base", "t"]);
    }
    let layers = inspect(&layout, "t")["layers"].as_array().unwrap().len();
    assert_eq!(layers, 127);
    refuse(
        words!["build", "-q", source, layout, "t", "--base", "t"],
        &["127 layers", "microfs squash"],
    );
    assert_image_is(&layout, "t", &source, &scratch);
}

#[test]
fn the_layers_below_stay_when_their_tag_goes() {
    let scratch = Scratch::new();
    let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
    heavy().make(&source, None);
    ok(words!["build", "-q", source, layout, "a"]);
    succeed(tool("sh").args(["-e", "-c", "chmod 600 *"]).current_dir(&source));
    build_on(&source, &layout, "a", "b");
    ok(words!["untag", layout, "a"]);
    ok(words!["gc", layout]);
    assert_image_is(&layout, "b", &source, &scratch);
    // A copy by another tool has all that the top layer refers to.
    let copy = scratch.join("copy");
    let name = |layout: &Path| format!("oci:{}:b", layout.display());
    succeed(tool("skopeo").args(["copy", "-q", &name(&layout), &name(&copy)]));
    assert_image_is(&copy, "b", &source, &scratch);
}

/// As many names that looking at each of them for each of them would take minutes.
#[test]
fn very_many_names_of_one_file_in_two_layers() {
    const NAMES: usize = 20_000;
    let scratch = Scratch::new();
    let (source, layout) = (scratch.dir("source"), scratch.join("layout"));
    std::fs::write(source.join("first"), "content").unwrap();
    for number in 1..NAMES {
        std::fs::hard_link(source.join("first"), source.join(number.to_string())).unwrap();
    }
    ok(words!["build", "-q", source, layout, "one"]);
    std::fs::write(source.join("other"), "").unwrap();
    build_on(&source, &layout, "one", "two");
    let listed = ok(words!["ls", layout, "two"]);
    let counted = format!(" {NAMES} ");
    assert_eq!(listed.lines().filter(|line| line.contains(&counted)).count(), NAMES);
    assert_eq!(ok(words!["diff", layout, "two", source]), "");
}
