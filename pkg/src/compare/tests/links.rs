use super::differences;
use crate::compare::{CompareOptions, Difference, DirectoryView, compare};
use crate::scan::tests::fixture::Fixture;

fn options() -> CompareOptions {
    CompareOptions { mtime: false, ..CompareOptions::default() }
}

/// Names that are given as a letter each; equal letters are one object.
fn grouped(groups: &str) -> Fixture {
    let fixture = Fixture::new();
    for (position, letter) in groups.char_indices() {
        let name = position.to_string();
        match groups.find(letter) {
            Some(first) if first < position => fixture.link(&first.to_string(), &name),
            _ => fixture.file(name, b"same"),
        };
    }
    fixture
}

#[test]
fn groups_must_be_equal() {
    let cases: [(&str, &str, &[&str]); 6] = [
        ("aabb", "ccdd", &[]),
        ("abab", "abab", &[]),
        (
            "aaa",
            "aab",
            &["/2: hard link to \"0\" -> nothing before", "/0: links 3 -> 2", "/2: links 3 -> 1"],
        ),
        (
            "ab",
            "aa",
            &["/1: hard link to nothing before -> \"0\"", "/0: links 1 -> 2", "/1: links 1 -> 2"],
        ),
        (
            "aabb",
            "abab",
            &[
                "/1: hard link to \"0\" -> nothing before",
                "/2: hard link to nothing before -> \"0\"",
                "/3: hard link to \"2\" -> \"1\"",
            ],
        ),
        ("abba", "abab", &["/2: hard link to \"1\" -> \"0\"", "/3: hard link to \"0\" -> \"1\""]),
    ];
    for (a, b, expected) in cases {
        let found = differences(&grouped(a), &grouped(b), &options());
        assert_eq!(found, expected, "{a} {b}");
    }
}

/// A count that includes names outside the tree is not held against a copy
/// that cannot have them, unless it claims to be whole.
#[test]
fn names_outside_the_tree() {
    let (a, b, outside) = (grouped("aab"), grouped("aab"), Fixture::new());
    std::fs::hard_link(a.join("0"), outside.join("more")).unwrap();
    std::fs::hard_link(a.join("2"), outside.join("other")).unwrap();
    assert_eq!(differences(&a, &b, &options()), [""; 0]);
    let compare_closed = |a_closed: bool, b_closed: bool| {
        let view = |fixture: &Fixture, closed| {
            let view = DirectoryView::open(fixture.path()).unwrap();
            if closed { view.closed() } else { view }
        };
        let (mut a, mut b) = (view(&a, a_closed), view(&b, b_closed));
        let found = compare(&mut a, &mut b, &options()).unwrap();
        found.iter().map(Difference::to_string).collect::<Vec<_>>()
    };
    assert_eq!(compare_closed(false, true), [""; 0]);
    assert_eq!(compare_closed(true, true), ["/0: links 3 -> 2", "/2: links 2 -> 1"]);
    assert_eq!(compare_closed(true, false), ["/0: links 3 -> 2", "/2: links 2 -> 1"]);
}

#[test]
fn links_of_other_types_and_across_directories() {
    let (a, b) = (Fixture::new(), Fixture::new());
    for fixture in [&a, &b] {
        fixture.directory("d").symlink("d/s", b"t").file("f", b"1");
    }
    a.link("d/s", "s");
    b.symlink("s", b"t");
    let found = differences(&a, &b, &options());
    assert_eq!(found[0], "/s: hard link to \"d/s\" -> nothing before");
    assert_eq!(found[1..], ["/d/s: links 2 -> 1", "/s: links 2 -> 1"]);
}
