//! Bad input and a bad environment: one clear line, the right exit code, and
//! nothing left behind.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use microfs_oci::{ImageSpec, Layout, NewLayer, Platform, media_type};
use support::image::{Image, LARGE, damage};
use support::program::{PROGRAM, fail, microfs, ok, output, refuse, texts, tool, unmount};
use support::scratch::{Scratch, is_mounted};

/// Each verb that reads an image, with that image.
fn readers(layout: &Path, tag: &str, scratch: &Scratch) -> Vec<Vec<OsString>> {
    let empty = scratch.dir("empty");
    vec![
        words!["inspect", layout, tag],
        words!["ls", layout, tag],
        words!["cat", layout, tag, "/large"],
        words!["diff", layout, tag, empty],
        words!["extract", layout, tag, scratch.join("extracted")],
        words!["mount", layout, tag, empty],
        words!["mount", "-f", layout, tag, empty],
    ]
}

/// A check must find this, for people and for programs.
#[track_caller]
fn check_finds(layout: &Path, part: &str) {
    for options in [words![], words!["--json"]] {
        let found = output(&mut microfs([words!["check", layout, "t"], options.clone()].concat()));
        let (out, err) = texts(&found);
        assert_eq!((found.status.code(), err.as_str()), (Some(1), ""), "{out}");
        if options.is_empty() {
            assert!(out.contains(part) && out.contains("DAMAGED"), "{part:?} wanted in: {out}");
            continue;
        }
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(report["sound"], false);
        let findings = report["findings"].as_array().unwrap();
        let mut texts = findings.iter().map(|finding| finding["text"].as_str().unwrap());
        assert!(texts.any(|text| text.contains(part)), "{part:?} wanted in: {out}");
    }
}

#[test]
fn a_missing_tag_lists_those_there_are() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    ok(words!["build", "-q", "--all-root", "--mtime", "1", source, layout, "second"]);
    let mut all = readers(&layout, "nosuch", &scratch);
    all.push(words!["check", layout, "nosuch"]);
    all.push(words!["tag", layout, "nosuch", "x"]);
    all.push(words!["untag", layout, "nosuch"]);
    for words in all {
        refuse(words, &["\"nosuch\"", "it has ", "t", "second"]);
    }
    let colon = OsString::from(format!("{}:nosuch", layout.display()));
    refuse(words!["ls", colon], &["\"nosuch\"", "second"]);
    refuse(words!["ls", layout], &["a tag is needed", "second"]);
    assert!(!scratch.join("extracted").exists());
    assert!(!is_mounted(&scratch.join("empty")));
}

#[test]
fn what_is_no_layout_is_refused() {
    let scratch = Scratch::new();
    let plain = scratch.dir("plain");
    scratch.file("plain/README", "nothing of ours");
    let file = scratch.file("file", "");
    let missing = scratch.join("missing");
    for layout in [&plain, &file, &missing] {
        for words in readers(layout, "t", &scratch) {
            refuse(words, &[layout.to_str().unwrap()]);
        }
    }
    refuse(words!["ls", plain, "t"], &["not an OCI image layout"]);
    refuse(words!["images", plain], &["not an OCI image layout"]);
    refuse(words!["gc", plain], &["not an OCI image layout"]);
    // A build does not spread over a folder of something else.
    refuse(words!["build", scratch.dir("s"), plain, "t"], &["README", "not an OCI image layout"]);
    assert_eq!(std::fs::read_dir(&plain).unwrap().count(), 1);
    refuse(words!["build", scratch.join("s"), file, "t"], &["file"]);
}

/// Finds a document of an image; and what the message says of it.
type Document = (fn(&Image) -> PathBuf, &'static str);

#[test]
fn damaged_documents_are_refused() {
    let cases: [Document; 3] = [
        (|image| image.layout.join("index.json"), "index.json"),
        (|image| image.layout.join("oci-layout"), "oci-layout"),
        (Image::manifest, "digest mismatch"),
    ];
    for (file, text) in cases {
        let scratch = Scratch::new();
        let image = Image::new(&scratch);
        let path = file(&image);
        // The first byte of a JSON document is a brace.
        damage(&path, 0);
        for words in readers(&image.layout, "t", &scratch) {
            refuse(words, &[text]);
        }
        if text == "digest mismatch" {
            check_finds(&image.layout, text);
        } else {
            refuse(words!["check", image.layout, "t"], &[text]);
        }
    }
}

#[test]
fn a_truncated_or_missing_layer_is_refused() {
    let scratch = Scratch::new();
    let image = Image::new(&scratch);
    let layer = image.layer();
    let file = std::fs::File::options().write(true).open(&layer).unwrap();
    let length = file.metadata().unwrap().len();
    for shorter in [length - 1, length - 4096, 4096, 0] {
        file.set_len(shorter).unwrap();
        for words in readers(&image.layout, "t", &scratch) {
            refuse(words, &["size mismatch", &length.to_string()]);
        }
        check_finds(&image.layout, "size mismatch");
    }
    std::fs::remove_file(&layer).unwrap();
    for words in readers(&image.layout, "t", &scratch) {
        refuse(words, &["missing blob sha256:"]);
    }
    check_finds(&image.layout, "missing blob sha256:");
}

#[test]
fn a_check_goes_on_to_the_other_layers() {
    let scratch = Scratch::new();
    let Image { layout, source } = Image::new(&scratch);
    std::fs::write(source.join("more"), "content that the base has not").unwrap();
    ok(words!["build", "-q", "--base", "t", source, layout, "u"]);
    let json = ok(words!["inspect", "--json", layout, "u"]);
    let inspected: serde_json::Value = serde_json::from_str(&json).unwrap();
    let layer = |number: usize| {
        let digest = inspected["layers"][number]["digest"].as_str().unwrap();
        support::image::blob(&layout, digest)
    };
    // The upper one is missing, and the lower one's content is damaged.
    std::fs::remove_file(layer(1)).unwrap();
    damage(&layer(0), LARGE / 2);
    let check = output(&mut microfs(words!["check", layout, "u"]));
    let (out, _) = texts(&check);
    assert_eq!(check.status.code(), Some(1), "{out}");
    assert!(out.contains("missing blob sha256:") && out.contains("R13"), "{out}");
    assert!(out.contains("DAMAGED: 1 layers"), "{out}");
}

#[test]
fn a_layer_with_another_superblock_is_refused() {
    let scratch = Scratch::new();
    let image = Image::new(&scratch);
    let layer = image.layer();
    let length = layer.metadata().unwrap().len();
    damage(&layer, length - 4096 + 300);
    for words in readers(&image.layout, "t", &scratch) {
        refuse(words, &["damaged", "superblock"]);
    }
    check_finds(&image.layout, "superblock");
}

#[test]
fn altered_content_is_never_given_out() {
    let scratch = Scratch::new();
    let image = Image::new(&scratch);
    // Somewhere in the blocks of `large`, which do not compress.
    damage(&image.layer(), LARGE / 2);
    let layout = &image.layout;
    refuse(words!["cat", layout, "t", "/large"], &["/large", "R13"]);
    let check = output(&mut microfs(words!["check", layout, "t"]));
    assert_eq!(check.status.code(), Some(1), "{:?}", texts(&check));
    let extract = microfs(words!["extract", layout, "t", scratch.join("extracted")]);
    let extract = output(&mut { extract });
    assert_eq!(extract.status.code(), Some(1), "{:?}", texts(&extract));
    refuse(words!["diff", layout, "t", image.source], &["large"]);

    let mount = scratch.dir("mount");
    ok(words!["mount", layout, "t", mount]);
    let error = std::fs::read(mount.join("large")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    // The rest is as it was.
    let small = std::fs::read(mount.join("linked")).unwrap();
    assert_eq!(small, std::fs::read(image.source.join("linked")).unwrap());
    unmount(&mount);
}

#[test]
fn every_altered_byte_of_metadata_is_found() {
    let scratch = Scratch::new();
    let image = Image::new(&scratch);
    let layer = image.layer();
    let length = layer.metadata().unwrap().len();
    let original = std::fs::read(&layer).unwrap();
    // The tail: metadata blocks, block pointers, page digests; not the zeros.
    let used = original[..length as usize - 4096].iter().rposition(|byte| *byte != 0).unwrap();
    for offset in (LARGE + 3000..used as u64).step_by(37) {
        damage(&layer, offset);
        let check = output(&mut microfs(words!["check", image.layout, "t"]));
        assert_eq!(check.status.code(), Some(1), "byte {offset}: {:?}", texts(&check));
        damage(&layer, offset);
    }
    ok(words!["check", image.layout, "t"]);
}

#[test]
fn an_unsupported_version_is_named() {
    let scratch = Scratch::new();
    let image = Image::new(&scratch);
    let mut bytes = std::fs::read(image.layer()).unwrap();
    let version = bytes.len() - 4096 + 8;
    bytes[version] = 9;
    let layout = Layout::open(&image.layout).unwrap();
    let session = layout.begin().unwrap();
    let blob = session.put(&bytes).unwrap();
    let spec = ImageSpec {
        layers: vec![NewLayer::opaque(media_type::microfs_layer(), blob)],
        platform: Some(Platform::host()),
        ..ImageSpec::default()
    };
    let assembled = session.assemble(&spec).unwrap();
    session.publish("future", &assembled.manifest).unwrap();
    drop(session);
    for words in readers(&image.layout, "future", &scratch) {
        refuse(words, &["version"]);
    }
    // That is no damage.
    refuse(words!["check", image.layout, "future"], &["version"]);
}

#[test]
fn a_bad_mount_point_is_named() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let missing = scratch.join("missing");
    let file = scratch.file("file", "x");
    let busy = scratch.dir("busy");
    ok(words!["mount", layout, "t", busy]);
    for options in [&[][..], &["-f"]] {
        let mount = |at: &Path| {
            let mut words = words!["mount"];
            words.extend(options.iter().map(OsString::from));
            words.extend(words![layout, "t", at]);
            words
        };
        refuse(mount(&missing), &["missing does not exist"]);
        refuse(mount(&file), &["file is not a directory"]);
        refuse(mount(&busy), &["busy is busy", "already mounted"]);
    }
    let _open = std::fs::File::open(busy.join("large")).unwrap();
    refuse(words!["umount", busy], &["busy is busy", "--lazy"]);
    ok(words!["umount", "--lazy", busy]);
    refuse(words!["umount", busy], &["busy is not a mount point"]);
    refuse(words!["umount", missing], &["missing does not exist"]);
    refuse(words!["umount", scratch.path()], &["tmpfs, not of FUSE"]);
}

/// Runs the program in a mount namespace of its own after some shell commands.
fn in_namespace(before: &str, words: Vec<OsString>) -> Command {
    let mut command = tool("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-e", "-c"]);
    command.arg(format!("{before}\nexec \"$0\" \"$@\"")).arg(PROGRAM).args(words);
    command
}

/// What the program reads there while it starts would wait for its own mount.
#[test]
fn a_mount_over_the_kernels_own_folders_does_not_wait_for_itself() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    // By itself it asks for the cores; many threads open the device again.
    let many = &["--threads", "6"][..];
    let gone = Some("does not answer");
    for (options, at, reason) in
        [(&[][..], "/proc", gone), (&[], "/sys", None), (many, "/proc", gone), (many, "/dev", None)]
    {
        let mut words = words!["mount", layout, "t", at];
        words.extend(options.iter().map(Into::into));
        // A failure to end is a failure, with a code of its own.
        let mut command = tool("timeout");
        command.args(["-s", "KILL", "60", "unshare", "--map-root-user", "--mount", "--pid"]);
        command.args(["--fork", "--kill-child", "--mount-proc", "sh", "-c"]);
        command.arg(format!("\"$@\" || exit; umount -l {at}")).args(["sh", PROGRAM]).args(words);
        let done = output(&mut command);
        let (_, said) = texts(&done);
        match reason {
            Some(reason) => {
                assert_eq!(done.status.code(), Some(1), "{at}: {said}");
                assert!(said.contains(reason), "{at}: {said}");
            }
            None => assert!(done.status.success(), "{at}: {said}"),
        }
    }
}

#[test]
fn a_missing_fuse_device_is_named() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let at = scratch.dir("mount");
    let bare = "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3";
    let empty = scratch.file("not-a-device", "");
    let other = format!("mount --bind {} /dev/fuse", empty.display());
    for options in [words![], words!["-f"]] {
        let mut words = words!["mount"];
        words.extend(options);
        words.extend(words![layout, "t", at]);
        let line = fail(&mut in_namespace(bare, words.clone()), 1);
        assert!(line.contains("/dev/fuse is missing"), "{line}");
        fail(&mut in_namespace(&other, words), 1);
    }
    // What needs no mount works all the same.
    let listing = in_namespace(bare, words!["ls", "-1", layout, "t"]);
    assert_eq!(support::program::succeed(&mut { listing }).lines().count(), 6);
}

/// Their size is 0 whatever they hold.
#[test]
fn files_of_proc_are_no_files_to_build() {
    let scratch = Scratch::new();
    let layout = scratch.join("layout");
    let source = "/proc/sys/kernel/random";
    refuse(
        words!["build", "-q", source, layout, "t"],
        &["/proc/sys/kernel/random/", "more content than its size says", "leave that out"],
    );
    assert!(!layout.exists());
    let skipped =
        output(&mut microfs(words!["build", "-q", "--on-error", "skip", source, layout, "t"]));
    let said = String::from_utf8(skipped.stderr).unwrap();
    assert!(skipped.status.success() && said.contains("boot_id"), "{said}");
    assert!(!ok(words!["ls", layout, "t"]).contains("boot_id"));
}
