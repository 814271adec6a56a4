//! How images are named.
#![allow(clippy::unwrap_used)]

mod support;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use microfs_oci::reference::TagRule;
use microfs_oci::{Layout, OciError, Reference, Selector, check_tag};

fn tag(text: &str) -> Selector {
    Selector::Tag(text.into())
}

fn digest() -> String {
    format!("sha256:{}", "ab".repeat(32))
}

#[test]
fn splits_at_the_longest_prefix_that_is_a_layout() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a", "a:b", "x@y"] {
        Layout::create_or_open(dir.path().join(name)).unwrap();
    }
    let digest = digest();
    let by_digest = Selector::Digest(microfs_oci::verified::parse_digest(&digest).unwrap());
    for (text, layout, selector) in [
        ("a", "a", Selector::Only),
        ("a:", "a", Selector::Only),
        ("a:t", "a", tag("t")),
        ("a:b", "a:b", Selector::Only),
        ("a:b:", "a:b", Selector::Only),
        ("a:b:t", "a:b", tag("t")),
        ("a:c:t", "a", tag("c:t")),
        ("a:docker.io/library/x:v1", "a", tag("docker.io/library/x:v1")),
        ("a:n@v", "a", tag("n@v")),
        ("x@y", "x@y", Selector::Only),
        ("x@y:t", "x@y", tag("t")),
        (&format!("a@{digest}"), "a", by_digest.clone()),
        (&format!("a:b@{digest}"), "a:b", by_digest.clone()),
        (&format!("x@y@{digest}"), "x@y", by_digest.clone()),
    ] {
        let full = dir.path().join(text);
        let parsed = Reference::parse(full.as_os_str()).unwrap();
        assert_eq!(
            parsed,
            Reference { layout: dir.path().join(layout), selector: selector.clone() },
            "{text}"
        );
        assert_eq!(Reference::parse_new(full.as_os_str()).unwrap(), parsed, "{text}");
    }
}

#[test]
fn names_the_folder_that_is_no_layout() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("plain")).unwrap();
    for text in ["plain", "plain:t"] {
        let error = Reference::parse(dir.path().join(text).as_os_str()).unwrap_err();
        let OciError::NotALayout { path } = error else { unreachable!("{error}") };
        assert_eq!(path, dir.path().join("plain"), "{text}");
    }
    // What is missing is named as far as its folder goes.
    std::fs::create_dir(dir.path().join("a:b")).unwrap();
    let missing = [("none:a:b", "none"), ("none", "none"), ("a:b/none:t", "a:b/none")];
    for (text, meant) in missing {
        let error = Reference::parse(dir.path().join(text).as_os_str()).unwrap_err();
        let OciError::Io { path, source, .. } = error else { unreachable!("{error}") };
        assert_eq!(path, dir.path().join(meant), "{text}");
        assert_eq!(source.kind(), std::io::ErrorKind::NotFound, "{text}");
    }
    assert!(matches!(Reference::parse(OsStr::new("")), Err(OciError::InvalidReference { .. })));
}

#[test]
fn what_cannot_be_looked_at_has_the_systems_reason() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("loop", dir.path().join("loop")).unwrap();
    for text in ["loop", "loop:t"] {
        let text = dir.path().join(text);
        let error = Reference::parse(text.as_os_str()).unwrap_err();
        let OciError::Io { path, source, .. } = error else { unreachable!("{error}") };
        assert_eq!(path, dir.path().join("loop"));
        assert_eq!(source.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
    }
    let error = Layout::create_or_open(dir.path().join("loop")).unwrap_err();
    let OciError::Io { source, .. } = error else { unreachable!("{error}") };
    assert_eq!(source.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
}

#[test]
fn a_malformed_digest_is_named() {
    let dir = tempfile::tempdir().unwrap();
    Layout::create_or_open(dir.path().join("a")).unwrap();
    for wrong in ["sha256:1234", "sha256:", "x"] {
        let text = dir.path().join(format!("a@{wrong}"));
        for parsed in [Reference::parse(text.as_os_str()), Reference::parse_new(text.as_os_str())] {
            let error = parsed.unwrap_err();
            assert!(matches!(&error, OciError::InvalidDigest { text } if text == wrong), "{error}");
        }
        let error = microfs_oci::Source::open(text.as_os_str(), dir.path()).unwrap_err();
        assert!(matches!(&error, OciError::InvalidDigest { text } if text == wrong), "{error}");
    }
}

#[test]
fn a_new_layout_ends_at_the_first_colon() {
    for (text, layout, selector) in [
        ("/nowhere/n:a:b", "/nowhere/n", tag("a:b")),
        ("/nowhere/n", "/nowhere/n", Selector::Only),
        ("/nowhere/n:", "/nowhere/n", Selector::Only),
        ("/nowhere/n:x/y:z", "/nowhere/n", tag("x/y:z")),
    ] {
        let parsed = Reference::parse_new(OsStr::new(text)).unwrap();
        assert_eq!((parsed.layout.as_path(), parsed.selector), (Path::new(layout), selector));
    }
    for text in ["", ":t"] {
        let error = Reference::parse_new(OsStr::new(text)).unwrap_err();
        assert!(matches!(error, OciError::InvalidReference { .. }), "{text}");
    }
}

#[test]
fn a_folder_that_exists_is_not_torn_apart() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("a:b/c:d")).unwrap();
    for (text, layout, selector) in [
        ("a:b/n:x/y:z", "a:b/n", tag("x/y:z")),
        ("a:b/c:d/n:t", "a:b/c:d/n", tag("t")),
        ("a:b/c:d:t", "a:b/c", tag("d:t")),
        ("a:b/n", "a:b/n", Selector::Only),
        ("a:e/n:t", "a", tag("e/n:t")),
    ] {
        let text = dir.path().join(text);
        let parsed = Reference::parse_new(text.as_os_str()).unwrap();
        assert_eq!((parsed.layout, parsed.selector), (dir.path().join(layout), selector));
    }
}

#[test]
fn two_arguments_are_taken_as_they_are() {
    let parts =
        |layout: &str, name: &str| Reference::from_parts(OsStr::new(layout), OsStr::new(name));
    assert_eq!(parts("a:b", "t").unwrap(), Reference { layout: "a:b".into(), selector: tag("t") });
    assert_eq!(parts("a", "").unwrap().selector, Selector::Only);
    assert!(matches!(parts("a", &format!("@{}", digest())).unwrap().selector, Selector::Digest(_)));
    assert!(matches!(parts("a", "@x"), Err(OciError::InvalidDigest { .. })));
    assert!(matches!(parts("", "t"), Err(OciError::InvalidReference { .. })));
    let odd = Reference::from_parts(OsStr::new("a"), OsStr::from_bytes(b"\xff"));
    assert!(matches!(odd, Err(OciError::InvalidTag { rule: TagRule::Utf8, .. })));
    assert!(matches!(parts("a", "").unwrap().tag_to_write(), Err(OciError::NoTagGiven { .. })));
    assert!(matches!(parts("a", "-t").unwrap().tag_to_write(), Err(OciError::InvalidTag { .. })));
    assert_eq!(parts("a", "t").unwrap().tag_to_write().unwrap(), "t");
}

#[test]
fn tags_follow_the_grammar_of_the_specification() {
    for good in
        ["a", "1", "latest", "v1.0", "a--b", "docker.io/library/x:v1", "a@b+c_d-e", "A/B/c9"]
    {
        check_tag(good).unwrap();
    }
    let long = "x".repeat(2000);
    check_tag(&long).unwrap();
    for (bad, rule) in [
        ("", TagRule::Empty),
        ("a b", TagRule::Character(' ')),
        ("a\n", TagRule::Character('\n')),
        ("é", TagRule::Character('é')),
        ("a*", TagRule::Character('*')),
        ("-a", TagRule::Separator),
        ("a.", TagRule::Separator),
        ("a..b", TagRule::Separator),
        ("a---b", TagRule::Separator),
        ("a--.b", TagRule::Separator),
        ("/a", TagRule::Separator),
        ("a//b", TagRule::Separator),
        ("a/", TagRule::Separator),
        ("a/-b", TagRule::Separator),
    ] {
        let error = check_tag(bad).unwrap_err();
        assert!(
            matches!(error, OciError::InvalidTag { rule: found, .. } if found == rule),
            "{bad}: {error}"
        );
    }
}
