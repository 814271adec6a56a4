//! Images go back to ordinary tar layers, and come in again as they were.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use microfs::compare::CompareOptions;
use serde_json::{Value, json};
use support::content::Content;
use support::image::{Image, assert_nothing_written, damage};
use support::kinds::Kind;
use support::plan::{Meta, Plan, ROOT, What};
use support::program::{PROGRAM, fail, microfs, ok, output, refuse, succeed, texts, tool};
use support::same::{assert_same, assert_same_but};
use support::scratch::Scratch;
use support::seeds;
use support::tars::{config, digest, layer_files, manifest, named, read_json, shell, two_layers};

fn dump(layout: &Path, tag: &str) -> String {
    ok(words!["dump", layout, tag])
}

/// A tree of a kind, and an image of it under the tag `t`.
fn built(scratch: &Scratch, kind: Kind, seed: u64) -> (PathBuf, PathBuf) {
    let source = scratch.dir("source");
    kind.plan(seed).make(&source, None);
    // Names that a layer cannot have.
    shell(&source, "find . -depth -name '.wh.*' -exec rm -r {} +");
    let layout = scratch.join("layout");
    ok(words!["build", "-q", source, layout, "t"]);
    (source, layout)
}

#[test]
fn built_layers_come_back_byte_for_byte() {
    for seed in seeds() {
        for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Specials) {
            eprintln!("{kind:?}, seed {seed}");
            let scratch = Scratch::new();
            let (_, layout) = built(&scratch, kind, seed);
            let given = scratch.join("given");
            ok(words!["export", "-q", layout, "t", given]);
            ok(words!["convert", "-q", named(&given, "t"), layout, "again"]);
            assert_eq!(layer_files(&layout, "again"), layer_files(&layout, "t"));
        }
    }
}

#[test]
fn specials_come_back_but_for_sockets() {
    for seed in seeds() {
        let scratch = Scratch::new();
        let (_, layout) = built(&scratch, Kind::Specials, seed);
        let given = scratch.join("given");
        ok(words!["export", "-q", "--skip-sockets", layout, "t", given]);
        ok(words!["convert", "-q", named(&given, "t"), layout, "again"]);
        let mode = |line: &str| {
            let field = line.split(' ').nth(2).unwrap().trim_start_matches('@');
            u32::from_str_radix(field, 8).unwrap()
        };
        let before = dump(&layout, "t");
        let kept: Vec<&str> =
            before.lines().filter(|line| mode(line) & 0o170_000 != 0o140_000).collect();
        assert!(kept.len() > 20 && kept.len() < before.lines().count());
        assert_eq!(dump(&layout, "again").lines().collect::<Vec<_>>(), kept);
    }
}

/// Unpacks an archive as root with GNU tar.
#[track_caller]
fn untar(archive: &Path, into: &Path) {
    std::fs::create_dir(into).unwrap();
    let mut tar = tool("tar");
    tar.args(["--xattrs", "--xattrs-include=*", "--numeric-owner", "--same-owner", "-p", "-x"]);
    // It sets times far from now, but says so.
    tar.arg("--warning=no-timestamp").arg("-f").arg(archive).arg("-C").arg(into);
    let output = output(&mut tar);
    let (_, errors) = texts(&output);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
}

/// Trees of paths longer than the system takes, and of attributes that GNU
/// tar cannot name, are for others.
const FOR_TAR: [Kind; 8] = [
    Kind::Empty,
    Kind::OnlyDirectories,
    Kind::Links,
    Kind::Names,
    Kind::Sizes,
    Kind::ZeroFilled,
    Kind::Mixed,
    Kind::Sparse,
];

#[test]
fn gnu_tar_unpacks_the_archive() {
    for seed in seeds() {
        for kind in FOR_TAR {
            eprintln!("{kind:?}, seed {seed}");
            let scratch = Scratch::new();
            let (source, layout) = built(&scratch, kind, seed);
            let archive = scratch.join("archive.tar");
            assert_eq!(ok(words!["export", "-q", layout, "t", "--tar", archive]), "");
            let out = scratch.join("out");
            untar(&archive, &out);
            assert_same(&source, &out);
        }
    }
}

#[test]
fn umoci_unpacks_the_layers() {
    for seed in seeds() {
        for kind in [Kind::OnlyDirectories, Kind::Links, Kind::Names, Kind::Sizes, Kind::Mixed] {
            eprintln!("{kind:?}, seed {seed}");
            let scratch = Scratch::new();
            let (source, layout) = built(&scratch, kind, seed);
            let given = scratch.join("given");
            ok(words!["export", "-q", layout, "t", given]);
            assert_same(&source, &umoci(&scratch, &given, "t"));
        }
    }
}

/// The tree that umoci unpacks of an image.
#[track_caller]
fn umoci(scratch: &Scratch, layout: &Path, tag: &str) -> PathBuf {
    let bundle = scratch.join(&format!("bundle-{tag}"));
    succeed(tool("umoci").args(["unpack", "--image"]).arg(named(layout, tag)).arg(&bundle));
    bundle.join("rootfs")
}

fn extract(scratch: &Scratch, layout: &Path, tag: &str) -> PathBuf {
    let out = scratch.join(&format!("extracted-{tag}"));
    ok(words!["extract", "-q", "--strict", layout, tag, out]);
    out
}

/// An image of two layers, and a layout for what is given back.
fn two(scratch: &Scratch) -> (PathBuf, PathBuf) {
    (two_layers(scratch.path(), json!({}), json!({})), scratch.join("given"))
}

/// umoci writes the zeros of holes.
fn but_holes() -> CompareOptions {
    CompareOptions { holes: false, ..CompareOptions::default() }
}

#[test]
fn whiteouts_opaque_directories_and_links_below_come_back() {
    let scratch = Scratch::new();
    let (image, given) = two(&scratch);
    let merged = scratch.join("merged");
    assert_same(&merged, &extract(&scratch, &image, "t"));
    ok(words!["export", "-q", image, "t", given]);
    let files = layer_files(&given, "t");
    let list = |file: &Path| succeed(tool("tar").arg("-tzvf").arg(file));
    let names = |text: String| {
        let name = |line: &str| line.split_whitespace().skip(5).collect::<Vec<_>>().join(" ");
        text.lines().map(name).collect::<Vec<_>>()
    };
    let lower = names(list(&files[0]));
    assert_eq!(lower[..3], ["./", "bin/", "bin/same"]);
    assert!(lower.contains(&"bin/tool link to bin/same".to_owned()), "{lower:?}");
    let upper = [
        "etc/",
        "etc/before link to etc/changes",
        "etc/moved link to etc/moves",
        "bin/",
        "etc/changes",
        "etc/.wh.gone",
        "etc/motd",
        "etc/.wh.moves",
        "etc/old/",
        "etc/old/.wh..wh..opq",
        "etc/old/new",
        "keep/deep/g",
    ];
    assert_eq!(names(list(&files[1])), upper);

    // Engines agree with us, and so do we.
    assert_same_but(&merged, &umoci(&scratch, &given, "t"), &but_holes());
    ok(words!["convert", "-q", named(&given, "t"), image, "again"]);
    assert_eq!(dump(&image, "again"), dump(&image, "t"));
    assert_same(&merged, &extract(&scratch, &image, "again"));
    // Given back once more, each layer is the same archive.
    ok(words!["export", "-q", image, "again", given]);
    assert_eq!(layer_files(&given, "again"), files);
}

#[test]
fn skopeo_copies_what_is_given_back() {
    let scratch = Scratch::new();
    let (image, given) = two(&scratch);
    for (tag, options) in
        [("gzip", &["-c", "gzip:1"][..]), ("none", &["-c", "none"]), ("squash", &["--squash"])]
    {
        let mut words = words!["export", "-q", image, "t", given, tag];
        words.extend(options.iter().map(OsString::from));
        ok(words);
        let archive = scratch.join(&format!("{tag}.tar"));
        let mut skopeo = tool("skopeo");
        skopeo.args(["--insecure-policy", "copy", "-q"]);
        skopeo.arg(format!("oci:{}:{tag}", given.display()));
        succeed(skopeo.arg(format!("docker-archive:{}:example.test/{tag}:1", archive.display())));
        ok(words!["convert", "-q", archive, image, tag]);
        assert_eq!(dump(&image, tag), dump(&image, "t"), "{tag}");
    }
}

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
    assert!(succeed(tool("gzip").arg("-dc").arg(&packed).stdin(std::process::Stdio::null())).len() > 1000);
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

#[test]
fn damage_is_never_exported() {
    let scratch = Scratch::new();
    let image = Image::new(&scratch);
    damage(&image.layer(), 100_000);
    let given = scratch.join("given");
    for squash in [false, true] {
        let mut words = words!["export", image.layout, "t", given];
        words.extend(squash.then(|| "--squash".into()));
        refuse(words, &["cannot read \"large\"", "block"]);
        assert_nothing_written(&given);
    }
}

#[test]
fn a_file_of_the_longest_size_costs_nothing() {
    let scratch = Scratch::new();
    let mut plan = Plan::new(Meta::plain(0o755));
    let longest = i64::MAX as u64;
    plan.add(ROOT, b"longest", What::File(Content::hole(longest)), Meta::plain(0o644));
    let source = scratch.dir("source");
    plan.make(&source, None);
    let (layout, given) = (scratch.join("layout"), scratch.join("given"));
    ok(words!["build", "-q", source, layout, "t"]);
    ok(words!["export", "-q", "-c", "none", layout, "t", given]);
    let file = &layer_files(&given, "t")[0];
    assert!(std::fs::metadata(file).unwrap().len() < 10_000);
    let listed = succeed(tool("tar").arg("-tvf").arg(file));
    assert!(listed.contains(&format!(" {longest} ")), "{listed}");
    let out = scratch.join("out");
    untar(file, &out);
    assert_same(&source, &out);
}

/// A plan whose directory holds an object of this name.
fn with(name: &[u8], what: What) -> Plan {
    let mut plan = Plan::new(Meta::plain(0o755));
    let directory = plan.add(ROOT, b"d", What::Directory, Meta::plain(0o755));
    plan.add(directory, b"f", What::File(Content::text("f")), Meta::plain(0o644));
    let object = plan.add(directory, name, what, Meta::plain(0o644));
    plan.link(ROOT, [name, b"-again"].concat().as_slice(), object);
    plan
}

#[test]
fn names_of_whiteouts_are_refused() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    with(b".wh.f", What::File(Content::text("x"))).make(&source, None);
    let (layout, given) = (scratch.join("layout"), scratch.join("given"));
    ok(words!["build", "-q", source, layout, "t"]);
    let parts = ["layer 0 (sha256:", "\".wh.f-again\"", "whiteout"];
    refuse(words!["export", layout, "t", given], &parts);
    refuse(words!["export", "--squash", layout, "t", given], &parts[1..]);
    assert_nothing_written(&given);
    refuse(words!["export", layout, "t", "--tar", scratch.join("x.tar")], &parts[1..]);
}

#[test]
fn sockets_are_refused_or_left_out() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    with(b"s", What::Socket).make(&source, None);
    let (layout, given) = (scratch.join("layout"), scratch.join("given"));
    ok(words!["build", "-q", source, layout, "t"]);
    let parts = ["layer 0 (sha256:", "\"s-again\" is a socket", "--skip-sockets"];
    refuse(words!["export", layout, "t", given], &parts);
    assert_nothing_written(&given);
    let output = output(&mut microfs(words!["export", "-q", "--skip-sockets", layout, "t", given]));
    assert!(output.status.success());
    let said = "microfs: left out \"s-again\": it is a socket\nmicrofs: left out \"d/s\": it is a socket\n";
    assert_eq!(texts(&output), (String::new(), said.to_owned()));
    let words = words!["export", "--json", "--skip-sockets", layout, "t", given];
    let report: Value = serde_json::from_str(&ok(words)).unwrap();
    assert_eq!(report["skipped_sockets"], 2);
    assert_eq!(report["first_skipped_sockets"], json!(["s-again", "d/s"]));
    ok(words!["convert", "-q", named(&given, "t"), layout, "again"]);
    std::fs::remove_file(source.join("d/s")).unwrap();
    std::fs::remove_file(source.join("s-again")).unwrap();
    succeed(tool("touch").args(["-d", "@1700000000"]).arg(source.join("d")).arg(&source));
    assert_eq!(ok(words!["diff", layout, "again", source]), "");
}

/// Blobs and index of a layout.
fn files(layout: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let list = shell(layout, "find blobs index.json oci-layout -type f");
    let read = |name: &str| (PathBuf::from(name), std::fs::read(layout.join(name)).unwrap());
    list.lines().map(read).collect()
}

#[test]
fn threads_and_places_do_not_matter() {
    let scratch = Scratch::new();
    let (image, first) = two(&scratch);
    ok(words!["export", "-q", "-j", "1", image, "t", first]);
    let wanted = files(&first);
    // Index, header, two layers, config and manifest.
    assert_eq!(wanted.len(), 6);
    for threads in ["2", "7"] {
        let other = scratch.dir("far").join(threads);
        ok(words!["export", "-q", "--threads", threads, named(&image, "t"), other]);
        assert!(files(&other) == wanted, "{threads}");
    }
}

#[test]
fn digests_and_media_types_are_right() {
    let scratch = Scratch::new();
    let (image, given) = two(&scratch);
    let base = "application/vnd.oci.image.layer.v1.tar";
    for (codec, suffix) in
        [("none", ""), ("gzip", "+gzip"), ("gzip:9", "+gzip"), ("zstd", "+zstd"), ("zstd:22", "+zstd")]
    {
        let tag = codec.replace(':', "-");
        let words = words!["export", "--json", "-c", codec, image, "t", given, tag];
        let report: Value = serde_json::from_str(&ok(words)).unwrap();
        let manifest = manifest(&given, &tag);
        for (number, layer) in manifest["layers"].as_array().unwrap().iter().enumerate() {
            assert_eq!(layer["mediaType"], format!("{base}{suffix}"));
            assert!(layer.get("annotations").is_none(), "{layer}");
            assert_eq!(report["layers"][number]["layer"], layer["digest"]);
            let diff_id = &config(&given, &tag)["rootfs"]["diff_ids"][number];
            assert_eq!(&report["layers"][number]["diff_id"], diff_id);
            let file = &layer_files(&given, &tag)[number];
            assert_eq!(digest(file), layer["digest"].as_str().unwrap());
            let plain = scratch.join("plain");
            let unpack = match suffix {
                "+gzip" => "gzip -dc",
                "+zstd" => "/usr/bin/python3 -c 'import sys, zstandard as z
z.ZstdDecompressor().copy_stream(sys.stdin.buffer, sys.stdout.buffer)'",
                _ => "cat",
            };
            let command = format!("{unpack} <{} >{}", file.display(), plain.display());
            shell(scratch.path(), &command);
            assert_eq!(digest(&plain), diff_id.as_str().unwrap());
            let length = std::fs::metadata(&plain).unwrap().len();
            assert_eq!(report["layers"][number]["tar_bytes"], length);
        }
        // Conversion verifies all of that by itself.
        ok(words!["convert", "-q", named(&given, &tag), image, tag]);
        assert_eq!(dump(&image, &tag), dump(&image, "t"));
    }
}

const HISTORY: &str = r#"[{"created":"2020-01-01T00:00:00Z","created_by":"one"},
    {"created":"2020-01-01T00:00:01Z","created_by":"env","empty_layer":true},
    {"created":"2020-01-01T00:00:02Z","created_by":"two","comment":"c"}]"#;

#[test]
fn the_config_stays() {
    let scratch = Scratch::new();
    let history: Value = serde_json::from_str(HISTORY).unwrap();
    let more = json!({
        "created": "2021-02-03T04:05:06Z", "author": "somebody", "unknown": [1, null],
        "config": { "Cmd": ["/bin/tool"], "Env": ["A=b"], "Labels": { "k": "v" } },
        "history": history,
    });
    let annotations = json!({ "org.example.a": "1" });
    let image = two_layers(scratch.path(), more, annotations);
    let given = scratch.join("given");
    ok(words!["export", "-q", image, "t", given]);
    let (before, mut after) = (config(&image, "t"), config(&given, "t"));
    assert_ne!(after["rootfs"]["diff_ids"], before["rootfs"]["diff_ids"]);
    after["rootfs"] = before["rootfs"].clone();
    assert_eq!(after, before);
    // Of the manifest what is not about microfs.
    assert_eq!(manifest(&given, "t")["annotations"], json!({ "org.example.a": "1" }));
    assert!(manifest(&image, "t").to_string().contains("dev.microfs."));

    ok(words!["export", "-q", "--squash", image, "t", given, "one"]);
    let wanted = json!([{ "created": "2021-02-03T04:05:06Z", "created_by": "microfs export --squash" }]);
    let squashed = config(&given, "one");
    assert_eq!(squashed["history"], wanted);
    assert_eq!(squashed["config"], before["config"]);
    assert_eq!(squashed["rootfs"]["diff_ids"].as_array().unwrap().len(), 1);
    succeed(tool("umoci").args(["stat", "--image"]).arg(named(&given, "t")));
    succeed(tool("umoci").args(["stat", "--image"]).arg(named(&given, "one")));
}

#[test]
fn a_history_that_does_not_fit_is_replaced() {
    let scratch = Scratch::new();
    let more = json!({ "history": [{ "created_by": "one" }, { "created_by": "two" }, { "created_by": "three" }] });
    let image = two_layers(scratch.path(), more, json!({}));
    let given = scratch.join("given");
    ok(words!["export", "-q", image, "t", given]);
    let entry = json!({ "created": "1970-01-01T00:00:00Z", "created_by": "microfs export" });
    assert_eq!(config(&given, "t")["history"], json!([entry, entry]));
    succeed(tool("umoci").args(["stat", "--image"]).arg(named(&given, "t")));
}

#[test]
fn an_image_without_layers_comes_back() {
    let scratch = Scratch::new();
    let source = scratch.join("none");
    support::tars::write_image(&source, "t", &[], json!({}), json!({}));
    let (image, given) = (scratch.join("image"), scratch.join("given"));
    ok(words!["convert", "-q", named(&source, "t"), image, "t"]);
    ok(words!["export", "-q", image, "t", given]);
    assert_eq!(config(&given, "t")["rootfs"]["diff_ids"], json!([]));
    ok(words!["export", "-q", "--squash", image, "t", given, "one"]);
    assert_eq!(succeed(tool("tar").arg("-tzf").arg(&layer_files(&given, "one")[0])), "./\n");
}

#[test]
fn images_are_named_in_every_way() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let given = scratch.join("given");
    let by_digest = {
        let index = read_json(&layout.join("index.json"));
        format!("{}@{}", layout.display(), index["manifests"][0]["digest"].as_str().unwrap())
    };
    for (number, words) in [
        words!["export", layout, given],
        words!["export", layout, "t", given],
        words!["export", named(&layout, "t"), given, "t"],
        words!["export", named(&layout, "t"), named(&given, "t")],
        words!["export", layout, "t", given, "t"],
        words!["export", layout, "t", named(&given, "t")],
        words!["export", by_digest, given, "t"],
    ]
    .into_iter()
    .enumerate()
    {
        let said = ok(words);
        assert!(said.starts_with(&format!("{}:t\n", given.display())), "{number}: {said}");
        assert_eq!(ok(words!["images", given]).lines().count(), 1, "{number}");
        std::fs::remove_dir_all(&given).unwrap();
    }
    // Beside the microfs image, in its own layout, but not in its place.
    ok(words!["export", "-q", layout, "t", layout, "tar"]);
    refuse(words!["export", layout, "t", layout], &["is the image itself"]);
    refuse(words!["export", layout, "t", layout, "t"], &["is the image itself"]);
    ok(words!["check", "-q", layout, "t"]);
    refuse(words!["mount", layout, "tar", given], &["not a microfs layer"]);
    refuse(words!["export", layout, "tar", given], &["not a microfs layer"]);
    refuse(words!["export", layout, "no", given], &["no"]);
    assert!(!given.exists());
}

#[test]
fn wrong_command_lines_are_usage_errors() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let usage = |words: Vec<OsString>, part: &str| {
        let line = fail(&mut microfs(words), 2);
        assert!(line.contains(part), "{line}");
    };
    usage(words!["export", layout], "destination is missing");
    usage(words!["export", layout, "t", "-", "tag"], "no tag");
    usage(words!["export", "--json", layout, "t", "-"], "--json");
    for codec in ["gzip:0", "gzip:10", "zstd:23", "zstd:x", "bzip2", "none:1", ""] {
        let output = output(&mut microfs(words!["export", "-c", codec, layout, "t", "x"]));
        assert_eq!(output.status.code(), Some(2), "{codec}");
    }
}

/// A layer that refers to content of the layers below is a whole archive.
#[test]
fn layers_on_a_base_come_back() {
    let scratch = Scratch::new();
    let (layout, given) = (scratch.join("layout"), scratch.join("given"));
    let mut plan = Kind::Mixed.plan(1);
    for version in 0..4u64 {
        let source = scratch.dir(&format!("v{version}"));
        plan.make(&source, None);
        let tag = format!("v{version}");
        let mut words = words!["build", "-q", source, layout, tag];
        if version > 0 {
            words.extend(words!["--base", format!("v{}", version - 1)]);
        }
        ok(words);
        support::mutate::mutate(&mut plan, version + 1, 40);
    }
    let source = scratch.join("v3");
    assert_eq!(ok(words!["diff", layout, "v3", source]), "");
    ok(words!["export", "-q", layout, "v3", given]);
    assert_eq!(layer_files(&given, "v3").len(), 4);
    assert_same_but(&source, &umoci(&scratch, &given, "v3"), &but_holes());
    ok(words!["convert", "-q", named(&given, "v3"), layout, "again"]);
    assert_eq!(dump(&layout, "again"), dump(&layout, "v3"));
    let archive = scratch.join("v3.tar");
    ok(words!["export", "-q", layout, "v3", "--tar", archive]);
    let out = scratch.join("out");
    untar(&archive, &out);
    assert_same(&source, &out);
}

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

#[test]
fn a_full_disk_leaves_nothing() {
    let scratch = Scratch::new();
    let Image { layout, .. } = Image::new(&scratch);
    let small = scratch.dir("small");
    support::scratch::mount_tmpfs(&small, c"mode=0755,size=128k");
    let (given, file) = (small.join("given"), small.join("out.tar"));
    refuse(words!["export", "-c", "none", layout, "t", given], &["No space left"]);
    assert_nothing_written(&given);
    refuse(words!["export", layout, "t", "--tar", file], &["No space left"]);
    assert_eq!(shell(&small, "find . -type f -size +4k"), "");
    assert!(!file.exists());
    let full = File::options().write(true).open("/dev/full").unwrap();
    let line = fail(microfs(words!["export", layout, "t", "-"]).stdout(full), 1);
    assert!(line.contains("No space left"), "{line}");
}
