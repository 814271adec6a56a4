//! Every form a source may have is recognised, and one image read from it.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use microfs_oci::source::SourceKind;
use microfs_oci::{OciError, PlatformRequest, Selector, Source, SourceError, verified};
use serde_json::json;
use support::archive::{
    Item, Place, contents, docker_config, image_of, layer, source_error, tar, tar_folder,
};
use support::compress::{ALL, gzip, xz, zstd};
use support::{Handmade, OCI_TAR, tagged};

const OCI_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// A layout with one image of two layers, tagged `t` and `docker.io/library/x:v1`.
fn layout() -> Handmade {
    let made = Handmade::new();
    let (one, two) = (layer(b"one"), layer(b"two"));
    let image = image_of(&made, &[(OCI_TAR, &one, &one), (OCI_GZIP, &gzip(&two), &two)]);
    made.index(&[tagged(image.clone(), "t"), tagged(image, "docker.io/library/x:v1")]);
    made
}

fn both() -> Vec<Vec<u8>> {
    vec![layer(b"one"), layer(b"two")]
}

/// What the old `docker save` made, a repeated layer as a link.
fn legacy() -> Vec<u8> {
    let (one, two) = (layer(b"one"), layer(b"two"));
    let manifest = json!([{
        "Config": "abc.json", "RepoTags": ["x:latest", "y:v1"],
        "Layers": ["l1/layer.tar", "l2/layer.tar", "l3/layer.tar"],
    }]);
    tar(&[
        Item::Dir("l1/"),
        Item::File("l1/VERSION", b"1.0"),
        Item::File("l1/layer.tar", &one),
        Item::File("l2/layer.tar", &two),
        Item::Symlink("l3/layer.tar", "../l2/layer.tar"),
        Item::File("abc.json", &docker_config(&[&one, &two, &two])),
        Item::File("manifest.json", manifest.to_string().as_bytes()),
        Item::File("repositories", b"{}"),
    ])
}

#[test]
fn a_layout_folder() {
    let made = layout();
    let path = made.path().to_str().unwrap().to_owned();
    for name in ["", ":", ":t", ":x:v1", ":docker.io/library/x:v1"] {
        let source = Source::open(format!("{path}{name}").as_ref(), Path::new("/nowhere")).unwrap();
        assert_eq!(source.kind(), SourceKind::Layout);
        let image = source.image(&PlatformRequest::Host).unwrap();
        assert_eq!(contents(&image), both(), "{name}");
        assert_eq!(image.annotations["a"], "b");
        let resolved =
            made.open().resolve(&Selector::Tag("t".into()), &PlatformRequest::Host).unwrap();
        assert_eq!(image.manifest_digest, Some(resolved.manifest.digest));
        assert_eq!(image.config_json, Some(resolved.config_json));
        assert_eq!(image.platform.unwrap().to_string(), "linux/amd64");
        assert_eq!(image.layers[0].digest.as_ref(), Some(&resolved.layers[0].descriptor.digest));
    }
    let digest = made.open().index().unwrap().descriptors().next().unwrap().digest.clone();
    let text = format!("{path}@{digest}");
    let source = Source::open(text.as_ref(), Path::new("/nowhere")).unwrap();
    assert_eq!(contents(&source.image(&PlatformRequest::Host).unwrap()), both());
}

#[test]
fn a_layout_archive_in_every_dress() {
    let made = layout();
    let place = Place::new();
    for prefix in [".", ""] {
        let plain = tar_folder(made.path(), prefix);
        for (compression, pack) in ALL {
            place.put("image.tar", &pack(&plain));
            for name in ["image.tar", "image.tar:t", "image.tar:v1", "image.tar:library/x:v1"] {
                let source = place.open(name).unwrap();
                assert_eq!(source.kind(), SourceKind::LayoutArchive, "{compression}");
                let image = source.image(&PlatformRequest::Host).unwrap();
                assert_eq!(contents(&image), both());
                assert!(image.manifest_digest.is_some());
                assert!(image.tag.is_some());
            }
        }
    }
    // Nothing is left of what was unpacked.
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 1);
    let digest = made.open().index().unwrap().descriptors().next().unwrap().digest.clone();
    assert_eq!(contents(&place.image(&format!("image.tar@{digest}")).unwrap()), both());
    let error = place.image("image.tar:other").unwrap_err();
    assert!(matches!(&error, OciError::TagNotFound { available, .. } if available.len() == 2));
}

#[test]
fn a_docker_archive_of_the_old_form() {
    let place = Place::new();
    let two = layer(b"two");
    for (compression, pack) in ALL {
        place.put("save.tar", &pack(&legacy()));
        for name in ["save.tar", "save.tar:x:latest", "save.tar:x", "save.tar:docker.io/library/x"]
        {
            let source = place.open(name).unwrap();
            assert_eq!(source.kind(), SourceKind::DockerArchive, "{compression}");
            let image = source.image(&PlatformRequest::Host).unwrap();
            assert_eq!(contents(&image), [layer(b"one"), two.clone(), two.clone()]);
            assert_eq!(image.tag.as_deref(), Some("x:latest"), "{name}");
            assert_eq!(image.manifest_digest, None);
            assert_eq!(image.layers[2].name.to_string(), "layer 2 (l3/layer.tar)");
        }
    }
    assert_eq!(place.image("save.tar:v1").unwrap().tag.as_deref(), Some("y:v1"));
    let config = verified::sha256(&docker_config(&[&layer(b"one"), &two, &two])).unwrap();
    assert_eq!(place.image(&format!("save.tar@{config}")).unwrap().layers.len(), 3);
    assert!(matches!(place.image("save.tar:z").unwrap_err(), OciError::TagNotFound { .. }));
    let request = PlatformRequest::Exact("linux/arm64".parse().unwrap());
    let error = place.open("save.tar").unwrap().image(&request).unwrap_err();
    assert!(matches!(error, OciError::NoSuchPlatform { .. }), "{error}");
}

#[test]
fn a_docker_archive_that_was_unpacked() {
    let place = Place::new();
    let folder = place.dir.path().join("save");
    tar::Archive::new(&*legacy()).unpack(&folder).unwrap();
    let source = place.open("save:x").unwrap();
    assert_eq!(source.kind(), SourceKind::DockerFolder);
    let image = source.image(&PlatformRequest::Host).unwrap();
    assert_eq!(contents(&image), [layer(b"one"), layer(b"two"), layer(b"two")]);
    // Links do not lead out of the folder, not even in the middle of a name.
    place.put("outside/layer.tar", &layer(b"one"));
    for target in ["../outside", "/etc"] {
        fs::remove_dir_all(folder.join("l1"))
            .or_else(|_| fs::remove_file(folder.join("l1")))
            .unwrap();
        std::os::unix::fs::symlink(target, folder.join("l1")).unwrap();
        let error = source_error(place.image("save").unwrap_err());
        assert!(matches!(error, SourceError::MissingMember { .. }), "{error}");
    }
    fs::remove_file(folder.join("l1")).unwrap();
    std::os::unix::fs::symlink("l1", folder.join("l1")).unwrap();
    let error = source_error(place.image("save").unwrap_err());
    assert!(matches!(error, SourceError::TooManyLinks { .. }), "{error}");
}

#[test]
fn a_docker_archive_with_a_layout_inside() {
    let made = layout();
    let manifest = json!([{"Config": "x", "RepoTags": ["only/here:1"], "Layers": []}]);
    fs::write(made.path().join("manifest.json"), manifest.to_string()).unwrap();
    fs::write(made.path().join("x"), docker_config(&[])).unwrap();
    let place = Place::new();
    place.put("new.tar", &tar_folder(made.path(), ""));
    let source = place.open("new.tar:x:v1").unwrap();
    assert_eq!(source.kind(), SourceKind::LayoutArchive);
    assert_eq!(contents(&source.image(&PlatformRequest::Host).unwrap()), both());
    assert_eq!(place.image("new.tar:only/here:1").unwrap().layers.len(), 0);
    let error = place.image("new.tar:nowhere").unwrap_err();
    assert!(matches!(&error, OciError::TagNotFound { available, .. } if available[0] == "t"));
}

#[test]
fn layers_of_docker_archives_may_be_compressed_and_named_anyhow() {
    let (one, two) = (layer(b"one"), layer(b"two"));
    let config = docker_config(&[&one, &two]);
    let digest = verified::sha256(&config).unwrap();
    let blob = format!("blobs/sha256/{}", verified::sha256(&one).unwrap().digest());
    let manifest =
        json!([{"Config": digest.to_string(), "RepoTags": null, "Layers": [blob, "deep/er/two"]}]);
    let archive = tar(&[
        Item::File("./manifest.json", manifest.to_string().as_bytes()),
        Item::File(&format!("/{digest}"), &config),
        Item::File(&blob, &one),
        Item::File("deep/er/two", b"replaced by the next"),
        Item::File("deep//./er/two", &gzip(&two)),
    ]);
    let place = Place::new();
    place.put("a.tar", &archive);
    let image = place.image("a.tar").unwrap();
    assert_eq!(contents(&image), both());
    assert_eq!(image.tag, None);
    assert_eq!(image.layers[0].digest, Some(verified::sha256(&one).unwrap()));
    assert_eq!(image.layers[1].digest, None);
}

#[test]
fn hard_links_and_chains_of_links_inside_an_archive() {
    let one = layer(b"one");
    let manifest = json!([{"Config": "c", "Layers": ["a/layer.tar", "b/layer.tar", "hard"]}]);
    let place = Place::new();
    place.put(
        "a.tar",
        &tar(&[
            Item::File("manifest.json", manifest.to_string().as_bytes()),
            Item::File("c", &docker_config(&[&one, &one, &one])),
            Item::File("real/layer.tar", &one),
            Item::Symlink("a", "./b/../b"),
            Item::Symlink("b", "/real"),
            Item::HardLink("hard", "real/layer.tar"),
        ]),
    );
    assert_eq!(contents(&place.image("a.tar").unwrap()), [one.clone(), one.clone(), one]);
}

#[test]
fn anything_else_is_a_layer() {
    let place = Place::new();
    let web = tar(&[
        Item::Dir("./"),
        Item::File("./manifest.json", b" {\"name\": \"a web application\"}"),
        Item::File("./index.json", b"{}"),
        Item::Fifo("./pipe"),
    ]);
    for plain in [layer(b"x"), web, vec![0; 1024], b"no archive at all".to_vec()] {
        for (compression, pack) in ALL {
            place.put("layer.tar", &pack(&plain));
            let source = place.open("layer.tar").unwrap();
            assert_eq!(source.kind(), SourceKind::Layer);
            let request = PlatformRequest::Exact("linux/arm64".parse().unwrap());
            let image = source.image(&request).unwrap();
            assert_eq!(image.layers[0].open().unwrap().compression(), compression);
            assert_eq!(contents(&image), std::slice::from_ref(&plain));
            assert!(image.config_json.is_none() && image.platform.is_none());
            let error = place.image("layer.tar:t").unwrap_err();
            assert!(matches!(error, OciError::TagNotFound { .. }));
        }
    }
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 1);
}

#[test]
fn streams_are_read_once() {
    let place = Place::new();
    let spool = place.dir.path();
    for bytes in [legacy(), zstd(&legacy())] {
        let name = Path::new("a stream");
        let source = Source::from_stream(&*bytes, name, Selector::Tag("x".into()), spool).unwrap();
        assert_eq!(source.kind(), SourceKind::DockerArchive);
        assert_eq!(source.image(&PlatformRequest::Host).unwrap().layers.len(), 3);
    }
    let stream = xz(&layer(b"one"));
    let source = Source::from_stream(&*stream, Path::new("s"), Selector::Only, spool).unwrap();
    assert_eq!(contents(&source.image(&PlatformRequest::Host).unwrap()), [layer(b"one")]);
    let error = Source::from_stream(&b""[..], Path::new("s"), Selector::Only, spool).unwrap_err();
    assert!(matches!(source_error(error), SourceError::Empty { .. }));
    let nowhere = spool.join("nowhere");
    let error =
        Source::from_stream(&b"x"[..], Path::new("s"), Selector::Only, &nowhere).unwrap_err();
    assert!(matches!(error, OciError::Io { .. }), "{error}");
    assert_eq!(fs::read_dir(spool).unwrap().count(), 0);
}

#[test]
fn a_pipe_by_name() {
    let place = Place::new();
    let pipe = place.dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn(move || File::create(pipe).unwrap().write_all(&legacy()));
    assert_eq!(place.image("pipe:y:v1").unwrap().layers.len(), 3);
    writer.join().unwrap().unwrap();
}

/// Runs itself, so that standard input is a pipe or a file.
#[test]
fn standard_input() {
    if std::env::var_os("MICROFS_OCI_STDIN").is_some() {
        let spool = tempfile::tempdir().unwrap();
        let source = Source::open("-:x".as_ref(), spool.path()).unwrap();
        assert_eq!(source.image(&PlatformRequest::Host).unwrap().layers.len(), 3);
        return;
    }
    let place = Place::new();
    let file = place.put("save.tar", &legacy());
    for input in [Stdio::piped(), File::open(file).unwrap().into()] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "standard_input", "--nocapture"])
            .env("MICROFS_OCI_STDIN", "1")
            .stdin(input)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        if let Some(mut pipe) = child.stdin.take() {
            pipe.write_all(&legacy()).unwrap();
        }
        assert!(child.wait().unwrap().success());
    }
}
