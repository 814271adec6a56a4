//! Layouts that are wrong, hostile or too large.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use microfs_oci::{Image, Layout, Limits, OciError, PlatformRequest, Selector};
use serde_json::{Value, json};
use support::{Handmade, OCI_CONFIG, OCI_INDEX, OCI_MANIFEST, index_of, on, tagged};

fn tag(text: &str) -> Selector {
    Selector::Tag(text.into())
}

fn want(platform: &str) -> PlatformRequest {
    PlatformRequest::Exact(platform.parse().unwrap())
}

fn resolve(made: &Handmade, name: &str, platform: &PlatformRequest) -> Result<Image, OciError> {
    made.open().resolve(&tag(name), platform)
}

#[test]
fn what_is_no_image_is_refused() {
    let made = Handmade::new();
    let empty = made.described("application/vnd.oci.empty.v1+json", b"{}");
    let artifact = json!({
        "schemaVersion": 2, "mediaType": OCI_MANIFEST, "artifactType": "application/x", "config": empty,
        "layers": [made.described("application/x", b"payload")],
    });
    made.index(&[
        tagged(made.json(OCI_MANIFEST, &artifact), "artifact"),
        tagged(made.described("text/plain", b"hello"), "text"),
    ]);
    for name in ["artifact", "text"] {
        let error = resolve(&made, name, &PlatformRequest::Host).unwrap_err();
        assert!(matches!(error, OciError::NotAnImage { .. }), "{name}: {error}");
    }
}

#[test]
fn documents_that_could_be_two_things_are_refused() {
    let made = Handmade::new();
    let image = made.image("linux", "amd64", b"x");
    let both = json!({"schemaVersion": 2, "config": image, "layers": [], "manifests": []});
    let lying = json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "config": image, "layers": []});
    let index = json!({"schemaVersion": 2, "manifests": []});
    let neither = json!({"schemaVersion": 2});
    let old = json!({"schemaVersion": 1, "config": image, "layers": []});
    made.index(&[
        tagged(made.json(OCI_MANIFEST, &both), "both"),
        tagged(made.json(OCI_MANIFEST, &lying), "lying"),
        tagged(made.json(OCI_MANIFEST, &index), "index"),
        tagged(made.json("", &neither), "neither"),
        tagged(made.json(OCI_MANIFEST, &old), "old"),
    ]);
    for name in ["both", "lying", "index"] {
        let error = resolve(&made, name, &PlatformRequest::Host).unwrap_err();
        assert!(matches!(error, OciError::TypeConflict { .. }), "{name}: {error}");
    }
    for name in ["neither", "old"] {
        let error = resolve(&made, name, &PlatformRequest::Host).unwrap_err();
        assert!(matches!(error, OciError::Malformed { .. }), "{name}: {error}");
    }
}

#[test]
fn layers_and_diff_ids_must_agree() {
    let made = Handmade::new();
    let ours = made.described(microfs_oci::media_type::MICROFS_LAYER, b"x");
    let with = |diff_ids: Value| {
        let config = json!({"os": "linux", "architecture": "amd64", "rootfs": {"type": "layers", "diff_ids": diff_ids}});
        let manifest =
            json!({"schemaVersion": 2, "config": made.json(OCI_CONFIG, &config), "layers": [ours]});
        made.index(&[tagged(made.json(OCI_MANIFEST, &manifest), "t")]);
        resolve(&made, "t", &PlatformRequest::Host)
    };
    with(json!([ours["digest"]])).unwrap();
    assert!(matches!(with(json!([])), Err(OciError::LayerCount { layers: 1, diff_ids: 0, .. })));
    let other = format!("sha256:{}", "0".repeat(64));
    assert!(matches!(with(json!([other])), Err(OciError::DiffIdMismatch { number: 0, .. })));
    assert!(matches!(with(json!(["x"])), Err(OciError::InvalidDigest { .. })));
    assert!(matches!(with(json!("x")), Err(OciError::Json { .. })));
}

#[test]
fn limits_hold() {
    let made = Handmade::new();
    let mut node = made.image("linux", "amd64", b"x");
    for _ in 0..3 {
        node = index_of(&made, &[node]);
    }
    made.index(&[tagged(node, "deep"), tagged(made.image("linux", "amd64", b"x"), "flat")]);
    let with = |limits: Limits, name: &str| {
        Layout::open_with(made.path(), limits).unwrap().resolve(&tag(name), &want("linux/amd64"))
    };
    let limits = Limits::default();
    with(limits, "deep").unwrap();
    let error = with(Limits { index_depth: 2, ..limits }, "deep").unwrap_err();
    assert!(matches!(error, OciError::IndexTooDeep { limit: 2, .. }), "{error}");
    let error = with(Limits { layers: 0, ..limits }, "flat").unwrap_err();
    assert!(matches!(error, OciError::TooManyLayers { layers: 1, limit: 0 }), "{error}");
    for limits in [Limits { manifest_bytes: 10, ..limits }, Limits { config_bytes: 10, ..limits }] {
        let error = with(limits, "flat").unwrap_err();
        assert!(matches!(error, OciError::TooLarge { limit: 10, .. }), "{error}");
    }
}

#[test]
fn an_index_that_repeats_another_many_times_is_read_once() {
    let made = Handmade::new();
    let mut node = on(made.image("linux", "amd64", b"x"), "linux/amd64");
    for _ in 0..7 {
        node = index_of(&made, &vec![node; 200]);
    }
    made.index(&[tagged(node, "t")]);
    resolve(&made, "t", &want("linux/amd64")).unwrap();
}

#[test]
fn altered_documents_are_found() {
    let made = Handmade::new();
    let image = made.image("linux", "amd64", b"x");
    made.index(&[tagged(image.clone(), "t")]);
    let resolved = resolve(&made, "t", &PlatformRequest::Host).unwrap();
    for digest in [&resolved.manifest.digest, &resolved.config.digest] {
        let path = support::blob_path(made.path(), digest);
        let good = fs::read(&path).unwrap();
        for place in [0, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[place] ^= 1;
            fs::write(&path, bad).unwrap();
            let error = resolve(&made, "t", &PlatformRequest::Host).unwrap_err();
            assert!(matches!(error, OciError::BlobDigest { .. }), "{error}");
        }
        fs::write(&path, &good[1..]).unwrap();
        let error = resolve(&made, "t", &PlatformRequest::Host).unwrap_err();
        assert!(matches!(error, OciError::BlobSize { .. }), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(resolve(&made, "t", &PlatformRequest::Host).unwrap_err().is_missing_blob());
        fs::write(&path, good).unwrap();
    }
    fs::remove_file(support::blob_path(made.path(), &resolved.layers[0].descriptor.digest))
        .unwrap();
    resolve(&made, "t", &PlatformRequest::Host).unwrap();
    let error = made.open().resolve_and_open(&tag("t"), &PlatformRequest::Host).unwrap_err();
    assert!(error.is_missing_blob());
}
