//! The command line: what is wrong usage, and what is not.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::ffi::OsString;

use microfs_oci::Platform;
use support::image::Image;
use support::program::{fail, microfs, ok, output, refuse, texts};
use support::scratch::{Scratch, is_mounted};

#[test]
fn wrong_usage_is_code_2() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    let layout = scratch.join("layout");
    let build = |more: &[&str]| {
        let mut words = words!["build", source, layout, "t"];
        words.extend(more.iter().map(OsString::from));
        words
    };
    let wrong = [
        words![],
        words!["nosuchverb"],
        words!["build"],
        words!["build", source],
        words!["build", source, layout, "t", "extra"],
        words!["mount"],
        words!["mount", layout],
        words!["mount", "--threads", "0", layout, "t", source],
        words!["mount", "--ready-fd", "x", layout, "t", source],
        words!["ls"],
        words!["umount"],
        words!["--nosuchoption"],
        build(&["--block-size", "513"]),
        build(&["--block-size", "256"]),
        build(&["--block-size", "2M"]),
        build(&["--compression", "gzip"]),
        build(&["--compression", "zstd:0"]),
        build(&["--compression", "zstd:23"]),
        build(&["--threads", "0"]),
        build(&["--mtime", "yesterday"]),
        build(&["--owner", "root"]),
        build(&["--owner", "1:1", "--all-root"]),
        build(&["--on-error", "perhaps"]),
        build(&["--config-platform", "linux"]),
        build(&["--config-created", "yesterday"]),
        build(&["--config-port", "70000"]),
        build(&["--config-workdir", "relative"]),
        build(&["--config-user", "user:"]),
        build(&["--config-stop-signal", "SIGNOSUCH"]),
        build(&["--owner", "4294967295:1"]),
        words!["mount", "--metrics", "nonsense:99999", layout, "t", source],
        words!["mount", "--metrics", "127.0.0.1:99999", layout, "t", source],
        words!["mount", "--metrics", "localhost:99999", layout, "t", source],
        words!["mount", layout, "t", source, "extra"],
        words!["mount", layout, "-o", "nosuid", "t", source, "extra"],
        words!["cat", layout],
        build(&["--nosuchoption"]),
        words!["convert", "--nosuchoption", layout, "t"],
        words!["convert", "-z", layout, "t"],
        words!["convert", source, "--nosuchoption", layout, "t"],
    ];
    for words in wrong {
        let output = output(&mut microfs(words.clone()));
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(2), "{words:?}\n{err}");
        assert_eq!(out, "", "{words:?}");
        assert!(err.contains("Usage: microfs") || err.starts_with("error: "), "{words:?}: {err}");
    }
    let mut epoch = microfs(build(&[]));
    epoch.env("SOURCE_DATE_EPOCH", "now");
    assert!(fail(&mut epoch, 2).contains("SOURCE_DATE_EPOCH=now: "));
    // The year 10000 has no date in RFC 3339.
    let mut epoch = microfs(build(&[]));
    epoch.env("SOURCE_DATE_EPOCH", "253402300800");
    assert!(fail(&mut epoch, 2).contains("253402300800"));
    assert!(fail(&mut microfs(words!["build", source, layout]), 2).contains(":TAG"));
    assert!(!layout.exists(), "nothing was begun");
}

#[test]
fn values_that_only_the_work_shows_to_be_wrong_are_one_line() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    refuse(words!["build", source, layout, "no tag"], &["\"no tag\" is not a valid tag"]);
    let from = scratch.join("patterns");
    refuse(words!["build", source, layout, "u", "--exclude-from", from], &["patterns"]);
    refuse(words!["cat", layout, "t", "/nosuch"], &["/nosuch", "no such file"]);
    refuse(words!["cat", layout, "t", "/directory"], &["/directory", "is a directory"]);
    refuse(words!["cat", layout, "t", "/large/x"], &["not a directory"]);
    refuse(words!["ls", layout, "t", "/nosuch"], &["/nosuch", "no such file"]);
    refuse(words!["diff", layout, "t", scratch.join("nosuch")], &["nosuch"]);
    refuse(words!["ls", "--platform", "plan9/mips", layout, "t"], &["plan9/mips", "it has linux/"]);
    refuse(words!["extract", layout, "t", scratch.join("no/such")], &["no/such"]);
}

#[test]
fn bad_words_in_values_are_wrong_usage_too() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let at = scratch.dir("mount");
    let build = |option: &str| words!["build", source, layout, "u", option, "x"];
    let mount = |more: &[&str]| {
        let mut words = words!["mount"];
        words.extend(more.iter().map(OsString::from));
        [words, words![layout, "t", at]].concat()
    };
    let cases = [
        (build("--config-env"), "NAME=VALUE"),
        (build("--config-label"), "NAME=VALUE"),
        (mount(&["-o", "rw"]), "read-only"),
        (mount(&["-o", "nosuch"]), "\"nosuch\""),
        (mount(&["-o", "ro,threads=x"]), "\"threads=x\""),
        (mount(&["-f", "-o", "nosuch"]), "\"nosuch\""),
        (mount(&["-w", "-o", "subtype=a/b"]), "\"subtype=a/b\""),
    ];
    for (words, part) in cases {
        let line = fail(&mut microfs(words), 2);
        assert!(line.contains(part), "{part:?} wanted in: {line}");
    }
    assert!(!is_mounted(&at));
    refuse(words!["inspect", layout, "u"], &["it has t"]);
}

#[test]
fn a_new_tag_stands_alone() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let name = |tag: &str| format!("{}:{tag}", layout.display());
    for verb in ["tag", "squash"] {
        let line = fail(&mut microfs(words![verb, name("t"), name("y")]), 2);
        assert!(line.contains("without its layout: y"), "{line}");
    }
    // Colons are legal in a tag.
    ok(words!["tag", name("t"), "registry:y"]);
    // The base may be named in full.
    ok(words!["build", "-q", "--base", name("t"), source, layout, "b"]);
    assert_eq!(ok(words!["inspect", layout, "b"]).matches("layer ").count(), 2);
}

#[test]
fn options_may_stand_between_words() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    let (at, out) = (scratch.dir("mount"), scratch.dir("out"));
    let image = format!("{}:t", layout.display());
    ok(words!["mount", image, "-o", "nosuid", at]);
    ok(words!["umount", at]);
    ok(words!["mount", layout, "--threads", "2", "t", "-o", "nosuid", at]);
    ok(words!["umount", at]);
    ok(words!["extract", image, "-f", out]);
    ok(words!["squash", image, "-b", "64K", "s2"]);
    ok(words!["diff", image, "--no-mtime", source]);
    ok(words!["build", source, layout, "-q", "u"]);
    assert!(
        !output(&mut microfs(words![
            "cat",
            image,
            "--platform",
            Platform::host().to_string(),
            "/large"
        ]))
        .stdout
        .is_empty()
    );
}
