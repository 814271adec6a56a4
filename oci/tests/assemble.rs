//! Configs and manifests that are written.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use microfs_oci::{
    Assembled, ConfigOptions, HistoryChange, ImageSpec, Layout, NewLayer, OciError, Platform,
    PlatformRequest, Selector, Session, media_type,
};
use oci_spec::image::HistoryBuilder;
use serde_json::{Value, json};
use support::{add_image, blob_path, new_layout};

fn spec(session: &Session) -> ImageSpec {
    let layer =
        |bytes: &[u8]| NewLayer::opaque(media_type::microfs_layer(), session.put(bytes).unwrap());
    ImageSpec {
        layers: vec![
            layer(b"base").annotate(media_type::TAIL_LENGTH, "4096").annotate("dev.microfs.a", "1"),
            layer(b"top"),
        ],
        platform: Some("linux/arm64/v8".parse().unwrap()),
        ..ImageSpec::default()
    }
}

fn text(layout: &Layout, descriptor: &microfs_oci::Descriptor) -> String {
    fs::read_to_string(blob_path(layout.path(), &descriptor.digest)).unwrap()
}

fn config(layout: &Layout, image: &Assembled) -> Value {
    serde_json::from_str(&text(layout, &image.config)).unwrap()
}

#[test]
fn output_bytes_depend_on_the_specification_alone() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let mut spec = spec(&session);
    spec.options = ConfigOptions {
        entrypoint: Some(vec!["/e".into()]),
        cmd: Some(vec!["c".into(), "d".into()]),
        env: vec!["B=2".into(), "A=1".into()],
        working_dir: Some("/w".into()),
        user: Some("1:2".into()),
        labels: [("z".into(), "1".into()), ("a".into(), "2".into())].into(),
        exposed_ports: ["80/tcp".into(), "443".into()].into(),
        volumes: ["/v".into()].into(),
        stop_signal: Some("SIGINT".into()),
    };
    spec.created = Some("2024-02-29T12:00:00Z".into());
    spec.annotations = [("y".into(), "1".into()), ("x".into(), "2".into())].into();
    let image = session.assemble(&spec).unwrap();
    session.publish("t", &image.manifest).unwrap();
    let (base, top) = (&spec.layers[0].diff_id, &spec.layers[1].diff_id);
    assert_eq!(
        text(&layout, &image.config),
        format!(
            concat!(
                r#"{{"created":"2024-02-29T12:00:00Z","architecture":"arm64","os":"linux","variant":"v8","#,
                r#""config":{{"User":"1:2","WorkingDir":"/w","StopSignal":"SIGINT","#,
                r#""ExposedPorts":{{"443":{{}},"80/tcp":{{}}}},"Volumes":{{"/v":{{}}}},"Env":["B=2","A=1"],"#,
                r#""Entrypoint":["/e"],"Cmd":["c","d"],"Labels":{{"a":"2","z":"1"}}}},"#,
                r#""rootfs":{{"type":"layers","diff_ids":["{}","{}"]}}}}"#,
            ),
            base, top
        )
    );
    assert_eq!(
        text(&layout, &image.manifest),
        format!(
            concat!(
                r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","#,
                r#""config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"{}","size":{}}},"#,
                r#""layers":[{{"mediaType":"application/vnd.oci.image.layer.microfs.v1","digest":"{}","size":4,"#,
                r#""annotations":{{"containerd.io/snapshot/microfs-tail-length":"4096","dev.microfs.a":"1"}}}},"#,
                r#"{{"mediaType":"application/vnd.oci.image.layer.microfs.v1","digest":"{}","size":3}}],"#,
                r#""annotations":{{"x":"2","y":"1"}}}}"#,
            ),
            image.config.digest, image.config.size, base, top
        )
    );
    assert_eq!(
        fs::read_to_string(layout.path().join("index.json")).unwrap(),
        format!(
            concat!(
                r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":["#,
                r#"{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"{}","size":{},"#,
                r#""annotations":{{"org.opencontainers.image.ref.name":"t"}},"#,
                r#""platform":{{"architecture":"arm64","os":"linux","variant":"v8"}}}}]}}"#,
            ),
            image.manifest.digest, image.manifest.size
        )
    );
    let (_other, layout) = new_layout();
    let session = layout.begin().unwrap();
    for layer in ["base", "top"] {
        session.put(layer.as_bytes()).unwrap();
    }
    assert_eq!(session.assemble(&spec).unwrap(), image);
}

#[test]
fn what_is_written_reads_back() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let spec = spec(&session);
    let image = session.assemble(&spec).unwrap();
    session.publish("t", &image.manifest).unwrap();
    let read = layout.resolve(&Selector::Only, &PlatformRequest::Host).unwrap();
    assert_eq!(read.platform.to_string(), "linux/arm64/v8");
    assert_eq!(read.created, None);
    assert!(!text(&layout, &image.config).contains("created"));
    for (layer, new) in read.layers.iter().zip(&spec.layers) {
        assert_eq!((&layer.descriptor, &layer.diff_id), (&new.descriptor, &new.diff_id));
    }
    assert_eq!(read.options().unwrap(), ConfigOptions::default());
    read.configuration().unwrap();
}

const SOURCE: &str = r#"{"architecture":"amd64","os":"linux","created":"2001-01-01T00:00:00Z","author":"me",
    "config":{"Env":["PATH=/bin","A=old"],"Cmd":["sh"],"Labels":{"k":"v"},"OnBuild":null,"Healthcheck":{"Test":["x"]},
    "ExposedPorts":{"1/tcp":{}},"Volumes":null},"container":"0123","docker_version":"1.2",
    "rootfs":{"type":"layers","diff_ids":["sha256:00"]},"history":[{"created_by":"one","odd":1.50}],"zzz":1e999}"#;

#[test]
fn a_source_config_is_kept_but_for_what_changes() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let mut spec =
        ImageSpec { source_config: Some(SOURCE.into()), platform: None, ..spec(&session) };
    let image = session.assemble(&spec).unwrap();
    let kept = text(&layout, &image.config);
    // The text before and after the layers is the source's own, but for spaces between fields.
    for part in [
        r#""config":{"Env":["PATH=/bin","A=old"],"#,
        r#"[{"created_by":"one","odd":1.50}]"#,
        r#""zzz":1e999"#,
    ] {
        assert!(kept.contains(part), "{part} not in {kept}");
    }
    assert!(kept.starts_with(r#"{"architecture":"amd64","os":"linux","created":"2001"#));
    assert!(kept.contains(r#""OnBuild":null,"Healthcheck""#));
    assert!(!kept.contains("sha256:00\""));
    assert_eq!(image.manifest.platform, Some(Platform::new("linux", "amd64")));

    spec.options = ConfigOptions {
        cmd: Some(vec![]),
        entrypoint: Some(vec!["e".into()]),
        env: vec!["A=new".into(), "B=1".into()],
        labels: [("n".into(), "m".into())].into(),
        exposed_ports: ["2".into()].into(),
        volumes: ["/v".into()].into(),
        user: Some(String::new()),
        ..ConfigOptions::default()
    };
    spec.created = Some("2002-02-02T00:00:00Z".into());
    spec.history =
        HistoryChange::Append(vec![HistoryBuilder::default().created_by("two").build().unwrap()]);
    spec.source_config = Some(SOURCE.replace("1e999", "1").into());
    let changed = config(&layout, &session.assemble(&spec).unwrap());
    assert_eq!(
        changed["config"],
        json!({
            "Env": ["PATH=/bin", "A=new", "B=1"], "Entrypoint": ["e"], "Labels": {"k": "v", "n": "m"},
            "OnBuild": null, "Healthcheck": {"Test": ["x"]},
            "ExposedPorts": {"1/tcp": {}, "2": {}}, "Volumes": {"/v": {}},
        })
    );
    assert_eq!(changed["created"], "2002-02-02T00:00:00Z");
    assert_eq!(changed["author"], "me");
    assert_eq!(
        changed["history"],
        json!([{"created_by": "one", "odd": 1.5}, {"created_by": "two"}])
    );
    spec.history = HistoryChange::Replace(vec![]);
    assert_eq!(config(&layout, &session.assemble(&spec).unwrap())["history"], Value::Null);
}

#[test]
fn a_platform_is_needed() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let none = ImageSpec { platform: None, ..spec(&session) };
    assert!(matches!(session.assemble(&none), Err(OciError::PlatformMissing)));
    let source = ImageSpec { source_config: Some(b"{}".into()), ..none };
    assert!(matches!(session.assemble(&source), Err(OciError::PlatformMissing)));
    let broken = ImageSpec { source_config: Some(b"[".into()), ..source };
    assert!(matches!(session.assemble(&broken), Err(OciError::Json { .. })));
}

#[test]
fn a_new_image_takes_the_place_of_the_old_tag() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    for (tag, content) in [("a", "1"), ("b", "2"), ("c", "3"), ("b", "4")] {
        add_image(&session, tag, content.as_bytes());
    }
    assert_eq!(layout.index().unwrap().names(), ["a", "b", "c"]);
    let image = layout.resolve(&Selector::Tag("b".into()), &PlatformRequest::Host).unwrap();
    assert_eq!(image.layers[0].diff_id, microfs_oci::verified::sha256(b"4").unwrap());
}

#[test]
fn nothing_is_tagged_before_all_of_it_is_there() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let mut spec = spec(&session);
    let image = session.assemble(&spec).unwrap();
    let path = blob_path(layout.path(), &spec.layers[0].diff_id);
    fs::write(&path, b"short").unwrap();
    let error = session.publish("t", &image.manifest).unwrap_err();
    assert!(matches!(error, OciError::BlobSize { .. }), "{error}");
    fs::remove_file(&path).unwrap();
    assert!(session.publish("t", &image.manifest).unwrap_err().is_missing_blob());
    assert!(layout.index().unwrap().names().is_empty());
    // A layer that registries withhold may be absent.
    let foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
    spec.layers[0].descriptor.media_type = foreign.into();
    let image = session.assemble(&spec).unwrap();
    session.publish("t", &image.manifest).unwrap();
    for bad in ["", "a b", "-"] {
        let error = session.publish(bad, &image.manifest).unwrap_err();
        assert!(matches!(error, OciError::InvalidTag { .. }));
    }
    let error = session.publish("t", &spec.layers[1].descriptor).unwrap_err();
    assert!(matches!(error, OciError::NotAnImage { .. }), "{error}");
}
