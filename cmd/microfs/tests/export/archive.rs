//! The merged tree as one archive.

use std::path::PathBuf;
use std::process::Stdio;

use crate::support::image::{Image, damage};
use crate::support::program::{PROGRAM, microfs, ok, output, refuse, succeed, texts, tool};
use crate::support::same::{assert_same, assert_same_but};
use crate::support::scratch::Scratch;
use crate::support::tars::{layer_files, named};
use crate::{but_holes, dump, two, umoci, untar, words};

#[test]
fn one_archive_is_the_merged_tree() {
    let scratch = Scratch::new();
    let (image, given) = two(&scratch);
    let file = scratch.join("tree.tar");
    let said = ok(words!["export", named(&image, "t"), "--tar", file]);
    assert!(said.contains("tree.tar\n"), "{said}");
    let out = scratch.join("out");
    untar(&file, &out);
    assert_same(&scratch.join("merged"), &out);
    assert_eq!(ok(words!["diff", image, "t", out]), "");

    // On standard output, in each form of the command.
    let whole = std::fs::read(&file).unwrap();
    for words in [
        words!["export", image, "t", "-"],
        words!["export", named(&image, "t"), "-"],
        words!["export", named(&image, "t"), "--tar", "-"],
    ] {
        let output = output(&mut microfs(words));
        assert!(output.status.success() && output.stdout == whole);
        assert_eq!(texts(&output).1, "");
    }
    // Compressed when asked to.
    let packed = scratch.join("tree.tar.gz");
    ok(words!["export", "-q", image, "t", "--tar", packed, "--compression", "gzip"]);
    assert!(succeed(tool("gzip").arg("-dc").arg(&packed).stdin(Stdio::null())).len() > 1000);
    ok(words!["convert", "-q", packed, image, "packed"]);
    assert_eq!(dump(&image, "packed"), dump(&image, "t"));

    // The same as the only layer of a squashed image.
    ok(words!["export", "-q", "--squash", "-c", "none", image, "t", given]);
    let files = layer_files(&given, "t");
    assert_eq!(files.len(), 1);
    assert!(std::fs::read(&files[0]).unwrap() == whole);
    assert_same_but(&scratch.join("merged"), &umoci(&scratch, &given, "t"), &but_holes());
}

#[test]
fn an_archive_appears_whole_or_not_at_all() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let folder = scratch.dir("folder");
    let file = folder.join("out.tar");
    std::fs::write(&file, "old").unwrap();
    let link = folder.join("link");
    std::os::unix::fs::symlink("out.tar", &link).unwrap();
    ok(words!["export", "-q", layout, "t", "--tar", link]);
    assert!(link.is_symlink() && std::fs::metadata(&file).unwrap().len() > 300_000);
    // A pipe that is there is written into.
    let pipe = folder.join("pipe");
    succeed(tool("mkfifo").arg(&pipe));
    let command = "\"$0\" export -q \"$1\" --tar \"$2\" & tar -Btf \"$2\"; wait $!";
    let mut sh = tool("sh");
    sh.args(["-e", "-c", command, PROGRAM]).arg(named(&layout, "t")).arg(&pipe);
    assert_eq!(succeed(&mut sh).lines().next(), Some("./"));

    damage(&Image { layout: layout.clone(), source: PathBuf::new() }.layer(), 100_000);
    std::fs::write(&file, "old").unwrap();
    refuse(words!["export", layout, "t", "--tar", file], &["\"large\"", "damaged"]);
    assert_eq!(std::fs::read(&file).unwrap(), b"old");
    refuse(words!["export", layout, "t", "--tar", folder], &["is a directory"]);
    let missing = folder.join("no/such/out.tar");
    refuse(words!["export", layout, "t", "--tar", missing], &["No such file"]);
    let mut left: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["link", "out.tar", "pipe"]);
}
