//! Trees of every kind, by way of tar.

use crate::support::content::Content;
use crate::support::kinds::Kind;
use crate::support::plan::{Meta, Plan, ROOT, What};
use crate::support::program::{ok, succeed, tool};
use crate::support::same::{assert_same, assert_same_but};
use crate::support::scratch::Scratch;
use crate::support::tars::{layer_files, named};
use crate::support::{mutate, seeds};
use crate::{built, but_holes, dump, umoci, untar, words};

/// Trees of paths longer than the system takes, and of attributes that GNU
/// tar cannot name, are for others.
const FOR_TAR: [Kind; 8] = [
    Kind::Empty,
    Kind::OnlyDirectories,
    Kind::Links,
    Kind::Names,
    Kind::Sizes,
    Kind::ZeroFilled,
    Kind::Mixed,
    Kind::Sparse,
];

#[test]
fn built_layers_come_back_byte_for_byte() {
    for seed in seeds() {
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Specials) {
            eprintln!("{kind:?}, seed {seed}");
            let scratch = Scratch::new();
            let (_, layout) = built(&scratch, kind, seed);
            let given = scratch.join("given");
            ok(words!["export", "-q", layout, "t", given]);
            ok(words!["convert", "-q", named(&given, "t"), layout, "again"]);
            assert_eq!(layer_files(&layout, "again"), layer_files(&layout, "t"));
        }
    }
}

/// How a layer is stored has no part in what is given back.
#[test]
fn block_size_and_compression_do_not_matter() {
    for kind in [Kind::Mixed, Kind::Sparse] {
        let scratch = Scratch::new();
        let (source, layout) = built(&scratch, kind, 1);
        let given = scratch.join("given");
        let small = ["--block-size", "512", "--compression", "none", "--no-dedup"];
        let mut words = words!["build", "-q", source, layout, "small"];
        words.extend(small.iter().map(Into::into));
        ok(words);
        for tag in ["t", "small"] {
            ok(words!["export", "-q", layout, tag, given]);
        }
        assert_ne!(layer_files(&layout, "t"), layer_files(&layout, "small"));
        assert_eq!(layer_files(&given, "t"), layer_files(&given, "small"));
    }
}

#[test]
fn specials_come_back_but_for_sockets() {
    for seed in seeds() {
        let scratch = Scratch::new();
        let (_, layout) = built(&scratch, Kind::Specials, seed);
        let given = scratch.join("given");
        ok(words!["export", "-q", "--skip-sockets", layout, "t", given]);
        ok(words!["convert", "-q", named(&given, "t"), layout, "again"]);
        let mode = |line: &str| {
            let field = line.split(' ').nth(2).unwrap().trim_start_matches('@');
            u32::from_str_radix(field, 8).unwrap()
        };
        let before = dump(&layout, "t");
        let kept: Vec<&str> =
            before.lines().filter(|line| mode(line) & 0o170_000 != 0o140_000).collect();
        assert!(kept.len() > 20 && kept.len() < before.lines().count());
        assert_eq!(dump(&layout, "again").lines().collect::<Vec<_>>(), kept);
    }
}

#[test]
fn gnu_tar_unpacks_the_archive() {
    for seed in seeds() {
        for kind in FOR_TAR {
            eprintln!("{kind:?}, seed {seed}");
            let scratch = Scratch::new();
            let (source, layout) = built(&scratch, kind, seed);
            let archive = scratch.join("archive.tar");
            assert_eq!(ok(words!["export", "-q", layout, "t", "--tar", archive]), "");
            let out = scratch.join("out");
            untar(&archive, &out);
            assert_same(&source, &out);
        }
    }
}

#[test]
fn umoci_unpacks_the_layers() {
    for seed in seeds() {
        for kind in [Kind::OnlyDirectories, Kind::Links, Kind::Names, Kind::Sizes, Kind::Mixed] {
            eprintln!("{kind:?}, seed {seed}");
            let scratch = Scratch::new();
            let (source, layout) = built(&scratch, kind, seed);
            let given = scratch.join("given");
            ok(words!["export", "-q", layout, "t", given]);
            assert_same(&source, &umoci(&scratch, &given, "t"));
        }
    }
}

#[test]
fn a_file_of_the_longest_size_costs_nothing() {
    let scratch = Scratch::new();
    let mut plan = Plan::new(Meta::plain(0o755));
    let longest = i64::MAX as u64;
    plan.add(ROOT, b"longest", What::File(Content::hole(longest)), Meta::plain(0o644));
    let source = scratch.dir("source");
    plan.make(&source, None);
    let (layout, given) = (scratch.join("layout"), scratch.join("given"));
    ok(words!["build", "-q", source, layout, "t"]);
    ok(words!["export", "-q", "-c", "none", layout, "t", given]);
    let file = &layer_files(&given, "t")[0];
    assert!(std::fs::metadata(file).unwrap().len() < 10_000);
    let listed = succeed(tool("tar").arg("-tvf").arg(file));
    assert!(listed.contains(&format!(" {longest} ")), "{listed}");
    let out = scratch.join("out");
    untar(file, &out);
    assert_same(&source, &out);
}

/// A layer that refers to content of the layers below is a whole archive.
#[test]
fn layers_on_a_base_come_back() {
    let scratch = Scratch::new();
    let (layout, given) = (scratch.join("layout"), scratch.join("given"));
    let mut plan = Kind::Mixed.plan(1);
    for version in 0..4u64 {
        let source = scratch.dir(&format!("v{version}"));
        plan.make(&source, None);
        let tag = format!("v{version}");
        let mut words = words!["build", "-q", source, layout, tag];
        if version > 0 {
            words.extend(words!["--base", format!("v{}", version - 1)]);
        }
        ok(words);
        mutate::mutate(&mut plan, version + 1, 40);
    }
    let source = scratch.join("v3");
    assert_eq!(ok(words!["diff", layout, "v3", source]), "");
    ok(words!["export", "-q", layout, "v3", given]);
    assert_eq!(layer_files(&given, "v3").len(), 4);
    assert_same_but(&source, &umoci(&scratch, &given, "v3"), &but_holes());
    ok(words!["convert", "-q", named(&given, "v3"), layout, "again"]);
    assert_eq!(dump(&layout, "again"), dump(&layout, "v3"));
    let archive = scratch.join("v3.tar");
    ok(words!["export", "-q", layout, "v3", "--tar", archive]);
    let out = scratch.join("out");
    untar(&archive, &out);
    assert_same(&source, &out);
}
