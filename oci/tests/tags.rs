//! Listing, tagging, untagging.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use microfs_oci::{OciError, media_type};
use serde_json::json;
use support::{Handmade, OCI_INDEX, add_image, new_layout, on, tagged};

#[test]
fn lists_images_and_what_is_wrong_with_them() {
    let made = Handmade::new();
    let good = made.image("linux", "amd64", b"good");
    let other = on(made.image("linux", "arm64", b"other"), "linux/arm64");
    let index = json!({"schemaVersion": 2, "manifests": [on(good.clone(), "linux/amd64"), other]});
    let index = made.json(OCI_INDEX, &index);
    let mut lost = good.clone();
    lost["digest"] = json!(format!("sha256:{}", "0".repeat(64)));
    let mut lost_index = index.clone();
    lost_index["digest"] = lost["digest"].clone();
    made.index(&[
        good.clone(),
        tagged(index, "multi"),
        tagged(lost, "lost"),
        tagged(lost_index, "lost2"),
    ]);
    let listed = made.open().list().unwrap();
    assert_eq!(listed.len(), 4);
    let platforms = |place: usize| -> Vec<String> {
        let manifests = listed[place].manifests.as_ref().unwrap();
        manifests.iter().map(|m| m.image.as_ref().unwrap().platform.to_string()).collect()
    };
    assert_eq!(listed[0].entry.tag(), None);
    assert_eq!(platforms(0), ["linux/amd64"]);
    assert_eq!(listed[1].entry.tag(), Some("multi"));
    assert_eq!(platforms(1), ["linux/amd64", "linux/arm64"]);
    let image = &listed[2].manifests.as_ref().unwrap()[0].image;
    assert!(image.as_ref().unwrap_err().is_missing_blob());
    assert!(listed[3].manifests.as_ref().unwrap_err().is_missing_blob());
}

#[test]
fn a_tag_is_copied_whole() {
    let made = Handmade::new();
    let (a, b) = (made.image("linux", "amd64", b"a"), made.image("linux", "arm64", b"b"));
    let mut first = tagged(on(a.clone(), "linux/amd64"), "old");
    first["annotations"]["io.containerd.image.name"] = json!("docker.io/library/x:old");
    first["annotations"]["other"] = json!("kept");
    first["unknown"] = json!([1, {"x": null}]);
    made.index(&[first.clone(), tagged(on(b, "linux/arm64"), "old"), tagged(a, "new")]);
    let layout = made.open();
    layout.tag("old", "new").unwrap();
    let read = || -> serde_json::Value {
        serde_json::from_slice(&fs::read(made.path().join("index.json")).unwrap()).unwrap()
    };
    let entries = read()["manifests"].as_array().unwrap().clone();
    assert_eq!(entries.len(), 4);
    assert_eq!(entries[0], first);
    assert_eq!(entries[2]["unknown"], first["unknown"]);
    assert_eq!(
        entries[2]["annotations"],
        json!({"other": "kept", "org.opencontainers.image.ref.name": "new"})
    );
    layout.tag("old", "old").unwrap();
    assert_eq!(read()["manifests"].as_array().unwrap(), &entries);
    layout.untag("old").unwrap();
    assert_eq!(layout.index().unwrap().names(), ["new"]);
    for error in [layout.untag("old").unwrap_err(), layout.tag("old", "x").unwrap_err()] {
        assert!(
            matches!(&error, OciError::TagNotFound { available, .. } if available == &["new"]),
            "{error}"
        );
    }
    assert!(matches!(layout.tag("new", "a b"), Err(OciError::InvalidTag { .. })));
}

#[test]
fn layers_are_found_by_their_annotations() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let layer = add_image(&session, "plain", b"plain");
    let marked = layer.annotate(media_type::SOURCE_LAYER_DIGEST, "sha256:abc");
    let spec = microfs_oci::ImageSpec {
        layers: vec![marked.clone()],
        platform: Some(microfs_oci::Platform::host()),
        ..Default::default()
    };
    let image = session.assemble(&spec).unwrap();
    session.publish("marked", &image.manifest).unwrap();
    let key = media_type::SOURCE_LAYER_DIGEST;
    let found =
        layout.find_layers(|layer| layer.descriptor.annotation(key) == Some("sha256:abc")).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].descriptor, marked.descriptor);
    assert!(session.reuse(&found[0].descriptor.digest, found[0].descriptor.size).unwrap());
}

#[test]
fn a_broken_entry_is_named_and_can_be_replaced_or_removed() {
    for (field, value) in [
        ("size", json!(-1)),
        ("size", json!(null)),
        ("digest", json!("sha256:1234")),
        ("annotations", json!({"org.opencontainers.image.ref.name": "bad", "x": 1})),
        ("platform", json!(7)),
    ] {
        let made = Handmade::new();
        let mut bad = tagged(made.image("linux", "amd64", b"bad"), "bad");
        let digest = bad["digest"].as_str().unwrap().to_owned();
        bad[field] = value;
        let good = tagged(made.image("linux", "amd64", b"good"), "good");
        let entries = [good, bad];
        made.index(&entries);
        let layout = made.open();
        let is_it = |error: &OciError| matches!(error, OciError::BrokenEntry { place: 1, tag: Some(tag), field: Some(found), .. } if tag == "bad" && *found == field);
        let resolve = |selector| layout.resolve(&selector, &microfs_oci::PlatformRequest::Host);
        let tag = |name: &str| microfs_oci::Selector::Tag(name.into());
        assert!(resolve(tag("good")).is_ok());
        let error = resolve(tag("bad")).unwrap_err();
        assert!(is_it(&error), "{error}");
        assert!(is_it(&resolve(microfs_oci::Selector::Only).unwrap_err()));
        if field != "digest" {
            let digest = microfs_oci::verified::parse_digest(&digest).unwrap();
            assert!(is_it(&resolve(microfs_oci::Selector::Digest(digest)).unwrap_err()));
        }
        assert!(is_it(&layout.tag("bad", "x").unwrap_err()));
        let OciError::UnsafeToCollect { source, .. } =
            layout.gc(&microfs_oci::GcOptions::default()).unwrap_err()
        else {
            unreachable!()
        };
        assert!(is_it(&source), "{source}");
        assert!(source.to_string().contains("untag"), "{source}");
        assert_eq!(layout.index().unwrap().broken().len(), 1);
        assert_eq!(layout.list().unwrap().len(), 1);

        let mended = |layout: &microfs_oci::Layout, names: &[&str]| {
            assert_eq!(layout.index().unwrap().unreadable(), 0);
            assert_eq!(layout.index().unwrap().names(), names);
            layout.gc(&microfs_oci::GcOptions::default()).unwrap();
        };
        layout.untag("bad").unwrap();
        mended(&layout, &["good"]);
        made.index(&entries);
        layout.tag("good", "bad").unwrap();
        mended(&layout, &["good", "bad"]);
        made.index(&entries);
        add_image(&layout.begin().unwrap(), "bad", b"new");
        mended(&layout, &["good", "bad"]);
    }
}
