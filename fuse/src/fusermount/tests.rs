use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{mentions, message, start_first};

fn script(path: PathBuf, mode: u32) -> PathBuf {
    std::fs::write(&path, "#!/bin/sh\necho \"$1 $LC_ALL $KEY\" >&2\n").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    path
}

#[test]
fn a_place_where_it_may_not_be_run_is_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    // Nobody, root included, may run a file without any x bit.
    let closed = script(at("closed"), 0o644);
    let open = script(at("open"), 0o755);
    let elsewhere = [at("missing"), closed.join("below"), at(""), closed];
    let all: Vec<&Path> = elsewhere.iter().chain([&open]).map(PathBuf::as_path).collect();
    let child = start_first(&all, &["-u"], Some(("KEY", "value"))).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.stderr, b"-u C value\n");

    let refused = start_first(&elsewhere, &["-u"], None).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    let missing = start_first(&[at("missing")], &["-u"], None).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn messages_become_one_line() {
    // As fusermount3 3.14 writes it.
    let said = b"fusermount3: one\nfusermount3: entry for /x not found in /etc/mtab\n";
    let line = message(said);
    assert_eq!(line, b"fusermount3: one; entry for /x not found in /etc/mtab");
    assert!(mentions(&line, "not found") && !mentions(&line, "busy"));
    assert_eq!(message(b"\n"), b"fusermount3 failed");
}
