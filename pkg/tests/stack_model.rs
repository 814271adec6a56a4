//! Random stacks of layers against naive models of an overlay.
//!
//! `MICROFS_LONG=1` runs many more cases, `MICROFS_SEED=N` others.
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

fn runner(cases: u32) -> TestRunner {
    let is_long = std::env::var_os("MICROFS_LONG").is_some_and(|value| value == "1");
    let config = Config {
        cases: if is_long { cases * 50 } else { cases },
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..Config::default()
    };
    let seed = std::env::var("MICROFS_SEED").map_or(1u64, |text| text.parse().unwrap());
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
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
    let mut runner = runner(2000);
    let result = runner.run(&layers(), |layers| {
        depth.set(depth.get() + check_changesets(layers, &pool));
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(depth.get() > 3000, "hardly anything was compared");
}

#[test]
fn sane_stacks_look_as_if_unpacked() {
    let pool = support::pool(1);
    let count = Cell::new(0);
    let mut runner = runner(4000);
    let result = runner.run(&layers(), |layers| {
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
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    assert!(count.get() > 3000, "hardly anything was compared");
}
