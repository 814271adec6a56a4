//! Archives that are given back say what their layers say, and one layer made
//! of many shows what they show.
//!
//! Random stacks, as in `stack_model.rs`: `MICROFS_LONG=1` runs many more
//! cases, `MICROFS_SEED=N` others; a failure says with which seed it comes
//! again.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod in_order;
mod members;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../model/mod.rs"]
mod model;
mod order;
#[path = "../support/mod.rs"]
mod support;
mod text;

use std::cell::Cell;
use std::sync::Arc;

use microfs::ReadError;
use microfs::archive::{LayerOptions, MemberKind, Members, write_layer};
use microfs::dump::{DumpOptions, dump};
use microfs::export::{self, ExportError, ExportOptions, Exported};
use microfs::squash::{SquashError, squash};
use microfs::stack::Stack;
use microfs::writer::Silent;
use model::layer::Layer;
use model::member::{Kind, Member, Meta, archive, layers};
use model::same::assert_same;
use model::tree::Tree;
use model::{extraction, parts};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rayon::ThreadPool;
use support::replay::{Replay, is_long, wanted_seed};
use support::{plain_options, pool, stack};
use text::{assert_same_layer, layer_text};

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

fn convert(archive: &[u8], pool: &Arc<ThreadPool>) -> Vec<u8> {
    let options = LayerOptions { writer: plain_options() };
    let written = write_layer(archive, Vec::new(), &options, Arc::clone(pool), Arc::new(Silent));
    written.unwrap_or_else(|error| panic!("{error:?}")).1
}

fn export_layer(stack: &Stack, layer: usize) -> Result<Vec<u8>, ExportError> {
    let layer = u32::try_from(layer).unwrap();
    let options = ExportOptions::default();
    let written = export::write_layer(stack, layer, Vec::new(), &options, &export::Silent);
    written.map(|(archive, exported)| checked(archive, &exported))
}

fn export_tree(stack: &Stack) -> Result<Vec<u8>, ExportError> {
    let written = export::write_tree(stack, Vec::new(), &ExportOptions::default(), &export::Silent);
    written.map(|(archive, exported)| checked(archive, &exported))
}

/// The archive, when what is said of it is right.
#[track_caller]
fn checked(archive: Vec<u8>, exported: &Exported) -> Vec<u8> {
    assert_eq!(exported.members, u64::try_from(names(&archive).len()).unwrap());
    assert_eq!(exported.bytes, u64::try_from(archive.len()).unwrap());
    assert_eq!((exported.sockets, exported.first_sockets.len()), (0, 0));
    archive
}

fn squashed(stack: Stack, pool: &Arc<ThreadPool>) -> Result<Vec<u8>, SquashError> {
    let written =
        squash(&Arc::new(stack), Vec::new(), plain_options(), Arc::clone(pool), Arc::new(Silent));
    written.map(|(blob, _)| blob)
}

/// Everything of a stack as text, content included.
fn text_of(stack: &Stack) -> String {
    let mut out = Vec::new();
    let options = DumpOptions { inline_max: 5000, digests: true };
    dump(stack, &options, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Members of an archive, in the model's form.
fn members(archive: &[u8]) -> Vec<Member> {
    let mut reader = Members::new(archive);
    let mut members = Vec::new();
    while let Some(member) = reader.next_member().unwrap() {
        let path = String::from_utf8(member.path).unwrap();
        let path = path.trim_end_matches('/');
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let (path, kind) = match (name.strip_prefix(".wh."), member.kind) {
            (Some(".wh..opq"), _) => (directory.to_owned(), Kind::Opaque),
            (Some(hidden), _) if directory.is_empty() => (hidden.to_owned(), Kind::Whiteout),
            (Some(hidden), _) => (format!("{directory}/{hidden}"), Kind::Whiteout),
            (None, kind) => {
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                let kind = match kind {
                    MemberKind::Regular { size, .. } => {
                        let mut bytes = vec![0; usize::try_from(size).unwrap()];
                        reader.read_data(&mut bytes).unwrap();
                        Kind::File(bytes)
                    }
                    MemberKind::Directory => Kind::Directory,
                    MemberKind::Symlink(target) => Kind::Symlink(text(target)),
                    MemberKind::HardLink(target) => Kind::HardLink(text(target)),
                    MemberKind::CharDevice(device) => Kind::Device(device.major, device.minor),
                    MemberKind::Fifo => Kind::Fifo,
                    MemberKind::BlockDevice(_) => panic!("none was made"),
                };
                (parts(path).join("/"), kind)
            }
        };
        let xattr = member.xattrs.into_iter().next().map(|(_, value)| value);
        let meta = Meta {
            mode: member.permissions,
            uid: member.uid,
            gid: member.gid,
            mtime: member.mtime.seconds,
            xattr: xattr.map(|value| String::from_utf8(value).unwrap()),
        };
        members.push(Member { path, kind, meta });
    }
    members
}

/// Layers that conversion accepts.
fn accepted(layers: Vec<Vec<Member>>) -> Vec<Vec<Member>> {
    let accept = |mut members: Vec<Member>| loop {
        match Layer::new(&members) {
            Ok(_) => return members,
            Err((number, _)) => members.remove(number),
        };
    };
    layers.into_iter().map(accept).collect()
}

#[test]
fn what_is_given_back_is_the_same() {
    let pool = pool(1);
    let (count, refused) = (Cell::new(0), Cell::new(0));
    with_stacks(2000, |layers| {
        let layers = accepted(layers);
        let blobs: Vec<_> =
            layers.iter().map(|members| convert(&archive(members), &pool)).collect();
        let stack = stack(blobs.clone());
        if !stack.unresolved_links().unwrap().is_empty() {
            let exported: Vec<_> =
                (0..blobs.len()).map(|layer| export_layer(&stack, layer)).collect();
            let is_link = |result: &Result<_, ExportError>| {
                let cause = |error: &ExportError| match error {
                    ExportError::Read { cause, .. } => Some(cause.clone()),
                    _ => None,
                };
                matches!(
                    result.as_ref().err().and_then(cause),
                    Some(ReadError::LinkUnresolved { .. })
                )
            };
            assert!(exported.iter().any(is_link), "{exported:?}");
            refused.set(refused.get() + 1);
            return;
        }
        let archives: Vec<_> =
            (0..blobs.len()).map(|layer| export_layer(&stack, layer).unwrap()).collect();
        let again: Vec<_> = archives.iter().map(|archive| convert(archive, &pool)).collect();
        let wanted = text_of(&stack);
        assert_eq!(text_of(&support::stack(again.clone())), wanted);
        for (blob, again) in blobs.iter().zip(&again) {
            assert_same_layer(blob, again);
        }
        // Given back once more, the very same; a link that came behind its
        // target is now one of its names and may come first.
        let stack_again = support::stack(again.clone());
        for (layer, archive) in archives.iter().enumerate() {
            let second = export_layer(&stack_again, layer).unwrap();
            assert_same_layer(&again[layer], &convert(&second, &pool));
            if layer_text(&blobs[layer]) == layer_text(&again[layer]) {
                assert!(second == *archive);
            }
        }
        let tree = convert(&export_tree(&stack).unwrap(), &pool);
        assert_eq!(text_of(&support::stack(vec![tree.clone()])), wanted);
        let one = squashed(stack, &pool).unwrap();
        assert_eq!(text_of(&support::stack(vec![one.clone()])), wanted);
        // The archive of a whole tree has its content in the order of a build.
        assert_eq!(tree, one);
        count.set(count.get() + blobs.len());
    });
    assert!(count.get() > 1500 && refused.get() > 100, "{} {}", count.get(), refused.get());
}

#[test]
fn engines_unpack_what_is_given_back() {
    let pool = pool(1);
    let count = Cell::new(0);
    with_stacks(3000, |layers| {
        let mut tree = Tree::new();
        let mut blobs = Vec::new();
        for members in accepted(layers) {
            let below = tree.clone();
            if extraction::unpack(&mut tree, &members).is_err() {
                tree = below;
                continue;
            }
            blobs.push(convert(&archive(&members), &pool));
        }
        if blobs.is_empty() {
            return;
        }
        let stack = stack(blobs.clone());
        let mut tree = Tree::new();
        for layer in 0..blobs.len() {
            let given = members(&export_layer(&stack, layer).unwrap());
            // A name that is in the place of its own target, or of a link on
            // the way there: engines cannot have both at a time.
            let is_over = |member: &Member| match &member.kind {
                Kind::HardLink(target) => {
                    let target = parts(target);
                    (1..=target.len()).any(|length| {
                        let path = &target[..length];
                        let below = tree.at(path).filter(|id| !tree.is_directory(*id));
                        let over = format!("{}/", path.join("/"));
                        let on_the_way = length < target.len();
                        let is_over = |other: &Member| other.path.starts_with(&over);
                        below.is_some()
                            && (is_over(member) || on_the_way && given.iter().any(is_over))
                    })
                }
                _ => false,
            };
            if given.iter().any(is_over) {
                return;
            }
            in_order::unpack(&mut tree, &given);
            count.set(count.get() + 1);
        }
        assert_same(&tree, &stack);
    });
    assert!(count.get() > 2000, "hardly anything was unpacked: {}", count.get());
}

/// Names of an archive's members, those of hard links with their targets.
fn names(archive: &[u8]) -> Vec<String> {
    let mut reader = Members::new(archive);
    let mut names = Vec::new();
    while let Some(member) = reader.next_member().unwrap() {
        let path = String::from_utf8(member.path).unwrap();
        names.push(match member.kind {
            MemberKind::HardLink(to) => format!("{path} => {}", String::from_utf8(to).unwrap()),
            _ => path,
        });
    }
    names
}
