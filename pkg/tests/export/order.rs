//! In which order members come.

use microfs::export::ExportError;
use microfs::tree::NodeId;

use super::model::member::{Kind, Member, Meta, archive};
use super::support::{self, Builder, metadata, plain_options, pool, stack};
use super::text::assert_same_layer;
use super::{convert, export_layer, export_tree, names, squashed, text_of};

fn member(path: &str, kind: Kind) -> Member {
    let meta = Meta { mode: 0o755, uid: 1, gid: 2, mtime: 3, xattr: None };
    Member { path: path.into(), kind, meta }
}

#[test]
fn members_come_in_their_order() {
    let pool = pool(1);
    let file = || Kind::File(b"x".to_vec());
    let link = |to: &str| Kind::HardLink(to.into());
    let lower = [member("", Kind::Directory), member("z/old", file()), member("y", file())];
    let upper = [
        member("q/to-y", link("y")),
        member("z/kept", link("z/old")),
        member("y", link("late")),
        member("late", file()),
        member("z", Kind::Directory),
        member("z", Kind::Opaque),
        member("z/b/f", file()),
        member("z/a/", Kind::Directory),
        member("z/x", file()),
        member("a-again", link("z/x")),
        member("n", Kind::Whiteout),
        member("implied/w", Kind::Whiteout),
    ];
    let stack = stack(vec![convert(&archive(&lower), &pool), convert(&archive(&upper), &pool)]);
    assert_eq!(names(&export_layer(&stack, 0).unwrap()), ["./", "y", "z/old"]);
    let wanted = [
        // Links below, with the directories that they are in.
        "q/to-y => y",
        "z/",
        "z/kept => z/old",
        // The first name has the data; marks first; files before directories.
        "a-again",
        "late",
        ".wh.n",
        "implied/.wh.w",
        "z/.wh..wh..opq",
        "z/x => a-again",
        "z/a/",
        "z/b/",
        "z/b/f",
        // A link that its source has before its target.
        "y => late",
    ];
    assert_eq!(names(&export_layer(&stack, 1).unwrap()), wanted);
    let wanted = [
        "./",
        "a-again",
        "late",
        "y => late",
        "q/",
        "q/to-y",
        "z/",
        "z/kept",
        "z/x => a-again",
        "z/a/",
        "z/b/",
        "z/b/f",
    ];
    assert_eq!(names(&export_tree(&stack).unwrap()), wanted);
}

/// Two hard links that have each other's target cannot be said.
#[test]
fn a_circle_of_links_is_refused() {
    let pool = pool(1);
    let lower = [member("a", Kind::File(vec![1])), member("b", Kind::File(vec![2]))];
    let mut upper = Builder::new(metadata(0o755, 0, 0, 1, 0));
    upper.link_below(NodeId::ROOT, b"a", b"b");
    upper.link_below(NodeId::ROOT, b"b", b"a");
    let stack = stack(vec![convert(&archive(&lower), &pool), upper.build(&plain_options())]);
    match export_layer(&stack, 1) {
        Err(ExportError::LinkCircle { path }) => assert_eq!(path, b"a"),
        other => panic!("{other:?}"),
    }
    // Merged it is a matter of course.
    let one = squashed(stack, &pool).unwrap();
    assert!(text_of(&support::stack(vec![one])).contains("/a 1 100755"));
}

/// One link chases another: what must come first comes first.
#[test]
fn links_find_their_targets_below() {
    let pool = pool(1);
    let lower: Vec<_> =
        ["a", "b", "c", "d"].map(|name| member(name, Kind::File(name.into()))).into();
    let mut upper = Builder::new(metadata(0o755, 0, 0, 1, 0));
    let root = NodeId::ROOT;
    for (name, target) in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")] {
        upper.link_below(root, name.as_bytes(), target.as_bytes());
    }
    let directory = upper.directory(root, b"e", metadata(0o700, 0, 0, 1, 0));
    upper.link_below(directory, b"inner", b"f");
    let lowest = ["e", "f"].map(|name| member(name, Kind::File(name.into())));
    let lowest = convert(&archive(&lowest), &pool);
    let upper = upper.build(&plain_options());
    let stack = stack(vec![lowest, convert(&archive(&lower), &pool), upper.clone()]);
    let exported = export_layer(&stack, 2).unwrap();
    let found = names(&exported);
    // `e` is a file below: nothing may make it a directory before `d` has it.
    let place = |wanted: &str| found.iter().position(|name| name == wanted).unwrap();
    let chain = ["a => b", "b => c", "c => d", "d => e", "e/inner => f", "e/"];
    for pair in chain.windows(2) {
        assert!(place(pair[0]) < place(pair[1]), "{found:?}");
    }
    assert_same_layer(&upper, &convert(&exported, &pool));
}
