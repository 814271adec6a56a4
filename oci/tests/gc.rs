//! What is removed, and above all what is not.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::time::{Duration, SystemTime};

use microfs_oci::verified::{parse_digest, sha256};
use microfs_oci::{Digest, GcOptions, GcReport, OciError, PlatformRequest, Selector};
use serde_json::{Value, json};
use support::{
    Handmade, OCI_INDEX, OCI_MANIFEST, add_image, blob_path, count_blobs, new_layout, on, tagged,
};

fn digest_of(descriptor: &Value) -> Digest {
    parse_digest(descriptor["digest"].as_str().unwrap()).unwrap()
}

fn collect(made: &Handmade) -> GcReport {
    made.open().gc(&GcOptions::default()).unwrap()
}

#[test]
fn removes_what_no_tag_leads_to() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    add_image(&session, "a", b"shared");
    add_image(&session, "b", b"alone");
    session.put(b"never tagged").unwrap();
    drop(session);
    let dry = layout.gc(&GcOptions { dry_run: true, ..GcOptions::default() }).unwrap();
    assert_eq!(dry.removed, [(sha256(b"never tagged").unwrap(), 12)]);
    assert_eq!(count_blobs(layout.path()), 7);
    assert_eq!(layout.gc(&GcOptions::default()).unwrap(), dry);
    assert_eq!((dry.freed_bytes, dry.kept), (12, 6));
    layout.untag("b").unwrap();
    assert_eq!(layout.gc(&GcOptions::default()).unwrap().removed.len(), 3);
    assert_eq!(layout.gc(&GcOptions::default()).unwrap().removed, []);
    let image = layout.resolve(&Selector::Only, &PlatformRequest::Host).unwrap();
    layout.verify_blob(&image.layers[0].descriptor).unwrap();
}

#[test]
fn keeps_what_a_running_builder_relies_on() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let committed = session.put(b"committed").unwrap();
    let mut writing = session.blob().unwrap();
    writing.write_all(b"being written").unwrap();
    let old = layout.begin().unwrap();
    let reused = old.put(b"from before").unwrap();
    assert!(session.reuse(&reused.digest, reused.size).unwrap());
    drop(old);
    let report = layout.gc(&GcOptions::default()).unwrap();
    assert_eq!((report.removed.len(), report.kept, report.live_sessions), (0, 2, 1));
    let written = writing.commit().unwrap();
    assert_eq!(layout.gc(&GcOptions::default()).unwrap().removed, []);
    let clone = session.clone();
    drop(session);
    assert_eq!(layout.gc(&GcOptions::default()).unwrap().live_sessions, 1);
    drop(clone);
    let report = layout.gc(&GcOptions::default()).unwrap();
    assert_eq!(report.live_sessions, 0);
    let mut removed: Vec<Digest> = report.removed.into_iter().map(|(digest, _)| digest).collect();
    let mut all = vec![committed.digest, reused.digest, written.digest];
    removed.sort_by_key(Digest::to_string);
    all.sort_by_key(Digest::to_string);
    assert_eq!(removed, all);
}

#[test]
fn removes_what_killed_builders_left() {
    let (_dir, layout) = new_layout();
    let sessions = layout.path().join(".microfs/sessions");
    for name in ["1-0", "1-1", "2-0"] {
        fs::create_dir_all(sessions.join(name)).unwrap();
        fs::write(sessions.join(name).join("0.tmp"), b"12345").unwrap();
    }
    fs::write(sessions.join("1-0/lease"), format!("{}\nsha256:12", sha256(b"x").unwrap())).unwrap();
    fs::write(layout.path().join(".microfs/index.json.new"), b"123").unwrap();
    fs::write(blob_path(layout.path(), &sha256(b"x").unwrap()), b"x").unwrap();
    let dry = layout.gc(&GcOptions { dry_run: true, ..GcOptions::default() }).unwrap();
    assert_eq!((dry.stale_files, dry.freed_bytes, dry.removed.len()), (4, 19, 1));
    assert_eq!(layout.gc(&GcOptions::default()).unwrap(), dry);
    assert_eq!(fs::read_dir(&sessions).unwrap().count(), 0);
    assert!(!layout.path().join(".microfs/index.json.new").exists());
}

#[test]
fn follows_indexes_subjects_and_unknown_documents() {
    let made = Handmade::new();
    let (a, b) = (made.image("linux", "amd64", b"a"), made.image("linux", "arm64", b"b"));
    let nested =
        made.json(OCI_INDEX, &json!({"schemaVersion": 2, "manifests": [on(a, "linux/amd64")]}));
    let outer = made
        .json(OCI_INDEX, &json!({"schemaVersion": 2, "manifests": [nested, on(b, "linux/arm64")]}));
    let subject = made.image("linux", "amd64", b"subject");
    let payload = made.described("application/x", b"payload");
    let empty = made.described("application/vnd.oci.empty.v1+json", b"{}");
    let artifact = made.json(
        OCI_MANIFEST,
        &json!({
            "schemaVersion": 2, "config": empty, "layers": [payload], "subject": subject,
            "future": {"deep": [made.described("text/plain", b"future")]},
        }),
    );
    let unknown =
        made.json("application/x+json", &json!({"blobs": [made.described("a/b", b"inside")]}));
    let bare = {
        let mut bare = made.image("linux", "amd64", b"bare");
        bare.as_object_mut().unwrap().remove("mediaType");
        bare
    };
    let leaf = made.described("application/octet-stream", b"{ not json");
    made.index(&[tagged(outer, "multi"), artifact, unknown, bare, leaf]);
    let before = count_blobs(made.path());
    let rubbish = made.blob(b"rubbish");
    let report = collect(&made);
    assert_eq!(report.removed, [(rubbish, 7)]);
    assert_eq!(count_blobs(made.path()), before);
}

#[test]
fn an_annotation_is_no_reference() {
    let made = Handmade::new();
    let source = made.blob(b"source layer");
    let mut image = made.image("linux", "amd64", b"x");
    image["annotations"] = json!({"dev.microfs.source.layer.digest": source.to_string(), "digest": source.to_string()});
    made.index(&[image]);
    assert_eq!(collect(&made).removed, [(source, 12)]);
}

#[test]
fn missing_blobs_are_legal() {
    let made = Handmade::new();
    let (a, b) = (made.image("linux", "amd64", b"a"), made.image("linux", "arm64", b"b"));
    let outer = json!({"schemaVersion": 2, "manifests": [on(a.clone(), "linux/amd64"), on(b.clone(), "linux/arm64")]});
    made.index(&[tagged(made.json(OCI_INDEX, &outer), "t")]);
    fs::remove_file(blob_path(made.path(), &digest_of(&b))).unwrap();
    fs::remove_file(blob_path(made.path(), &sha256(b"a").unwrap())).unwrap();
    let report = collect(&made);
    assert_eq!(report.missing, [digest_of(&b)]);
    assert_eq!(report.removed.len(), 2, "config and layer of the manifest that is not there");
    made.open()
        .resolve(&Selector::Only, &PlatformRequest::Exact("linux/amd64".parse().unwrap()))
        .unwrap();
}

#[test]
fn removes_nothing_when_references_could_be_hidden() {
    let made = Handmade::new();
    let rubbish = blob_path(made.path(), &made.blob(b"rubbish"));
    let image = made.image("linux", "amd64", b"x");
    let path = blob_path(made.path(), &digest_of(&image));
    let good = fs::read(&path).unwrap();
    let refuses = |why: &str| {
        let error = made.open().gc(&GcOptions::default()).unwrap_err();
        assert!(matches!(error, OciError::UnsafeToCollect { .. }), "{why}: {error}");
        assert!(rubbish.exists(), "{why}");
    };
    for entry in [
        json!({"digest": "x", "size": 1}),
        json!("text"),
        json!({"size": 1}),
        json!({"digest": digest_of(&image).to_string()}),
    ] {
        made.index(&[image.clone(), entry.clone()]);
        refuses(&entry.to_string());
    }
    made.index(&[tagged(image.clone(), "t")]);
    let mut bad = good.clone();
    bad[3] ^= 1;
    fs::write(&path, &bad).unwrap();
    refuses("altered manifest");
    fs::write(&path, &good[1..]).unwrap();
    refuses("short manifest");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&rubbish, &path).unwrap();
    refuses("linked manifest");
    fs::remove_file(&path).unwrap();
    fs::write(&path, &good).unwrap();
    made.index(&[tagged(made.described(OCI_MANIFEST, b"not json"), "t")]);
    refuses("manifest that is no JSON");
    let broken = json!({"schemaVersion": 2, "layers": [{"digest": "nonsense", "size": 1}]});
    made.index(&[tagged(made.json(OCI_MANIFEST, &broken), "t")]);
    refuses("manifest with a broken descriptor");
    fs::create_dir(made.path().join("blobs/blake3")).unwrap();
    fs::write(made.path().join("blobs/blake3/abc"), b"{}").unwrap();
    made.index(&[json!({"mediaType": OCI_MANIFEST, "digest": "blake3:abc", "size": 2})]);
    refuses("manifest that cannot be verified");
    fs::write(made.path().join("index.json"), "{").unwrap();
    refuses("index that is no JSON");
    made.index(&[image]);
    collect(&made);
    assert!(!rubbish.exists());
}

#[test]
fn leaves_foreign_files_alone() {
    let made = Handmade::new();
    made.index(&[]);
    let blobs = made.path().join("blobs/sha256");
    let hex = "0".repeat(64);
    fs::write(blobs.join("notes.txt"), "x").unwrap();
    fs::write(blobs.join(hex.replace('0', "A")), "x").unwrap();
    fs::create_dir(blobs.join(&hex)).unwrap();
    fs::create_dir(made.path().join("blobs/blake3")).unwrap();
    fs::write(made.path().join("blobs/blake3/abc"), "x").unwrap();
    fs::write(made.path().join("README"), "x").unwrap();
    made.blob(b"rubbish");
    let report = collect(&made);
    assert_eq!((report.foreign, report.removed.len()), (3, 1));
    assert!(made.path().join("blobs/blake3/abc").exists() && made.path().join("README").exists());
}

#[test]
fn recent_blobs_can_be_kept() {
    let made = Handmade::new();
    made.index(&[]);
    let (old, new) = (made.blob(b"old"), made.blob(b"new"));
    let now = SystemTime::now();
    let hour = Duration::from_secs(3600);
    let file = fs::File::options().write(true).open(blob_path(made.path(), &old)).unwrap();
    file.set_modified(now - hour * 2).unwrap();
    let options = GcOptions { keep_newer_than: Some(now - hour), ..GcOptions::default() };
    assert_eq!(made.open().gc(&options).unwrap().removed, [(old, 3)]);
    assert_eq!(collect(&made).removed, [(new, 3)]);
}

#[test]
fn open_files_stay_readable() {
    let (_dir, layout) = new_layout();
    add_image(&layout.begin().unwrap(), "t", b"content");
    let (_, mut files) = layout.resolve_and_open(&Selector::Only, &PlatformRequest::Host).unwrap();
    layout.untag("t").unwrap();
    assert_eq!(layout.gc(&GcOptions::default()).unwrap().removed.len(), 3);
    let mut content = Vec::new();
    files[0].read_to_end(&mut content).unwrap();
    assert_eq!(content, b"content");
}
