//! From a name to manifest, config and layers, in layouts as others make them.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use microfs_oci::verified::parse_digest;
use microfs_oci::{Compression, Image, LayerKind, OciError, PlatformRequest, Selector};
use serde_json::{Value, json};
use support::{Handmade, OCI_CONFIG, OCI_MANIFEST, index_of, on, tagged};

fn tag(text: &str) -> Selector {
    Selector::Tag(text.into())
}

fn want(platform: &str) -> PlatformRequest {
    PlatformRequest::Exact(platform.parse().unwrap())
}

fn resolve(made: &Handmade, name: &str, platform: &PlatformRequest) -> Result<Image, OciError> {
    made.open().resolve(&tag(name), platform)
}

fn manifest_of(descriptor: &Value) -> &str {
    descriptor["digest"].as_str().unwrap()
}

#[track_caller]
fn finds(made: &Handmade, name: &str, platform: &PlatformRequest, expected: &Value) {
    let image = resolve(made, name, platform).unwrap();
    assert_eq!(image.manifest.digest.to_string(), manifest_of(expected));
}

#[test]
fn gives_everything_an_image_says() {
    let made = Handmade::new();
    let mut layer =
        made.described("application/vnd.oci.image.layer.v1.tar+gzip", b"not really gzip");
    layer["annotations"] = json!({"k": "v"});
    let config = json!({
        "created": "2020-01-01T00:00:00Z", "os": "linux", "architecture": "arm", "variant": "v7",
        "config": {
            "Env": ["A=1"], "Cmd": ["sh"], "Entrypoint": null, "User": "u", "WorkingDir": "/w",
            "Labels": {"l": "m"}, "ExposedPorts": {"80/tcp": {}}, "Volumes": null, "OnBuild": null,
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", "0".repeat(64))]},
        "history": [{"created_by": "x", "empty_layer": true}],
    });
    let config = made.json(OCI_CONFIG, &config);
    let manifest = made.json(OCI_MANIFEST, &json!({
        "schemaVersion": 2, "config": config, "layers": [layer], "annotations": {"a": "b"}, "unknown": 1,
    }));
    made.index(&[tagged(manifest.clone(), "t")]);
    let image = resolve(&made, "t", &PlatformRequest::Host).unwrap();
    assert_eq!(image.tag(), Some("t"));
    assert_eq!(image.manifest.digest.to_string(), manifest_of(&manifest));
    assert_eq!(image.annotations["a"], "b");
    assert_eq!(image.platform.to_string(), "linux/arm/v7");
    assert_eq!(image.created.as_deref(), Some("2020-01-01T00:00:00Z"));
    assert_eq!(image.layers_size(), 15);
    assert_eq!(image.layers[0].descriptor.annotations["k"], "v");
    let gzip = LayerKind::Tar { compression: Compression::Gzip, distributable: true };
    assert_eq!(image.layers[0].kind, gzip);
    let options = image.options().unwrap();
    assert_eq!((options.env, options.cmd), (vec!["A=1".to_owned()], Some(vec!["sh".to_owned()])));
    assert_eq!((options.entrypoint, options.user.as_deref()), (None, Some("u")));
    assert!(options.exposed_ports.contains("80/tcp") && options.volumes.is_empty());
    assert_eq!(image.configuration().unwrap().history().as_ref().unwrap().len(), 1);
    let (_, files) = made.open().resolve_and_open(&tag("t"), &PlatformRequest::Host).unwrap();
    assert_eq!(files.len(), 1);
}

#[test]
fn an_image_without_layers_is_an_image() {
    for diff_ids in [json!([]), json!(null)] {
        let made = Handmade::new();
        let config = json!({"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": diff_ids}});
        let config = made.json(OCI_CONFIG, &config);
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": null});
        made.index(&[tagged(made.json(OCI_MANIFEST, &manifest), "t")]);
        let image = resolve(&made, "t", &PlatformRequest::Host).unwrap();
        assert!(image.layers.is_empty());
        image.configuration().unwrap();
    }
}

#[test]
fn missing_tags_list_those_there_are() {
    let made = Handmade::new();
    let (a, b) = (made.image("linux", "amd64", b"a"), made.image("linux", "amd64", b"b"));
    made.index(&[tagged(a.clone(), "one"), b.clone(), tagged(a, "two\u{1b}[1m")]);
    let names = ["one".to_owned(), format!("@{}", manifest_of(&b)), "two\u{1b}[1m".to_owned()];
    let error = resolve(&made, "latest", &PlatformRequest::Host).unwrap_err();
    assert!(
        matches!(&error, OciError::TagNotFound { available, .. } if *available == names),
        "{error}"
    );
    assert!(!error.to_string().contains('\u{1b}'), "control characters reach the terminal");
    let error = made.open().resolve(&Selector::Only, &PlatformRequest::Host).unwrap_err();
    assert!(
        matches!(&error, OciError::TagRequired { available, .. } if *available == names),
        "{error}"
    );
}

#[test]
fn without_a_tag_the_only_image_is_taken() {
    let made = Handmade::new();
    let image = made.image("linux", "amd64", b"a");
    let only = |entries: &[Value]| {
        made.index(entries);
        made.open().resolve(&Selector::Only, &PlatformRequest::Host)
    };
    for entries in [
        vec![image.clone()],
        vec![tagged(image.clone(), "t")],
        vec![tagged(image.clone(), "t"), tagged(image.clone(), "u"), image.clone()],
    ] {
        assert_eq!(only(&entries).unwrap().manifest.digest.to_string(), manifest_of(&image));
    }
    // But a tag that was asked for is never replaced by it.
    let error = resolve(&made, "other", &PlatformRequest::Host).unwrap_err();
    assert!(matches!(error, OciError::TagNotFound { .. }));
    let error = only(&[]).unwrap_err();
    assert!(matches!(error, OciError::TagRequired { available, .. } if available.is_empty()));
}

#[test]
fn one_tag_for_several_platforms_is_one_image() {
    let made = Handmade::new();
    let (a, b) = (made.image("linux", "amd64", b"a"), made.image("linux", "arm64", b"b"));
    made.index(&[
        tagged(on(a.clone(), "linux/amd64"), "t"),
        tagged(on(b.clone(), "linux/arm64"), "t"),
    ]);
    finds(&made, "t", &want("linux/amd64"), &a);
    finds(&made, "t", &want("linux/arm64"), &b);
    let only = made.open().resolve(&Selector::Only, &want("linux/arm64")).unwrap();
    assert_eq!(only.manifest.digest.to_string(), manifest_of(&b));
    // The platform may also be in the config only.
    made.index(&[tagged(a.clone(), "t"), tagged(b.clone(), "t")]);
    finds(&made, "t", &want("linux/arm64"), &b);
}

#[test]
fn one_tag_for_two_images_is_ambiguous() {
    let made = Handmade::new();
    let (a, b) = (made.image("linux", "amd64", b"a"), made.image("linux", "amd64", b"b"));
    for (a, b) in [
        (a.clone(), b.clone()),
        (on(a.clone(), "linux/amd64"), on(b.clone(), "linux/amd64")),
        (on(a.clone(), "linux/amd64"), b.clone()),
    ] {
        made.index(&[tagged(a, "t"), tagged(b, "t")]);
        let error = resolve(&made, "t", &want("linux/amd64")).unwrap_err();
        assert!(
            matches!(&error, OciError::AmbiguousTag { matches, .. } if matches.len() == 2),
            "{error}"
        );
    }
    made.index(&[tagged(a.clone(), "t"), tagged(a.clone(), "t")]);
    finds(&made, "t", &PlatformRequest::Host, &a);
}

#[test]
fn full_image_names_answer_to_their_parts() {
    let made = Handmade::new();
    let (a, b) = (made.image("linux", "amd64", b"a"), made.image("linux", "amd64", b"b"));
    let mut named = tagged(b.clone(), "v2");
    named["annotations"]["io.containerd.image.name"] = json!("docker.io/library/y:v2");
    made.index(&[tagged(a.clone(), "docker.io/library/x:v1"), named]);
    for name in ["docker.io/library/x:v1", "library/x:v1", "x:v1", "v1"] {
        finds(&made, name, &PlatformRequest::Host, &a);
    }
    for name in ["docker.io/library/y:v2", "y:v2", "v2"] {
        finds(&made, name, &PlatformRequest::Host, &b);
    }
    for name in ["x", "1", "brary/x:v1", "library/x", "docker.io", ""] {
        let error = resolve(&made, name, &PlatformRequest::Host).unwrap_err();
        assert!(matches!(error, OciError::TagNotFound { .. }), "{name}: {error}");
    }
    // The exact tag wins; two that are equally short are ambiguous.
    made.index(&[tagged(a.clone(), "r/x:v1"), tagged(b.clone(), "v1")]);
    finds(&made, "v1", &PlatformRequest::Host, &b);
    made.index(&[tagged(a, "r/x:v1"), tagged(b, "r/y:v1")]);
    let error = resolve(&made, "v1", &PlatformRequest::Host).unwrap_err();
    assert!(matches!(error, OciError::AmbiguousTag { .. }), "{error}");
}

#[test]
fn nested_indexes_are_followed_by_platform() {
    let made = Handmade::new();
    let images: Vec<Value> = ["ppc64le", "arm64", "amd64", "s390x"]
        .iter()
        .map(|arch| on(made.image("linux", arch, arch.as_bytes()), &format!("linux/{arch}")))
        .collect();
    let mut attestation = on(made.image("unknown", "unknown", b"att"), "unknown/unknown");
    attestation["annotations"] = json!({"vnd.docker.reference.type": "attestation-manifest"});
    let first = index_of(&made, &[attestation, images[0].clone(), images[1].clone()]);
    let second = index_of(&made, &images[2..]);
    made.index(&[tagged(index_of(&made, &[first.clone(), second]), "t")]);
    for image in &images {
        let arch = image["platform"]["architecture"].as_str().unwrap();
        finds(&made, "t", &want(&format!("linux/{arch}")), image);
        // And by the digest of a nested manifest.
        let digest = parse_digest(manifest_of(image)).unwrap();
        let found = made.open().resolve(&Selector::Digest(digest), &PlatformRequest::Host).unwrap();
        assert_eq!(found.manifest.digest.to_string(), manifest_of(image));
    }
    let error = resolve(&made, "t", &want("linux/riscv64")).unwrap_err();
    assert!(
        matches!(&error, OciError::NoSuchPlatform { available, .. } if available.len() == 4),
        "{error}"
    );
    let nowhere = parse_digest(&format!("sha256:{}", "0".repeat(64))).unwrap();
    let error =
        made.open().resolve(&Selector::Digest(nowhere), &PlatformRequest::Host).unwrap_err();
    assert!(matches!(error, OciError::DigestNotFound { .. }));
    // Sparse: the host's image is there, the others' are not.
    fs::remove_file(support::blob_path(
        made.path(),
        &parse_digest(manifest_of(&images[0])).unwrap(),
    ))
    .unwrap();
    finds(&made, "t", &want("linux/amd64"), &images[2]);
}

#[test]
fn an_index_without_a_fitting_manifest_says_so() {
    let made = Handmade::new();
    made.index(&[tagged(index_of(&made, &[]), "t")]);
    let error = resolve(&made, "t", &PlatformRequest::Host).unwrap_err();
    assert!(matches!(&error, OciError::NoSuchPlatform { available, .. } if available.is_empty()));
    let alien = made.image("plan9", "mips", b"x");
    made.index(&[
        tagged(index_of(&made, std::slice::from_ref(&alien)), "t"),
        tagged(alien.clone(), "direct"),
    ]);
    let error = resolve(&made, "t", &PlatformRequest::Host).unwrap_err();
    assert!(matches!(error, OciError::NoSuchPlatform { .. }), "platform comes from the config");
    // Where nothing was asked and there is nothing to choose, it is taken.
    finds(&made, "direct", &PlatformRequest::Host, &alien);
    let error = resolve(&made, "direct", &want("linux/amd64")).unwrap_err();
    assert!(matches!(error, OciError::NoSuchPlatform { .. }));
}

#[test]
fn the_first_of_equal_manifests_in_an_index_is_taken() {
    let made = Handmade::new();
    let (a, b) = (made.image("linux", "arm", b"a"), made.image("linux", "arm", b"b"));
    let c = on(made.image("linux", "arm", b"c"), "linux/arm/v6");
    let list = [c.clone(), on(a.clone(), "linux/arm/v7"), on(b, "linux/arm")];
    made.index(&[tagged(index_of(&made, &list), "t")]);
    finds(&made, "t", &want("linux/arm/v7"), &a);
    finds(&made, "t", &want("linux/arm"), &a);
    finds(&made, "t", &want("linux/arm/v6"), &c);
    let error = resolve(&made, "t", &want("linux/arm/v5")).unwrap_err();
    assert!(matches!(error, OciError::NoSuchPlatform { .. }));
}

#[test]
fn docker_schema_2_documents_are_images() {
    let made = Handmade::new();
    let layer = made.described("application/vnd.docker.image.rootfs.diff.tar.gzip", b"x");
    let config = json!({"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}});
    let config = made.json("application/vnd.docker.container.image.v1+json", &config);
    let media_type = "application/vnd.docker.distribution.manifest.v2+json";
    let manifest =
        json!({"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer]});
    let manifest = made.json(media_type, &manifest);
    let list = "application/vnd.docker.distribution.manifest.list.v2+json";
    let list = made.json(list, &json!({"schemaVersion": 2, "mediaType": list, "manifests": [on(manifest.clone(), "linux/amd64")]}));
    made.index(&[tagged(manifest.clone(), "m"), tagged(list, "l")]);
    finds(&made, "m", &PlatformRequest::Host, &manifest);
    finds(&made, "l", &want("linux/amd64"), &manifest);
}

#[test]
fn a_descriptor_without_media_type_is_known_by_its_content() {
    let made = Handmade::new();
    let image = made.image("linux", "amd64", b"x");
    let mut bare = image.clone();
    bare.as_object_mut().unwrap().remove("mediaType");
    let mut index = index_of(&made, &[on(bare.clone(), "linux/amd64")]);
    index["mediaType"] = json!(null);
    made.index(&[tagged(bare, "m"), tagged(index, "i")]);
    finds(&made, "m", &PlatformRequest::Host, &image);
    finds(&made, "i", &want("linux/amd64"), &image);
}
