//! Limits of the process and of those who are asked: errors, and no verdicts.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::process::{Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use support::image::Image;
use support::program::{PROGRAM, ok, refuse, unmount};
use support::scratch::Scratch;

/// Runs the program in a shell with a limit set.
fn limited(limit: &str, words: &[&str]) -> Output {
    let script = format!("ulimit {limit}; exec \"$@\"");
    Command::new("sh").args(["-c", &script, "sh", PROGRAM]).args(words).output().unwrap()
}

#[test]
fn too_few_descriptors_are_not_damage() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let layout = layout.to_str().unwrap();
    let mut failures = 0;
    for count in 3..20 {
        let output = limited(&format!("-n {count}"), &["check", "--json", layout, "t"]);
        let (out, said) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
        let (out, said) = (out.unwrap(), said.unwrap());
        if output.status.success() {
            assert!(out.contains("\"sound\": true"), "{count}: {out}");
        } else {
            failures += 1;
            assert_eq!(out, "", "{count}: {said}");
        }
    }
    assert!(failures > 0);
    ok(words!["check", "-q", layout, "t"]);
}

#[test]
fn a_file_that_would_be_too_large_is_an_error() {
    let scratch = Scratch::new();
    let Image { source, layout } = Image::new(&scratch);
    std::fs::write(source.join("more"), vec![7; 100_000]).unwrap();
    let fresh = scratch.join("fresh");
    let output = limited(
        "-f 1",
        &["build", "-q", "-c", "none", source.to_str().unwrap(), fresh.to_str().unwrap(), "t"],
    );
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("File too large"), "{said}");
    assert!(!fresh.exists());
    ok(words!["check", "-q", layout, "t"]);
}

#[test]
fn a_server_that_is_stopped_is_named() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let at = scratch.dir("mount");
    ok(words!["mount", layout, "t", at]);
    let text = ok(words!["status", "--json", at]);
    let status: serde_json::Value = serde_json::from_str(&text).unwrap();
    let pid = i32::try_from(status["pid"].as_i64().unwrap()).unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let outcome = std::panic::catch_unwind(|| {
        refuse(words!["status", at], &["process that serves", "does not answer in 5 s"]);
    });
    kill_process(pid, Signal::CONT).unwrap();
    outcome.unwrap();
    ok(words!["status", at]);
    unmount(&at);
}
