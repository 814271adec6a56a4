//! Layers, config and manifest of what is given back.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::image::Image;
use crate::support::program::{ok, refuse, succeed, tool};
use crate::support::same::{assert_same, assert_same_but};
use crate::support::scratch::Scratch;
use crate::support::tars::{
    config, digest, layer_files, manifest, named, read_json, shell, two_layers, write_image,
};
use crate::{but_holes, dump, extract, two, umoci, words};

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
    for (codec, suffix) in [
        ("none", ""),
        ("gzip", "+gzip"),
        ("gzip:9", "+gzip"),
        ("zstd", "+zstd"),
        ("zstd:22", "+zstd"),
    ] {
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
                "+zstd" => {
                    "/usr/bin/python3 -c 'import sys, zstandard as z
z.ZstdDecompressor().copy_stream(sys.stdin.buffer, sys.stdout.buffer)'"
                }
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
    let wanted =
        json!([{ "created": "2021-02-03T04:05:06Z", "created_by": "microfs export --squash" }]);
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
    write_image(&source, "t", &[], json!({}), json!({}));
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
