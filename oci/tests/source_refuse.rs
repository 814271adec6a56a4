//! Sources that are wrong: what is said, and that it is said before a layer is
//! taken for right.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::fs;
use std::io::{self, Read};

use microfs_oci::decompress::{DecompressError, Fault};
use microfs_oci::{
    Compression, Limits, OciError, PlatformRequest, Source, SourceError, SourceImage, SourceLayer,
    VerifiedLayer, verified,
};
use serde_json::{Value, json};
use support::archive::{
    Item, Place, contents, docker_config, image_of, layer, source_error, tar, tar_folder,
};
use support::compress::{gzip, zstd};
use support::{Handmade, OCI_CONFIG, OCI_MANIFEST, OCI_TAR, tagged};

fn docker(config: &str, layers: &[&str], tags: &[&str]) -> Value {
    json!({"Config": config, "RepoTags": tags, "Layers": layers})
}

fn finish(layer: &SourceLayer) -> Result<VerifiedLayer, Box<SourceError>> {
    layer.open().and_then(|reader| reader.finish()).map_err(|error| Box::new(source_error(error)))
}

/// The only image of a layout in a folder and in an archive.
fn in_both(made: &Handmade) -> [Result<SourceImage, OciError>; 2] {
    let place = Place::new();
    place.put("a.tar", &tar_folder(made.path(), "."));
    let folder = Source::open(made.path().as_os_str(), place.dir.path());
    [folder.and_then(|folder| folder.image(&PlatformRequest::Host)), place.image("a.tar")]
}

#[test]
fn what_names_nothing_readable() {
    let place = Place::new();
    fs::create_dir(place.dir.path().join("folder")).unwrap();
    place.put("empty", b"");
    for name in ["folder", "folder:tag"] {
        let error = source_error(place.open(name).unwrap_err());
        assert!(matches!(&error, SourceError::NotASource { path } if path.ends_with("folder")));
    }
    assert!(matches!(source_error(place.open("empty").unwrap_err()), SourceError::Empty { .. }));
    let error = place.open("missing.tar:tag").unwrap_err();
    assert!(
        matches!(&error, OciError::Io { path, .. } if path.ends_with("missing.tar")),
        "{error}"
    );
    let error = Source::open("".as_ref(), place.dir.path()).unwrap_err();
    assert!(matches!(error, OciError::InvalidReference { .. }));
}

#[test]
fn several_images_need_a_tag() {
    let place = Place::new();
    let (a, b) = (layer(b"a"), layer(b"b"));
    let list = json!([
        docker("a.json", &["a.tar"], &["a:1", "both:1"]),
        docker("b.json", &["b.tar"], &["b:1", "both:1"]),
        docker("none.json", &[], &[]),
    ]);
    let members = [
        Item::File("a.json", &docker_config(&[&a])),
        Item::File("b.json", &docker_config(&[&b])),
        Item::File("a.tar", &a),
        Item::File("b.tar", &b),
    ];
    let mut items = vec![Item::File("manifest.json", b"")];
    let text = list.to_string();
    items[0] = Item::File("manifest.json", text.as_bytes());
    items.extend(members);
    place.put("s.tar", &tar(&items));
    let error = place.image("s.tar").unwrap_err();
    let OciError::TagRequired { available, .. } = &error else { panic!("{error}") };
    assert_eq!(available, &["a:1", "both:1", "b:1", "both:1", "none.json"]);
    assert_eq!(contents(&place.image("s.tar:b:1").unwrap()), [b]);
    for name in ["s.tar:both:1", "s.tar:docker.io/library/both:1", "s.tar:1"] {
        let error = place.image(name).unwrap_err();
        assert!(matches!(&error, OciError::AmbiguousTag { matches, .. } if matches.len() == 2));
    }
    let unknown = format!("s.tar@sha256:{}", "0".repeat(64));
    place.put("one.tar", &tar(&[Item::File("manifest.json", b"[]")]));
    let error = place.image("one.tar").unwrap_err();
    assert!(matches!(&error, OciError::TagRequired { available, .. } if available.is_empty()));
    let error = source_error(place.image(&unknown).unwrap_err());
    assert!(matches!(error, SourceError::MissingMember { .. }), "none.json: {error}");
}

#[test]
fn docker_archives_that_contradict_themselves() {
    let place = Place::new();
    let one = layer(b"one");
    let config = docker_config(&[&one]);
    let image = |entry: Value, config_name: &str, config: &[u8]| {
        let list = json!([entry]).to_string();
        place.put(
            "s.tar",
            &tar(&[
                Item::File("manifest.json", list.as_bytes()),
                Item::File(config_name, config),
                Item::File("one.tar", &one),
                Item::Fifo("pipe.tar"),
            ]),
        );
        place.image("s.tar")
    };
    image(docker("c.json", &["one.tar"], &[]), "c.json", &config).unwrap();
    let error =
        image(docker("c.json", &["one.tar", "one.tar"], &[]), "c.json", &config).unwrap_err();
    assert!(matches!(error, OciError::LayerCount { layers: 2, diff_ids: 1, .. }), "{error}");
    let error = image(docker("c.json", &["other.tar"], &[]), "c.json", &config).unwrap_err();
    assert!(error.to_string().ends_with("s.tar has no member \"other.tar\""), "{error}");
    let error = image(docker("c.json", &["../../etc/passwd"], &[]), "c.json", &config).unwrap_err();
    assert!(matches!(source_error(error), SourceError::MissingMember { .. }));
    let error = image(docker("c.json", &["pipe.tar"], &[]), "c.json", &config).unwrap_err();
    assert!(matches!(error, OciError::WrongType { .. }), "{error}");
    let error = image(docker("c.json", &["one.tar"], &[]), "c.json", b"{}").unwrap_err();
    assert!(matches!(error, OciError::Malformed { .. }), "{error}");
    let wrong = format!("{}.json", "0".repeat(64));
    let error = image(docker(&wrong, &["one.tar"], &[]), &wrong, &config).unwrap_err();
    assert!(matches!(error, OciError::BlobDigest { .. }), "{error}");
    let error = image(json!({"Layers": []}), "c.json", &config).unwrap_err();
    assert!(matches!(error, OciError::Json { .. }), "{error}");
    // The config names another layer than the one that is there.
    let other = docker_config(&[b"other"]);
    let taken = image(docker("c.json", &["one.tar"], &[]), "c.json", &other).unwrap();
    let error = *finish(&taken.layers[0]).unwrap_err();
    assert!(matches!(&error, SourceError::LayerDiffId { layer, .. } if layer.number == 0));
}

#[test]
fn layers_that_are_not_what_is_stated() {
    let (plain, other) = (layer(b"plain"), layer(b"other"));
    let packed = gzip(&plain);
    let one = |change: &dyn Fn(&Handmade, &mut Value)| {
        let made = Handmade::new();
        let manifest = image_of(&made, &[(OCI_TAR, &packed, &plain)]);
        let path = support::blob_path(
            made.path(),
            &verified::parse_digest(manifest["digest"].as_str().unwrap()).unwrap(),
        );
        let mut manifest: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        change(&made, &mut manifest);
        made.index(&[tagged(made.json(OCI_MANIFEST, &manifest), "t")]);
        in_both(&made)
    };
    let blob = verified::sha256(&packed).unwrap();
    for image in one(&|_, _| {}) {
        let verified = finish(&image.unwrap().layers[0]).unwrap();
        assert_eq!(verified.stored_digest, blob);
        assert_eq!(verified.compression, Compression::Gzip);
        assert_eq!(verified.stored_size, u64::try_from(packed.len()).unwrap());
    }
    // Another blob of the same size: its digest is the cause, whether or not it
    // can be decompressed.
    let mut noise = gzip(&other);
    noise.resize(packed.len(), 0);
    let mut broken = packed.clone();
    broken[20..].fill(0xff);
    for bad in [noise, broken] {
        for image in one(&|made, _| {
            fs::write(support::blob_path(made.path(), &blob), &bad).unwrap();
        }) {
            let mut reader = image.unwrap().layers[0].open().unwrap();
            let _ = io::copy(&mut reader, &mut io::sink());
            let error = source_error(reader.finish().unwrap_err());
            assert!(matches!(error, SourceError::LayerDigest { .. }), "{error}");
            assert!(error.to_string().starts_with("digest mismatch: layer 0 (sha256:"), "{error}");
        }
    }
    for image in one(&|_, manifest| manifest["layers"][0]["size"] = json!(packed.len() + 1)) {
        assert!(matches!(image.unwrap_err(), OciError::BlobSize { .. }));
    }
    for image in one(&|made, _| fs::remove_file(support::blob_path(made.path(), &blob)).unwrap()) {
        assert!(image.unwrap_err().is_missing_blob());
    }
    for image in one(&|_, manifest| manifest["layers"][0]["mediaType"] = json!("text/plain")) {
        let error = source_error(image.unwrap_err());
        assert!(matches!(error, SourceError::NotALayer { number: 0, .. }), "{error}");
        assert!(error.to_string().starts_with("not an image"), "{error}");
    }
    for image in one(&|made, manifest| {
        let config = json!({"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [verified::sha256(&other).unwrap().to_string()]}});
        manifest["config"] = made.json(OCI_CONFIG, &config);
    }) {
        let error = *finish(&image.unwrap().layers[0]).unwrap_err();
        assert!(matches!(error, SourceError::LayerDiffId { .. }), "{error}");
    }
    for image in one(&|made, manifest| {
        manifest["config"] = made.described("application/vnd.oci.empty.v1+json", b"{}");
    }) {
        assert!(matches!(image.unwrap_err(), OciError::NotAnImage { .. }));
    }
}

#[test]
fn a_layer_that_is_damaged_but_has_its_digest() {
    let plain = layer(b"plain");
    for packed in [gzip(&plain), zstd(&plain)] {
        for (bad, fault) in [
            (packed[..packed.len() - 1].to_vec(), Fault::Truncated),
            ([&packed[..], b"garbage"].concat(), Fault::TrailingData),
        ] {
            let made = Handmade::new();
            made.index(&[image_of(&made, &[(OCI_TAR, &bad, &plain)])]);
            for image in in_both(&made) {
                let SourceError::LayerRead { layer, source } =
                    *finish(&image.unwrap().layers[0]).unwrap_err()
                else {
                    panic!("not a failure of reading");
                };
                assert_eq!(layer.number, 0);
                assert_eq!(DecompressError::of(&source).unwrap().fault, fault);
            }
        }
    }
}

#[test]
fn trailing_bytes_are_part_of_a_layer() {
    let plain = [layer(b"x"), b"garbage behind the end".to_vec()].concat();
    let packed = [gzip(&plain), vec![0; 100]].concat();
    let made = Handmade::new();
    made.index(&[image_of(&made, &[(OCI_TAR, &packed, &plain), (OCI_TAR, &plain, &plain)])]);
    for image in in_both(&made) {
        for layer in image.unwrap().layers {
            let mut reader = layer.open().unwrap();
            reader.read_exact(&mut [0; 512]).unwrap();
            assert!(reader.stored_position() > 0);
            let verified = reader.finish().unwrap();
            assert_eq!(verified.uncompressed_size, u64::try_from(plain.len()).unwrap());
        }
    }
}

#[test]
fn an_archive_that_is_cut_is_never_taken_for_a_layer_or_an_image() {
    let made = Handmade::new();
    let plain = layer(b"content");
    made.index(&[image_of(&made, &[(OCI_TAR, &plain, &plain)])]);
    let layout = tar_folder(made.path(), ".");
    let hex = "0".repeat(64);
    let list = json!([docker("c.json", &[&format!("{hex}/layer.tar")], &[])]).to_string();
    let docker = tar(&[
        Item::Dir(&format!("{hex}/")),
        Item::File(&format!("{hex}/layer.tar"), &plain),
        Item::File("c.json", &docker_config(&[&plain])),
        Item::File("manifest.json", list.as_bytes()),
    ]);
    let place = Place::new();
    for archive in [layout, docker] {
        let end = archive.len() - 1024;
        let mut members = tar::Archive::new(&*archive);
        let last = members.entries().unwrap().last().unwrap().unwrap();
        let data_end = usize::try_from(last.raw_file_position() + last.size()).unwrap();
        for length in (1..end).step_by(64).chain([end - 512, data_end - 1, data_end]) {
            place.put("cut.tar", &archive[..length]);
            // A piece without a single whole member is still handed on, as a
            // layer that cannot be one.
            let Ok(image) = place.image("cut.tar") else { continue };
            if length >= data_end {
                // Only padding is missing.
                assert_eq!(contents(&image), std::slice::from_ref(&plain));
                continue;
            }
            assert!(image.config_json.is_none(), "an image of {length} bytes of {end}");
            assert_ne!(length % 512, 0, "a layer of whole members, {length} bytes");
            let read = image.layers[0].open().unwrap();
            let cut = tar::Archive::new(read).entries().unwrap().any(|entry| {
                entry.and_then(|mut entry| io::copy(&mut entry, &mut io::sink())).is_err()
            });
            assert!(cut || length < 512, "{length}");
        }
        place.put("whole.tar", &archive[..end]);
        assert_eq!(contents(&place.image("whole.tar").unwrap()), std::slice::from_ref(&plain));
        for length in [end / 2, end] {
            place.put("cut.tar.gz", &gzip(&archive[..length])[..]);
            let result = place.image("cut.tar.gz");
            assert_eq!(result.is_ok_and(|image| image.config_json.is_some()), length == end);
        }
        let packed = gzip(&archive);
        for length in (1..packed.len()).step_by(7) {
            place.put("cut.tar.gz", &packed[..length]);
            let Ok(image) = place.image("cut.tar.gz") else { continue };
            assert!(image.config_json.is_none(), "{length} of {}", packed.len());
            let error = *finish(&image.layers[0]).unwrap_err();
            assert!(matches!(error, SourceError::LayerRead { .. }), "{error}");
        }
    }
}

#[test]
fn limits_hold() {
    let place = Place::new();
    let one = layer(b"x");
    let list = json!([docker("c.json", &["1.tar"], &[])]).to_string();
    let path = place.put(
        "s.tar",
        &tar(&[
            Item::File("manifest.json", list.as_bytes()),
            Item::File("c.json", &docker_config(&[&one])),
            Item::File("1.tar", &one),
        ]),
    );
    let with = |limits| {
        Source::open_with(path.as_os_str(), place.dir.path(), limits)?.image(&PlatformRequest::Host)
    };
    let limits = Limits::default();
    with(Limits { archive_members: 3, ..limits }).unwrap();
    let error = source_error(with(Limits { archive_members: 2, ..limits }).unwrap_err());
    assert!(matches!(error, SourceError::TooManyMembers { limit: 2, .. }), "{error}");
    let error = with(Limits { layers: 0, ..limits }).unwrap_err();
    assert!(matches!(error, OciError::TooManyLayers { layers: 1, limit: 0 }));
    for limits in [Limits { config_bytes: 10, ..limits }, Limits { index_bytes: 10, ..limits }] {
        assert!(matches!(with(limits).unwrap_err(), OciError::TooLarge { limit: 10, .. }));
    }
    // A layer may have any number of members.
    let names: Vec<String> = (0..50).map(|number| format!("etc/{number}")).collect();
    let items: Vec<Item<'_>> = names.iter().map(|name| Item::File(name, b"")).collect();
    fs::write(&path, tar(&items)).unwrap();
    with(Limits { archive_members: 2, ..limits }).unwrap();
}

#[test]
fn layers_are_read_by_several_threads() {
    let layers: Vec<Vec<u8>> = (0_u8..4).map(|number| layer(&vec![number; 300_000])).collect();
    let packed: Vec<Vec<u8>> = layers.iter().map(|layer| gzip(layer)).collect();
    let made = Handmade::new();
    let list: Vec<(&str, &[u8], &[u8])> = packed
        .iter()
        .zip(&layers)
        .map(|(packed, plain)| (OCI_TAR, &packed[..], &plain[..]))
        .collect();
    made.index(&[image_of(&made, &list)]);
    for image in in_both(&made) {
        let image = image.unwrap();
        std::thread::scope(|scope| {
            for (layer, plain) in
                image.layers.iter().zip(&layers).chain(image.layers.iter().zip(&layers))
            {
                scope.spawn(move || {
                    let mut bytes = Vec::new();
                    let mut reader = layer.open().unwrap();
                    reader.read_to_end(&mut bytes).unwrap();
                    assert!(bytes == *plain);
                    reader.finish().unwrap();
                });
            }
        });
    }
}
