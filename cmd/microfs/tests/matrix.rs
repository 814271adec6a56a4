//! Every kind of tree, block size and thread count, all the way: build, check,
//! extract, compare, mount, compare, try to write, unmount.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::path::Path;

use support::kinds::Kind;
use support::program::{ok, unmount};
use support::read_only::assert_read_only;
use support::same::assert_same;
use support::scratch::{Scratch, is_mounted};
use support::{is_long, seeds};

const SOME_SIZES: [&str; 4] = ["512", "4096", "131072", "1M"];
const ALL_SIZES: [&str; 12] =
    ["512", "1K", "2K", "4K", "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1M"];
/// One thread, and as many as there are cores but at least two.
const THREADS: [usize; 2] = [1, 0];

fn matrix(kind: Kind) {
    for seed in seeds() {
        eprintln!("{kind:?}, seed {seed}");
        let scratch = Scratch::new();
        let source = scratch.dir("source");
        let plan = if is_long() { kind.large_plan(seed) } else { kind.plan(seed) };
        plan.make(&source, None);
        let sizes = if is_long() { &ALL_SIZES[..] } else { &SOME_SIZES };
        for size in sizes {
            for threads in THREADS {
                let cores = std::thread::available_parallelism().map_or(1, usize::from);
                let threads = if threads == 0 { cores.max(2) } else { threads };
                eprintln!("block size {size}, {threads} threads");
                round(&scratch, &source, size, &threads.to_string());
            }
        }
    }
}

fn round(scratch: &Scratch, source: &Path, size: &str, threads: &str) {
    let layout = scratch.join("layout");
    ok(words!["build", "-q", "--block-size", size, "--threads", threads, source, layout, "t"]);
    ok(words!["check", "-q", "--threads", threads, layout, "t"]);

    let extracted = scratch.join("extracted");
    ok(words!["extract", "-q", "--threads", threads, layout, "t", extracted]);
    assert_same(source, &extracted);
    std::fs::remove_dir_all(&extracted).unwrap();

    let mount = scratch.dir("mount");
    ok(words!["mount", "--threads", threads, layout, "t", mount]);
    assert_same(source, &mount);
    assert_read_only(&mount);
    // Attempts to write have left no trace.
    ok(words!["diff", layout, "t", mount]);
    unmount(&mount);
    assert!(!is_mounted(&mount));
    std::fs::remove_dir_all(&layout).unwrap();
}

#[test]
fn empty() {
    matrix(Kind::Empty);
}

#[test]
fn only_directories() {
    matrix(Kind::OnlyDirectories);
}

#[test]
fn links() {
    matrix(Kind::Links);
}

#[test]
fn names() {
    matrix(Kind::Names);
}

#[test]
fn sizes() {
    matrix(Kind::Sizes);
}

#[test]
fn zero_filled() {
    matrix(Kind::ZeroFilled);
}

#[test]
fn mixed() {
    matrix(Kind::Mixed);
}

#[test]
fn sparse() {
    matrix(Kind::Sparse);
}

#[test]
fn xattrs() {
    matrix(Kind::Xattrs);
}

#[test]
fn specials() {
    matrix(Kind::Specials);
}

#[test]
fn extremes() {
    matrix(Kind::Extremes);
}

/// Fails, when this program was started by the test below.
#[test]
fn child() {
    if std::env::var_os("MICROFS_FAIL").is_some() {
        for seed in seeds() {
            assert_ne!(seed % 5, 2, "seed {seed}");
        }
    }
}

#[test]
fn a_failure_says_how_to_have_it_again() {
    let fail = |seed: Option<&str>| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--test-threads", "2"]).env("MICROFS_FAIL", "1");
        command.env("MICROFS_LONG", "1").env_remove("MICROFS_SEED");
        let output = command.envs(seed.map(|seed| ("MICROFS_SEED", seed))).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    for (seed, wanted) in [(None, 2), (Some("77"), 77)] {
        let said = fail(seed);
        let command = "cargo test -p microfs-cli --test matrix -- --exact child\n";
        let command = format!("MICROFS_LONG=1 MICROFS_SEED={wanted} {command}");
        assert!(said.contains(&command), "{said}");
    }
}
