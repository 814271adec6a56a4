//! Random stacks of layers against naive models of an overlay.
//!
//! `MICROFS_LONG=1` runs many more cases, `MICROFS_SEED=N` others; a failure
//! says with which seed it comes again.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod model;
mod support;

use std::cell::Cell;
use std::sync::Arc;

use microfs::archive::{Fault, LayerError, LayerOptions, write_layer};
use microfs::stack::{LayerSource, Stack, StackOptions};
use microfs::writer::Silent;
use model::layer::{Layer, Refusal};
use model::member::{Member, archive, layers};
use model::same::assert_same;
use model::tree::Tree;
use model::{changeset, extraction};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rayon::ThreadPool;
use support::replay::{Replay, is_long, wanted_seed};

/// Runs a test with random stacks of layers; fails with the smallest stack
/// that it fails for.
#[track_caller]
fn with_stacks(cases: u32, test: impl Fn(Vec<Vec<Member>>)) {
    let config = Config {
        cases: if is_long() { cases * 50 } else { cases },
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let seed = wanted_seed().unwrap_or(1);
    let _replay = Replay(seed);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let result = TestRunner::new_with_rng(config, random).run(&layers(), |layers| {
        test(layers);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn convert(members: &[Member], pool: &Arc<ThreadPool>) -> Result<Vec<u8>, LayerError> {
    let options = LayerOptions { writer: support::plain_options() };
    let archive = archive(members);
    let written =
        write_layer(archive.as_slice(), Vec::new(), &options, Arc::clone(pool), Arc::new(Silent));
    written.map(|(_, blob, _)| blob)
}

/// Takes out the members that a conversion must refuse, having seen it refuse
/// each of them.
fn accepted(mut members: Vec<Member>, pool: &Arc<ThreadPool>) -> (Vec<Member>, Layer) {
    loop {
        let (number, refusal) = match Layer::new(&members) {
            Ok(layer) => return (members, layer),
            Err(refused) => refused,
        };
        match (convert(&members, pool), refusal) {
            (Err(LayerError::Archive(error)), refusal) => {
                let is_same = match refusal {
                    Refusal::LinkToDirectory => matches!(error.fault, Fault::LinkToDirectory),
                    Refusal::Loop => matches!(error.fault, Fault::Loop),
                };
                assert!(is_same, "{refusal:?} expected, not {error:?}");
                assert_eq!(error.member, members[number].name().as_bytes());
            }
            other => panic!("{refusal:?} of member {number} expected, not {other:?}"),
        }
        members.remove(number);
    }
}

fn open(blobs: &[Vec<u8>], listing_bytes: u64) -> Stack {
    let source = |blob: &Vec<u8>| LayerSource { source: Box::new(blob.clone()), sha256: None };
    let options = StackOptions { listing_bytes, ..StackOptions::default() };
    Stack::open(blobs.iter().map(source).collect(), &options).unwrap()
}

/// Checks every prefix of a stack; ends where a layer contradicts itself.
fn check_changesets(layers: Vec<Vec<Member>>, pool: &Arc<ThreadPool>) -> usize {
    let mut tree = Tree::new();
    let mut blobs = Vec::new();
    for members in layers {
        let (members, layer) = accepted(members, pool);
        if !changeset::apply(&mut tree, &layer) {
            break;
        }
        blobs.push(convert(&members, pool).unwrap());
        assert_same(&tree, &open(&blobs, StackOptions::default().listing_bytes));
        // The same without anything remembered.
        assert_same(&tree, &open(&blobs, 0));
    }
    blobs.len()
}

#[test]
fn stacks_merge_as_the_format_says() {
    let pool = support::pool(1);
    let depth = Cell::new(0);
    with_stacks(2000, |layers| depth.set(depth.get() + check_changesets(layers, &pool)));
    assert!(depth.get() > 3000, "hardly anything was compared");
}

#[test]
fn sane_stacks_look_as_if_unpacked() {
    let pool = support::pool(1);
    let count = Cell::new(0);
    with_stacks(4000, |layers| {
        let mut tree = Tree::new();
        let mut blobs = Vec::new();
        for members in layers {
            let (members, _) = accepted(members, &pool);
            let below = tree.clone();
            if extraction::unpack(&mut tree, &members).is_err() {
                // The rest of the stack does without this layer.
                tree = below;
                continue;
            }
            blobs.push(convert(&members, &pool).unwrap());
        }
        if !blobs.is_empty() {
            assert_same(&tree, &open(&blobs, 0));
            count.set(count.get() + blobs.len());
        }
    });
    assert!(count.get() > 3000, "hardly anything was compared");
}

/// Fails, when this program was started by the test below.
#[test]
fn child() {
    if std::env::var_os("MICROFS_FAIL").is_some() {
        with_stacks(1000, |layers| {
            assert!(layers.iter().map(Vec::len).sum::<usize>() < 30, "{layers:?}");
        });
    }
}

#[test]
fn a_failure_says_how_to_have_it_again() {
    let fail = |seed: &str| {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--test-threads", "2"]).env("MICROFS_FAIL", "1");
        command.env("MICROFS_SEED", seed).env("RUST_BACKTRACE", "0").env_remove("MICROFS_LONG");
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let first = fail("77");
    let wanted = "MICROFS_SEED=77 cargo test -p microfs --test stack_model -- --exact child\n";
    assert!(first.contains(wanted), "{first}");
    // The same cases, so the same one fails first, and shrinks to the same.
    let case = |text: &str| {
        let (_, case) = text.split_once("minimal failing input").unwrap();
        case.split_once("to repeat it").unwrap().0.to_owned()
    };
    assert_eq!(case(&first), case(&fail("77")));
    assert_ne!(case(&first), case(&fail("78")));
}
