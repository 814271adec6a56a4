use std::sync::Arc;

use super::number;
use super::*;
use crate::stack::{LayerSource, NodeNum, Stack, StackOptions};
use crate::writer::{Options, Silent};

#[test]
fn numbers_in_every_style() {
    assert_eq!(number::field(b"0000644\0"), Some(0o644));
    assert_eq!(number::field(b"   644 \0"), Some(0o644));
    assert_eq!(number::field(b"77777777"), Some(0o77_777_777));
    assert_eq!(number::field(&[0; 8]), Some(0));
    assert_eq!(number::field(b"12x4567\0"), None);
    assert_eq!(number::field(&[0x80, 0, 0, 0, 0, 0, 1, 0]), Some(256));
    assert_eq!(number::field(&[0xff; 12]), Some(-1));
    assert_eq!(
        number::field(&[0x80, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0]),
        None
    );
}

#[test]
fn times_do_not_go_through_a_float() {
    assert_eq!(number::time(b"1700000000.123456789"), Some((1_700_000_000, 123_456_789)));
    assert_eq!(number::time(b"1"), Some((1, 0)));
    assert_eq!(number::time(b"1.5"), Some((1, 500_000_000)));
    assert_eq!(number::time(b"-1.5"), Some((-2, 500_000_000)));
    assert_eq!(number::time(b"-1"), Some((-1, 0)));
    assert_eq!(number::time(b"-0.0000000001"), Some((-1, 999_999_999)));
    assert_eq!(number::time(b"1.0000000009"), Some((1, 0)));
    assert_eq!(number::time(b"9223372036854775807"), Some((i64::MAX, 0)));
    assert_eq!(number::time(b"-9223372036854775808"), Some((i64::MIN, 0)));
    assert_eq!(number::time(b"-9223372036854775807.5"), Some((i64::MIN, 500_000_000)));
    let beyond: [&[u8]; 2] = [b"9223372036854775808", b"-9223372036854775808.5"];
    for bad in
        [&b""[..], b".", b"-", b"1.x", b"1e3", b"99999999999999999999"].into_iter().chain(beyond)
    {
        assert_eq!(number::time(bad), None);
    }
}

fn pool() -> Arc<rayon::ThreadPool> {
    Arc::new(rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap())
}

fn convert(archive: &[u8]) -> Result<Vec<u8>, LayerError> {
    let options = LayerOptions { writer: Options::default() };
    write_layer(archive, Vec::new(), &options, pool(), Arc::new(Silent)).map(|(_, blob, _)| blob)
}

fn stack(archives: &[Vec<u8>]) -> Stack {
    let layer = |archive: &Vec<u8>| LayerSource {
        source: Box::new(convert(archive).unwrap()),
        sha256: None,
    };
    Stack::open(archives.iter().map(layer).collect(), &StackOptions::default()).unwrap()
}

fn find(stack: &Stack, path: &str) -> Option<NodeNum> {
    let mut node = NodeNum::ROOT;
    for name in path.split('/') {
        node = stack.lookup(node, name.as_bytes()).unwrap()?;
    }
    Some(node)
}

/// Writes archives with the `tar` crate, a second implementation.
struct Maker(tar::Builder<Vec<u8>>);

impl Maker {
    fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    fn entry(mut self, path: &str, kind: tar::EntryType, link: &str, data: &[u8]) -> Self {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(0o640);
        header.set_size(crate::format::wide(data.len()));
        header.set_mtime(1000);
        if !link.is_empty() {
            header.set_link_name(link).unwrap();
        }
        self.0.append_data(&mut header, path, data).unwrap();
        self
    }

    fn file(self, path: &str, data: &str) -> Self {
        self.entry(path, tar::EntryType::Regular, "", data.as_bytes())
    }

    fn directory(self, path: &str) -> Self {
        self.entry(path, tar::EntryType::Directory, "", b"")
    }

    fn hard_link(self, path: &str, target: &str) -> Self {
        self.entry(path, tar::EntryType::Link, target, b"")
    }

    fn symlink(self, path: &str, target: &str) -> Self {
        self.entry(path, tar::EntryType::Symlink, target, b"")
    }

    fn end(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

fn content(stack: &Stack, path: &str) -> Option<String> {
    let node = find(stack, path)?;
    let mut bytes = vec![0; 4096];
    let length = stack.read_at(node, 0, &mut bytes).unwrap();
    Some(String::from_utf8(bytes[..length].to_vec()).unwrap())
}

#[test]
fn whiteouts_hide_lower_layers_only_in_any_order() {
    let lower = Maker::new().file("d/a", "low").file("d/b", "low").file("c", "low").end();
    for upper in [
        Maker::new().file("d/.wh.a", "").file("d/a", "new").file(".wh.c", "").end(),
        Maker::new().file(".wh.c", "").file("d/a", "new").file("d/.wh.a", "").end(),
    ] {
        let stack = stack(&[lower.clone(), upper]);
        assert_eq!(content(&stack, "d/a").as_deref(), Some("new"));
        assert_eq!(content(&stack, "d/b").as_deref(), Some("low"));
        assert_eq!(find(&stack, "c"), None);
    }
}

#[test]
fn hollow_directories_show_only_over_directories() {
    let lower = Maker::new().directory("real").file("real/x", "1").file("file", "2").end();
    let upper = Maker::new().file("real/.wh.x", "").file("file/.wh.y", "").file("no/.wh.z", "");
    let stack = stack(&[lower, upper.end()]);
    let mut names = Vec::new();
    stack
        .read_dir(NodeNum::ROOT, 0, &mut |entry| {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(names, ["file", "real"]);
    assert_eq!(content(&stack, "file").as_deref(), Some("2"));
    assert_eq!(find(&stack, "real/x"), None);
    assert_eq!(find(&stack, "no"), None);
    assert_eq!(stack.attr(find(&stack, "real").unwrap()).unwrap().permissions, 0o640);
    assert_eq!(stack.attr(NodeNum::ROOT).unwrap().links, 3);
}

#[test]
fn children_of_a_link_below_go_into_its_target() {
    let lower = Maker::new().directory("usr").directory("usr/lib").symlink("lib", "usr/lib").end();
    let middle = Maker::new().file("lib/x", "one").file("lib/sub/y", "two").end();
    let upper = Maker::new().file("lib/z", "three").hard_link("w", "lib/x").end();
    let stack = stack(&[lower, middle, upper]);
    assert_eq!(content(&stack, "usr/lib/x").as_deref(), Some("one"));
    assert_eq!(content(&stack, "usr/lib/sub/y").as_deref(), Some("two"));
    assert_eq!(content(&stack, "usr/lib/z").as_deref(), Some("three"));
    let lib = find(&stack, "lib").unwrap();
    assert_eq!(stack.read_link(lib).unwrap(), b"usr/lib");
    assert_eq!(find(&stack, "w"), find(&stack, "usr/lib/x"));
    assert_eq!(stack.attr(find(&stack, "w").unwrap()).unwrap().links, 2);
    let sub = find(&stack, "usr/lib/sub").unwrap();
    assert_eq!(stack.path(sub).unwrap(), b"usr/lib/sub");
    assert_eq!(stack.parent(sub).unwrap(), find(&stack, "usr/lib").unwrap());
}

#[test]
fn hard_links_reach_lower_layers_and_forward() {
    let lower = Maker::new().file("f", "old").end();
    let upper = Maker::new().hard_link("g", "f").file("f", "new").hard_link("h", "g").end();
    let two = stack(&[lower, upper]);
    assert_eq!(content(&two, "f").as_deref(), Some("new"));
    assert_eq!(content(&two, "g").as_deref(), Some("old"));
    assert_eq!(find(&two, "g"), find(&two, "h"));
    assert_eq!(two.attr(find(&two, "g").unwrap()).unwrap().links, 2);
    let forward = Maker::new().hard_link("a", "b").file("b", "late").end();
    let one = stack(&[forward]);
    assert_eq!(content(&one, "a").as_deref(), Some("late"));
    assert_eq!(find(&one, "a"), find(&one, "b"));
    assert_eq!(one.attr(find(&one, "b").unwrap()).unwrap().links, 2);
}

#[test]
fn every_truncation_of_member_data_is_an_error() {
    let archive = Maker::new().file("a", "0123456789").file("b", "x").end();
    // Data of the last member end here; padding and end blocks may be missing.
    let complete = 512 + 512 + 512 + 1;
    for length in 0..archive.len() {
        let result = convert(&archive[..length]);
        let at_boundary =
            length == 0 || (1024 - 502..=1024).contains(&length) || length >= complete;
        assert_eq!(result.is_ok(), at_boundary, "cut at {length}");
    }
}

#[test]
fn no_garbage_makes_it_panic() {
    let archive = Maker::new().directory("d").file("d/f", "data").symlink("l", "d").end();
    for at in 0..archive.len() {
        let mut bad = archive.clone();
        bad[at] ^= 0x5a;
        // Either is right; that it returns is the point, and what it returns
        // must open.
        if let Ok(blob) = convert(&bad) {
            let layer = LayerSource { source: Box::new(blob), sha256: None };
            assert!(Stack::open(vec![layer], &StackOptions::default()).is_ok());
        }
    }
}

#[test]
fn refuses_what_cannot_be_represented() {
    let escape = || {
        let mut header = tar::Header::new_ustar();
        header.as_old_mut().name[..9].copy_from_slice(b"../escape");
        header.set_entry_type(tar::EntryType::Regular);
        header.set_size(0);
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    assert!(matches!(
        convert(&escape()),
        Err(LayerError::Archive(ArchiveError { fault: Fault::Escapes, offset: 0, .. }))
    ));
    let bad = Maker::new().file("ok", "1").directory("d").hard_link("x", "d").end();
    match convert(&bad) {
        Err(LayerError::Archive(error)) => {
            assert_eq!((error.member.as_slice(), error.offset), (&b"x"[..], 1536));
            assert!(matches!(error.fault, Fault::LinkToDirectory));
        }
        other => panic!("{other:?}"),
    }
    assert!(convert(&Maker::new().file(".wh.", "").end()).is_err());
    assert!(convert(&Maker::new().file(".wh.d/x", "").end()).is_err());
}

#[test]
fn links_that_a_layer_replaces_are_not_followed() {
    let lower = Maker::new().directory("x").symlink("l", "x").symlink("c", "/").end();
    let upper = Maker::new().directory("c").file("c/l/new", "here").end();
    let stack = stack(&[lower, upper]);
    assert_eq!(content(&stack, "c/l/new").as_deref(), Some("here"));
    assert_eq!(find(&stack, "x/new"), None);
}

#[test]
fn marks_change_nothing_of_their_own_layer() {
    let lower = Maker::new().directory("d").file("d/low", "low").end();
    for upper in [
        Maker::new().file("d", "new").file("d/.wh..wh..opq", "").file("d/.wh.x", "").end(),
        Maker::new().file("d/.wh.x", "").file("d/.wh..wh..opq", "").file("d", "new").end(),
    ] {
        assert_eq!(content(&stack(&[lower.clone(), upper]), "d").as_deref(), Some("new"));
    }
}

#[test]
fn a_directory_that_only_marks_imply_is_none_beside_a_whiteout() {
    let lower = Maker::new().directory("d").file("d/low", "low").end();
    for upper in [
        Maker::new().file(".wh.d", "").file("d/.wh..wh..opq", "").end(),
        Maker::new().file("d/e/.wh.x", "").file(".wh.d", "").end(),
    ] {
        assert_eq!(find(&stack(&[lower.clone(), upper]), "d"), None);
    }
    let filled = Maker::new().file(".wh.d", "").file("d/e/x", "new").end();
    let stack = stack(&[lower, filled]);
    assert_eq!(content(&stack, "d/e/x").as_deref(), Some("new"));
    assert_eq!(find(&stack, "d/low"), None);
}

#[test]
fn implied_directories_that_are_new_take_nothing_from_below() {
    let lower = Maker::new().directory("d").directory("d/e").symlink("d/l", "/").end();
    for upper in [
        Maker::new().file("d/.wh..wh..opq", "").file("d/e/x", "1").file("d/l/y", "2").end(),
        Maker::new().file("d", "").file("d/e/x", "1").file("d/l/y", "2").end(),
    ] {
        let stack = stack(&[lower.clone(), upper]);
        let attr = stack.attr(find(&stack, "d/e").unwrap()).unwrap();
        assert_eq!((attr.permissions, attr.mtime.seconds), (0o755, 0));
        assert_eq!(content(&stack, "d/l/y").as_deref(), Some("2"));
        assert_eq!(find(&stack, "y"), None);
    }
}

#[test]
fn a_mark_between_two_layers_cuts_attributes_off() {
    let lower = Maker::new().directory("d").end();
    let middle = Maker::new().file(".wh..wh..opq", "").file("d/.wh..wh..opq", "").end();
    let upper = Maker::new().file("d/x", "new").end();
    let stack = stack(&[lower, middle, upper]);
    assert_eq!(stack.attr(find(&stack, "d").unwrap()).unwrap().permissions, 0o755);
}

#[test]
fn names_behind_a_link_survive_an_opaque_mark_of_their_layer() {
    let lower = Maker::new().directory("d").file("d/low", "low").symlink("l", "d").end();
    for upper in [
        Maker::new().file("d/.wh..wh..opq", "").file("l/x", "new").end(),
        Maker::new().file("l/x", "new").file("d/.wh..wh..opq", "").end(),
    ] {
        let stack = stack(&[lower.clone(), upper]);
        assert_eq!(content(&stack, "d/x").as_deref(), Some("new"));
        assert_eq!(find(&stack, "d/low"), None);
    }
}

#[test]
fn a_name_that_two_layers_give_one_file_counts_once() {
    let lower = Maker::new().file("f", "low").hard_link("g", "f").end();
    let upper = Maker::new().hard_link("f", "g").end();
    let stack = stack(&[lower, upper]);
    assert_eq!(find(&stack, "f"), find(&stack, "g"));
    assert_eq!(stack.attr(find(&stack, "f").unwrap()).unwrap().links, 2);
}

#[test]
fn links_before_their_target_reach_what_lies_behind_a_link() {
    let lower = Maker::new().directory("d").symlink("l", "d").end();
    let upper = Maker::new().hard_link("h", "l/x").file("l/x", "late").end();
    let stack = stack(&[lower, upper]);
    assert_eq!(content(&stack, "h").as_deref(), Some("late"));
    assert_eq!(find(&stack, "h"), find(&stack, "d/x"));
}

#[test]
fn names_behind_a_link_go_where_their_own_layer_makes_the_target() {
    let lower = Maker::new().symlink("l", "t/sub").symlink("k", "gone/../t").end();
    let upper =
        Maker::new().directory("t").directory("t/sub").file("l/x", "1").file("k/y", "2").end();
    let stack = stack(&[lower, upper]);
    assert_eq!(content(&stack, "t/sub/x").as_deref(), Some("1"));
    assert_eq!(content(&stack, "t/y").as_deref(), Some("2"));
}

#[test]
fn a_link_whose_target_its_layer_takes_away_is_replaced() {
    let lower = Maker::new().directory("d").file("d/low", "low").symlink("l", "d").end();
    for upper in [
        Maker::new().file(".wh.d", "").file("l/x", "new").end(),
        Maker::new().file("l/x", "new").file(".wh.d", "").end(),
        Maker::new().file("d", "file").file("l/x", "new").end(),
    ] {
        let stack = stack(&[lower.clone(), upper]);
        assert_eq!(content(&stack, "l/x").as_deref(), Some("new"));
        let there = find(&stack, "d").map(|_| content(&stack, "d").unwrap());
        assert!(there.is_none_or(|content| content == "file"));
    }
}

#[test]
fn a_mark_hides_nothing_that_its_layer_puts_there_through_a_link() {
    let lower = Maker::new()
        .directory("usr")
        .directory("usr/lib")
        .file("usr/lib/x", "old")
        .file("usr/lib/low", "low")
        .directory("usr/lib/d")
        .file("usr/lib/d/low", "low")
        .symlink("lib", "usr/lib")
        .end();
    for upper in [
        Maker::new()
            .file("usr/lib/.wh.x", "")
            .file("lib/x", "new")
            .file("usr/lib/d/.wh..wh..opq", "")
            .file("lib/d/y", "new")
            .end(),
        Maker::new()
            .file("lib/x", "new")
            .file("lib/d/y", "new")
            .file("usr/lib/d/.wh..wh..opq", "")
            .file("usr/lib/.wh.x", "")
            .end(),
        Maker::new()
            .file("lib/.wh.x", "")
            .file("usr/lib/x", "new")
            .file("lib/d/.wh..wh..opq", "")
            .file("usr/lib/d/y", "new")
            .end(),
        // A whiteout of a directory that the layer fills through a link.
        Maker::new()
            .file("usr/lib/.wh.d", "")
            .file("usr/lib/.wh.x", "")
            .file("lib/x", "new")
            .file("lib/d/y", "new")
            .end(),
    ] {
        let stack = stack(&[lower.clone(), upper]);
        assert_eq!(content(&stack, "usr/lib/x").as_deref(), Some("new"));
        assert_eq!(content(&stack, "usr/lib/d/y").as_deref(), Some("new"));
        assert_eq!(find(&stack, "usr/lib/d/low"), None);
        assert_eq!(content(&stack, "usr/lib/low").as_deref(), Some("low"));
        let usr = find(&stack, "usr/lib").unwrap();
        let mut names = Vec::new();
        stack
            .read_dir(usr, 0, &mut |entry| {
                names.push(String::from_utf8_lossy(entry.name).into_owned());
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(names, ["d", "low", "x"]);
    }
}
