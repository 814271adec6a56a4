//! Images of other makers become microfs images, and can be mounted writable.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use support::image::{assert_nothing_written, blob, damage};
use support::program::{PROGRAM, microfs, ok, refuse, succeed, tool, unmount};
use support::same::assert_same;
use support::scratch::{Scratch, is_mounted, mounts_below};
use support::server::Server;

/// Runs shell commands in a folder.
#[track_caller]
fn shell(folder: &Path, commands: &str) -> String {
    succeed(tool("sh").args(["-e", "-c", commands]).current_dir(folder))
}

#[track_caller]
fn digest(file: &Path) -> String {
    let sum = succeed(tool("sha256sum").arg(file));
    format!("sha256:{}", sum.split(' ').next().unwrap())
}

/// What is in the layers, as a shell makes it: the tree of the base, then the
/// second layer with whiteouts, and what both are together.
const TREES: &str = "
    umask 022
    mkdir -p base/bin base/etc/old base/run
    seq 100000 >base/bin/tool; chmod 4755 base/bin/tool; ln base/bin/tool base/bin/same
    ln -s ../bin/tool base/etc/link; echo old >base/etc/old/file; echo keep >base/etc/keep
    echo gone >base/etc/gone; mknod base/run/pipe p; chown 7:8 base/etc/keep
    cp -a base merged
    mkdir -p upper/etc/old upper/bin
    echo motd >upper/etc/motd; touch upper/etc/.wh.gone upper/etc/old/.wh..wh..opq
    echo new >upper/etc/old/new; chmod 711 upper/bin upper/etc
    rm merged/etc/gone merged/etc/old/file
    cp -a upper/etc/motd merged/etc; cp -a upper/etc/old/new merged/etc/old
    for part in base upper; do
        find $part -exec touch -h -d @1700000000 {} +
        tar --format=posix --sort=name -C $part -cf $part.tar .
    done
    find merged -exec touch -h -d @1700000000 {} +
    chmod 711 merged/bin merged/etc";

/// The source image of these tests and what it must become.
struct Made {
    scratch: Scratch,
    /// An OCI layout with the image under the tag `t`.
    layout: PathBuf,
    /// The tree of all layers.
    merged: PathBuf,
}

impl Made {
    #[track_caller]
    fn new() -> Self {
        let scratch = Scratch::new();
        shell(scratch.path(), TREES);
        shell(scratch.path(), "gzip -kn upper.tar");
        let layout = scratch.join("source");
        write_image(&layout, "t", &[Layer::new(&scratch, "base.tar"), Layer::gzip(&scratch)]);
        let merged = scratch.join("merged");
        Self { scratch, layout, merged }
    }

    fn source(&self) -> OsString {
        named(&self.layout, "t")
    }

    /// The place of a stored layer, the base being 0.
    fn layer(&self, number: usize) -> PathBuf {
        blob(&self.layout, &self.digest(number))
    }

    fn digest(&self, number: usize) -> String {
        let index = read(&self.layout.join("index.json"));
        let manifest = index["manifests"][0]["digest"].as_str().unwrap();
        let manifest = read(&blob(&self.layout, manifest));
        manifest["layers"][number]["digest"].as_str().unwrap().to_owned()
    }

    /// Converts a source and compares the outcome.
    #[track_caller]
    fn converts(&self, name: &str, source: OsString, wanted: &Path) {
        let target = self.scratch.join(&format!("{name}-layout"));
        ok(words!["convert", "-q", source, target, "t"]);
        self.extracts(name, &target, wanted);
    }

    #[track_caller]
    fn extracts(&self, name: &str, target: &Path, wanted: &Path) {
        ok(words!["check", target, "t"]);
        let out = self.scratch.join(&format!("{name}-tree"));
        ok(words!["extract", "-q", target, "t", out]);
        assert_same(wanted, &out);
    }
}

fn named(layout: &Path, tag: &str) -> OsString {
    OsString::from(format!("{}:{tag}", layout.display()))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A layer to be put into an image.
struct Layer {
    file: PathBuf,
    media_type: &'static str,
    diff_id: String,
}

const TAR: &str = "application/vnd.oci.image.layer.v1.tar";
const GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

impl Layer {
    fn new(scratch: &Scratch, name: &str) -> Self {
        let file = scratch.join(name);
        Self { diff_id: digest(&file), file, media_type: TAR }
    }

    fn gzip(scratch: &Scratch) -> Self {
        let diff_id = digest(&scratch.join("upper.tar"));
        Self { file: scratch.join("upper.tar.gz"), media_type: GZIP, diff_id }
    }
}

/// Adds a blob to a layout; returns its descriptor.
#[track_caller]
fn add_blob(layout: &Path, bytes: &[u8], media_type: &str) -> Value {
    let folder = layout.join("blobs/sha256");
    std::fs::create_dir_all(&folder).unwrap();
    let fresh = folder.join("fresh");
    std::fs::write(&fresh, bytes).unwrap();
    let digest = digest(&fresh);
    std::fs::rename(&fresh, blob(layout, &digest)).unwrap();
    json!({ "mediaType": media_type, "digest": digest, "size": bytes.len() })
}

/// Writes a layout with one image.
#[track_caller]
fn write_image(layout: &Path, tag: &str, layers: &[Layer]) {
    let stored: Vec<Value> = layers
        .iter()
        .map(|layer| add_blob(layout, &std::fs::read(&layer.file).unwrap(), layer.media_type))
        .collect();
    let diff_ids: Vec<&str> = layers.iter().map(|layer| layer.diff_id.as_str()).collect();
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": { "Cmd": ["/bin/tool"], "Labels": { "k": "v" } },
        "rootfs": { "type": "layers", "diff_ids": diff_ids },
    });
    let config =
        add_blob(layout, config.to_string().as_bytes(), "application/vnd.oci.image.config.v1+json");
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": stored,
    });
    let mut manifest = add_blob(layout, manifest.to_string().as_bytes(), media_type);
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    std::fs::write(layout.join("index.json"), index.to_string()).unwrap();
    std::fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).unwrap();
}

fn blobs(layout: &Path) -> BTreeSet<OsString> {
    let entries = std::fs::read_dir(layout.join("blobs/sha256")).unwrap();
    entries.map(|entry| entry.unwrap().file_name()).collect()
}

#[test]
fn every_form_of_an_image_gives_the_same_tree() {
    let made = Made::new();
    let scratch = &made.scratch;
    made.converts("layout", made.source(), &made.merged);
    shell(scratch.path(), "tar -C source -cf archive.tar .; gzip -k archive.tar");
    made.converts("archive", scratch.join("archive.tar").into(), &made.merged);
    made.converts("tagged", named(&scratch.join("archive.tar"), "t"), &made.merged);
    made.converts("packed", scratch.join("archive.tar.gz").into(), &made.merged);
    let docker = scratch.join("docker.tar");
    let mut skopeo = tool("skopeo");
    skopeo.args(["--insecure-policy", "copy", "-q", "oci:source:t"]);
    skopeo.arg(format!("docker-archive:{}:example.test/image:1", docker.display()));
    succeed(skopeo.current_dir(scratch.path()));
    made.converts("docker", docker.clone().into(), &made.merged);
    made.converts("docker-name", named(&docker, "example.test/image:1"), &made.merged);
}

#[test]
fn a_layer_alone_is_an_image_too() {
    let made = Made::new();
    let scratch = &made.scratch;
    let commands = "gzip -kn base.tar; for part in 1 2; do
        split -n $part/2 base.tar | gzip; done >members.tar.gz";
    shell(scratch.path(), commands);
    let base = scratch.join("base");
    for name in ["base.tar", "base.tar.gz", "members.tar.gz"] {
        made.converts(name, scratch.join(name).into(), &base);
    }
    // A pipe, and a file that is standard input.
    for (out, command) in [
        ("pipe", "cat base.tar.gz | \"$0\" convert -q - pipe t"),
        ("file", "\"$0\" convert -q - file t <base.tar"),
    ] {
        let mut sh = tool("sh");
        sh.args(["-e", "-c", command, PROGRAM]).current_dir(scratch.path());
        assert_eq!(succeed(&mut sh), "");
        made.extracts(out, &scratch.join(out), &base);
    }
}

#[test]
fn an_image_comes_in_through_a_pipe() {
    let made = Made::new();
    let out = made.scratch.join("out");
    let mut tar = tool("tar");
    tar.arg("-C").arg(&made.layout).args(["-cf", "-", "."]).stdout(Stdio::piped());
    let mut tar = tar.spawn().unwrap();
    let mut convert = microfs(words!["convert", "-q", "-:t", out, "t"]);
    succeed(convert.stdin(tar.stdout.take().unwrap()));
    assert!(tar.wait().unwrap().success());
    made.extracts("pipe", &out, &made.merged);
}

#[test]
fn layers_that_are_there_are_not_converted_again() {
    let made = Made::new();
    let out = made.scratch.join("out");
    let first = ok(words!["convert", made.source(), out, "t"]);
    assert!(first.contains("2 layers, 0 of them converted before"), "{first}");
    let stored = blobs(&out);
    let second = ok(words!["convert", made.source(), out, "again"]);
    assert!(second.contains("2 layers, 2 of them converted before"), "{second}");
    assert_eq!(second.matches(", converted before\n").count(), 2, "{second}");
    assert_eq!(blobs(&out), stored, "nothing new is stored");

    // Another image on the same base: its layer, config and manifest are new.
    shell(made.scratch.path(), "mkdir more; echo more >more/more; tar -C more -cf more.tar .");
    let other = made.scratch.join("other");
    let layers = [Layer::new(&made.scratch, "base.tar"), Layer::new(&made.scratch, "more.tar")];
    write_image(&other, "o", &layers);
    let report = ok(words!["convert", "--json", named(&other, "o"), out, "o"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let reused: Vec<&Value> =
        report["layers"].as_array().unwrap().iter().map(|layer| &layer["reused"]).collect();
    assert_eq!(reused, [&json!(true), &json!(false)]);
    assert_eq!(blobs(&out).difference(&stored).count(), 3);

    // Other options make other layers.
    let plain = ok(words!["convert", "--compression", "none", made.source(), out, "plain"]);
    assert!(plain.contains("2 layers, 0 of them converted before"), "{plain}");
    for tag in ["t", "again", "o", "plain"] {
        ok(words!["check", out, tag]);
    }
}

#[test]
fn a_converted_image_keeps_its_config_and_says_where_it_is_from() {
    let made = Made::new();
    let out = made.scratch.join("out");
    ok(words!["convert", "-q", made.source(), out, "t"]);
    let seen: Value = serde_json::from_str(&ok(words!["inspect", "--json", out, "t"])).unwrap();
    assert_eq!(seen["image_config"]["config"]["Cmd"], json!(["/bin/tool"]));
    assert_eq!(seen["image_config"]["config"]["Labels"], json!({ "k": "v" }));
    let manifest = blob(&out, seen["manifest"].as_str().unwrap());
    let manifest = std::fs::read_to_string(manifest).unwrap();
    for number in 0..2 {
        assert!(manifest.contains(&made.digest(number)), "{manifest}");
    }
}

/// Converting must fail with one line that holds all parts, and leave nothing.
#[track_caller]
fn refuses(made: &Made, source: OsString, parts: &[&str]) {
    let out = made.scratch.join("out");
    refuse(words!["convert", source, out, "t"], parts);
    assert_nothing_written(&out);
}

#[test]
fn a_changed_layer_is_refused() {
    let made = Made::new();
    let digest = made.digest(1);
    damage(&made.layer(1), 100);
    refuses(&made, made.source(), &["digest mismatch", &format!("layer 1 ({digest})")]);
}

#[test]
fn a_shortened_layer_is_refused() {
    let made = Made::new();
    let file = std::fs::File::options().write(true).open(made.layer(1)).unwrap();
    file.set_len(150).unwrap();
    refuses(&made, made.source(), &[&made.digest(1), "150"]);
}

#[test]
fn a_layer_with_another_diff_id_is_refused() {
    let made = Made::new();
    let wrong = format!("sha256:{}", "5".repeat(64));
    let layers = [
        Layer::new(&made.scratch, "base.tar"),
        Layer { diff_id: wrong.clone(), ..Layer::gzip(&made.scratch) },
    ];
    let layout = made.scratch.join("wrong");
    write_image(&layout, "t", &layers);
    refuses(&made, named(&layout, "t"), &["diff_id mismatch", "layer 1 (sha256:", &wrong]);
    // Without compression the digest is enough to see it.
    let plain = Layer { diff_id: wrong.clone(), ..Layer::new(&made.scratch, "base.tar") };
    let layout = made.scratch.join("plain");
    write_image(&layout, "t", &[plain]);
    refuses(&made, named(&layout, "t"), &["layer 0 (sha256:", &wrong]);
}

#[test]
fn a_cut_or_bad_archive_is_refused_with_layer_member_and_offset() {
    let made = Made::new();
    let scratch = &made.scratch;
    // A header, 1000 bytes in two blocks, and a file that is cut.
    shell(
        scratch.path(),
        "mkdir cut; head -c 1000 /dev/zero >cut/a; head -c 9999 /dev/zero >cut/b
        tar --format=ustar -C cut -cf cut.tar a b; truncate -s 4000 cut.tar
        mkdir bad; echo 1 >bad/a; mkdir bad/d; ln bad/a bad/b
        tar --format=ustar -C bad --transform 'flags=h;s,^a$,d,' -cf bad.tar a d b",
    );
    let cases =
        [("cut.tar", "\"b\" at byte 1536", "ends"), ("bad.tar", "\"b\" at byte 1536", "directory")];
    for (name, place, reason) in cases {
        let layers = [Layer::new(scratch, "base.tar"), Layer::new(scratch, name)];
        let layout = scratch.join(&format!("{name}-image"));
        write_image(&layout, "t", &layers);
        let layer = format!("layer 1 ({})", digest(&scratch.join(name)));
        refuses(&made, named(&layout, "t"), &[&layer, place, reason]);
        refuses(&made, scratch.join(name).into(), &["layer 0", name, place, reason]);
    }
}

#[test]
fn a_hard_link_to_nothing_is_refused() {
    let made = Made::new();
    shell(
        made.scratch.path(),
        "mkdir dead; echo 1 >dead/a; ln dead/a dead/b; tar -C dead -cf dead.tar a b
        tar --delete -f dead.tar a",
    );
    let source = made.scratch.join("dead.tar").into();
    refuses(&made, source, &["layer 0", "\"b\"", "\"a\""]);
}

#[test]
fn changes_of_a_writable_mount_end_with_it() {
    let made = Made::new();
    let (out, at) = (made.scratch.join("out"), made.scratch.dir("mount"));
    let temporary = made.scratch.dir("temporary");
    ok(words!["convert", "-q", made.source(), out, "t"]);
    for _ in 0..2 {
        let mut mount = microfs(words!["mount", "-w", out, "t", at]);
        succeed(mount.env("TMPDIR", &temporary));
        assert_same(&made.merged, &at);
        shell(&at, "echo x >>bin/tool; rm -r etc; mkdir etc; chown 1:1 bin; ln bin/tool new");
        let names = shell(&at, "ls -A . etc");
        assert_eq!(names, ".:\nbin\netc\nnew\nrun\n\netc:\n");
        assert!(shell(&at, "tail -n 1 new").starts_with('x'));
        unmount(&at);
        assert!(mounts_below(&at).is_empty());
        let left = || std::fs::read_dir(&temporary).unwrap().count();
        // The process that serves goes last.
        for _ in 0..500 {
            if left() == 0 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(left(), 0, "changes are left over");
    }
}

#[test]
fn changes_go_where_they_are_wanted() {
    let made = Made::new();
    let (out, at) = (made.scratch.join("out"), made.scratch.dir("mount"));
    ok(words!["convert", "-q", made.source(), out, "t"]);
    let upper = made.scratch.dir("changes/upper");
    ok(words!["mount", "--upper", upper, out, "t", at]);
    shell(&at, "echo x >etc/new");
    unmount(&at);
    assert_eq!(std::fs::read_to_string(upper.join("etc/new")).unwrap(), "x\n");

    let kept = made.scratch.join("kept");
    ok(words!["mount", "--persist", kept, out, "t", at]);
    shell(&at, "echo y >etc/new; rm etc/keep");
    unmount(&at);
    ok(words!["mount", "--persist", kept, out, "t", at]);
    assert_eq!(shell(&at, "cat etc/new; ls etc"), "y\nlink\nmotd\nnew\nold\n");
    unmount(&at);

    ok(words!["convert", "-q", made.scratch.join("base.tar"), out, "other"]);
    let parts = ["kept", "holds changes to image sha256:", "another directory"];
    refuse(words!["mount", "--persist", kept, out, "other", at], &parts);
    assert!(!is_mounted(&at));
    ok(words!["mount", "--persist", kept, out, "t", at]);
    unmount(&at);
}

#[test]
fn an_idle_mount_ends_by_itself() {
    let made = Made::new();
    let (out, at) = (made.scratch.join("out"), made.scratch.dir("mount"));
    ok(words!["convert", "-q", made.source(), out, "t"]);
    let words = words!["mount", "-f", "--timeout", "1", out, "t", at];
    let (byte, server) = Server::with_pipe(&made.scratch, words);
    assert_eq!(byte, b's');
    assert!(server.wait().success());
    assert!(!is_mounted(&at));
}

#[test]
fn what_overlayfs_would_obey_is_not_mounted_writable() {
    let made = Made::new();
    let scratch = &made.scratch;
    shell(
        scratch.path(),
        "mkdir -p device/sub xattr/d; mknod device/sub/zero c 0 0
        setfattr -n trusted.overlay.opaque -v y xattr/d
        tar --format=posix -C device -cf device.tar .; tar --format=posix --xattrs --xattrs-include='*' -C xattr -cf xattr.tar .",
    );
    let (out, at) = (scratch.join("out"), scratch.dir("mount"));
    let cases = [
        ("device", "\"sub/zero\" is a character device 0:0"),
        ("xattr", "\"trusted.overlay.opaque\""),
    ];
    for (name, part) in cases {
        ok(words!["convert", "-q", scratch.join(&format!("{name}.tar")), out, name]);
        refuse(words!["mount", "-w", out, name, at], &[part, "cannot be mounted writable"]);
        assert!(!is_mounted(&at));
        // Read-only it shows as it is.
        ok(words!["mount", out, name, at]);
        assert_same(&scratch.join(name), &at);
        unmount(&at);
    }
}

#[test]
fn an_image_of_umoci_unpacks_as_umoci_unpacks_it() {
    let scratch = Scratch::new();
    shell(
        scratch.path(),
        "umask 022
        umoci init --layout oci; umoci new --image oci:t
        umoci unpack --image oci:t b1 2>/dev/null; cd b1/rootfs
        mkdir -p bin etc/a/b usr/lib tmp; chmod 1777 tmp; seq 200000 >bin/tool
        ln bin/tool usr/lib/tool; for name in sh ls; do ln -s tool bin/$name; done
        ln -s usr/lib lib; echo one >etc/a/b/file; echo two >etc/replaced; mkfifo etc/pipe
        mknod etc/null c 1 3; chown 5:6 etc/replaced; setfattr -n user.k -v v bin/tool
        touch -d '2001-02-03 04:05:06.789' etc/a
        cd ../..; umoci repack --image oci:t b1 2>/dev/null
        umoci unpack --image oci:t b2 2>/dev/null; cd b2/rootfs
        rm -r etc/a/b bin/ls; rm etc/replaced; mkdir etc/replaced; echo x >etc/replaced/x
        rm bin/sh; cp bin/tool bin/sh; ln bin/sh bin/new; chmod 700 usr; echo lib >usr/lib/lib
        cd ../..; umoci repack --image oci:t b2 2>/dev/null
        umoci unpack --image oci:t wanted 2>/dev/null",
    );
    let (out, tree) = (scratch.join("out"), scratch.join("tree"));
    let said = ok(words!["convert", named(&scratch.join("oci"), "t"), out, "t"]);
    assert!(said.contains("2 layers"), "{said}");
    ok(words!["check", out, "t"]);
    ok(words!["extract", "-q", out, "t", tree]);
    assert_same(&scratch.join("wanted/rootfs"), &tree);
    let at = scratch.dir("mount");
    ok(words!["mount", out, "t", at]);
    assert_same(&tree, &at);
    unmount(&at);
}
