//! The hard inputs of `testdata/nasty` that are images.

use crate::support::program::{PROGRAM, output, succeed, texts, tool};
use crate::support::scratch::Scratch;

/// Runs the hard inputs of `testdata/nasty` that are images.
#[track_caller]
fn hard_inputs(convert: &str, extract: &str) {
    let nasty = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/nasty");
    let mut check = tool("unshare");
    // In namespaces of their own, so that nothing outlives a failure.
    check.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "/usr/bin/python3"]);
    check.args(["-B", &format!("{nasty}/check.py"), &format!("{nasty}/cases")]);
    let by_name = format!("{convert} {{oci_in}}:{{in_tag}} {{oci_out}} {{tag}}");
    let archive = format!("{convert} {{archive}} {{oci_out}} {{tag}}");
    check.args(["--convert", &by_name, "--convert-docker", &archive, "--extract", extract]);
    let output = output(&mut check);
    let (out, errors) = texts(&output);
    let failed: Vec<&str> = out.lines().filter(|line| line.starts_with("FAIL")).collect();
    assert!(output.status.success() && failed.is_empty(), "{failed:#?}{errors}");
    let last = out.lines().last().unwrap();
    let passed: u32 = last.split(' ').next().unwrap().parse().unwrap();
    assert!(passed > 140, "{last}");
}

/// By way of exported layers, with what a squash of the image shows compared on
/// the way.
#[test]
fn hard_inputs_come_back() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/export-again.sh");
    let convert = format!("{script} {PROGRAM}");
    hard_inputs(&convert, &format!("{PROGRAM} extract -q {{oci_out}} {{tag}} {{out}}"));
}

/// What umoci unpacks of them is right, too.
#[test]
fn umoci_unpacks_hard_inputs() {
    let scratch = Scratch::new();
    let write = |name: &str, text: &str| {
        let file = scratch.file(name, text);
        succeed(tool("chmod").arg("755").arg(&file));
        file.display().to_string()
    };
    let give = "#!/bin/sh -eu\n\"$1\" convert -q \"$2\" \"$3.first:t\"\n\"$1\" export -q \"$3.first:t\" \"$3:$4\"\n";
    let unpack = "#!/bin/sh -eu\numoci unpack --image \"$1:$2\" \"$3.bundle\" >&2\nrm -rf \"$3\"\nmv \"$3.bundle/rootfs\" \"$3\"\n";
    let (give, unpack) = (write("give", give), write("unpack", unpack));
    hard_inputs(&format!("{give} {PROGRAM}"), &format!("{unpack} {{oci_out}} {{tag}} {{out}}"));
}
