//! Output that cannot be written: an exit code and at most one line, no panic.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::ffi::OsString;
use std::fs::File;
use std::process::{Command, Stdio};

use support::image::Image;
use support::program::{microfs, ok, output, texts};
use support::scratch::Scratch;

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// The end of a pipe that nobody reads.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// Everything that prints a result for people.
fn printing(scratch: &Scratch, image: &Image, round: &str) -> Vec<Vec<OsString>> {
    let layout = &image.layout;
    let made = |name: &str| scratch.join(&format!("{name}-{round}"));
    vec![
        words!["build", image.source, layout, "again"],
        words!["convert", format!("{}:t", made("exported").display()), layout, "converted"],
        words!["squash", layout, "t", "squashed"],
        words!["export", layout, "t", made("more"), "t"],
        words!["extract", layout, "t", made("extracted")],
        words!["status", scratch.join("mount")],
        words!["status", "--json", scratch.join("mount")],
        words!["inspect", "--json", layout, "t"],
        words!["ls", layout, "t"],
        words!["check", layout, "t"],
        words!["export", layout, "t", "-"],
        words!["completions", "bash"],
        words!["--help"],
        words!["build", "--help"],
        words!["--version"],
    ]
}

#[track_caller]
fn run(command: &mut Command, code: i32, lines: usize) {
    let output = output(command);
    let (out, err) = texts(&output);
    assert_eq!(output.status.code(), Some(code), "{command:?}: {out}{err}");
    assert_eq!(err.lines().count(), lines, "{command:?}: {err}");
    assert!(!err.contains("panicked"), "{command:?}: {err}");
}

#[test]
fn standard_output_that_cannot_be_written_is_an_error() {
    let scratch = Scratch::new();
    let image = Image::new(&scratch);
    let mount = scratch.dir("mount");
    ok(words!["mount", image.layout, "t", mount]);
    for (round, lines) in [("full", 1), ("closed", 0)] {
        ok(words![
            "export",
            "-q",
            image.layout,
            "t",
            scratch.join(&format!("exported-{round}")),
            "t"
        ]);
        for words in printing(&scratch, &image, round) {
            let mut command = microfs(words);
            match round {
                "full" => run(command.stdout(full()), 1, lines),
                // As with `ls | head`: whoever read has seen enough.
                _ => run(command.stdout(closed()), 0, lines),
            }
        }
    }
    ok(words!["umount", mount]);
}

#[test]
fn an_error_that_cannot_be_said_is_still_its_exit_code() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    for stderr in [full, closed] {
        run(microfs(words!["ls", layout, "nosuch"]).stderr(stderr()), 1, 0);
        run(microfs(words!["mount", layout, "t", "-o", "nosuch", source]).stderr(stderr()), 2, 0);
        run(microfs(words!["nosuch"]).stderr(stderr()), 2, 0);
    }
    // A remark on the result: what is left out.
    let socket = std::os::unix::net::UnixListener::bind(source.join("socket")).unwrap();
    ok(words!["build", "-q", source, layout, "s"]);
    let export = |tag: &str| words!["export", "--skip-sockets", layout, "s", layout, tag];
    run(microfs(export("x")).stderr(full()), 1, 0);
    run(microfs(export("y")).stderr(closed()), 0, 0);
    drop(socket);
}
