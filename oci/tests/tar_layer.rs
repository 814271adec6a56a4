//! Tar layers that are written, and what histories say of layers.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{Read, Write};

use microfs_oci::verified::sha256;
use microfs_oci::{
    HistoryChange, ImageSpec, LayerReader, PlatformRequest, Selector, Source, TarCompression,
    TarEncoder,
};
use support::{blob_path, new_layout};

const ALL: [TarCompression; 6] = [
    TarCompression::None,
    TarCompression::Gzip(1),
    TarCompression::Gzip(9),
    TarCompression::Zstd(1),
    TarCompression::Zstd(19),
    TarCompression::Zstd(22),
];

/// Bytes that compress a little.
fn content() -> Vec<u8> {
    (0..400_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 28) as u8).collect()
}

#[test]
fn layers_are_hashed_before_and_after() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let content = content();
    for (number, compression) in ALL.into_iter().enumerate() {
        // In pieces of any length.
        let mut writer = session.tar_layer(compression).unwrap();
        for piece in content.chunks(1 + number * 777) {
            writer.write_all(piece).unwrap();
            writer.flush().unwrap();
        }
        let layer = writer.commit().unwrap();
        assert_eq!(layer.diff_id, sha256(&content).unwrap());
        assert_eq!(layer.descriptor.media_type, compression.media_type());
        let stored = std::fs::read(blob_path(layout.path(), &layer.descriptor.digest)).unwrap();
        assert_eq!(layer.descriptor.digest, sha256(&stored).unwrap());
        assert_eq!(layer.descriptor.size, stored.len() as u64);
        assert_eq!(stored.len() < content.len(), compression != TarCompression::None);
        // At once it gives the same bytes.
        let mut encoder = TarEncoder::new(Vec::new(), compression).unwrap();
        encoder.write_all(&content).unwrap();
        assert!(encoder.finish().unwrap() == stored);

        // The reader of sources takes it and verifies both digests.
        let tag = format!("t{number}");
        let spec = ImageSpec {
            layers: vec![layer.clone()],
            platform: Some("linux/amd64".parse().unwrap()),
            ..ImageSpec::default()
        };
        let image = session.assemble(&spec).unwrap();
        session.publish(&tag, &image.manifest).unwrap();
        let name = format!("{}:{tag}", layout.path().display());
        let source = Source::open(name.as_ref(), &std::env::temp_dir()).unwrap();
        let image = source.image(&PlatformRequest::Host).unwrap();
        let mut reader: LayerReader = image.layers[0].open().unwrap();
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(reader.finish().unwrap().diff_id, layer.diff_id);
        assert!(read == content);
    }
}

#[test]
fn a_stream_says_nothing_of_when_and_where() {
    let mut encoder = TarEncoder::new(Vec::new(), TarCompression::Gzip(6)).unwrap();
    encoder.write_all(b"x").unwrap();
    let stream = encoder.finish().unwrap();
    // RFC 1952: no flags, no time, unknown system.
    assert_eq!(stream[..8], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0]);
    assert_eq!(stream[9], 255);
}

#[test]
fn a_layer_that_is_not_committed_leaves_nothing() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let mut writer = session.tar_layer(TarCompression::Zstd(3)).unwrap();
    writer.write_all(&content()).unwrap();
    drop(writer);
    drop(session);
    assert!(std::fs::read_dir(layout.path().join("blobs/sha256")).unwrap().next().is_none());
    let sessions = std::fs::read_dir(layout.path().join(".microfs/sessions")).unwrap();
    assert_eq!(sessions.count(), 0);
}

#[test]
fn histories_count_layers() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let count = |history: &str| {
        let config = format!(
            r#"{{"architecture":"amd64","os":"linux","rootfs":{{"type":"layers","diff_ids":[]}}{history}}}"#
        );
        let spec = ImageSpec {
            source_config: Some(config.into_bytes()),
            history: HistoryChange::Keep,
            ..ImageSpec::default()
        };
        let image = session.assemble(&spec).unwrap();
        session.publish("t", &image.manifest).unwrap();
        let image = layout.resolve(&Selector::Tag("t".into()), &PlatformRequest::Host).unwrap();
        image.history_layers().map_err(|error| error.to_string())
    };
    assert_eq!(count(""), Ok(None));
    assert_eq!(count(r#","history":null"#), Ok(None));
    assert_eq!(count(r#","history":[]"#), Ok(None));
    let entries = r#","history":[{"created_by":"a"},{"empty_layer":true},{"empty_layer":false},{"empty_layer":null}]"#;
    assert_eq!(count(entries), Ok(Some(3)));
    assert_eq!(count(r#","history":[{"empty_layer":true}]"#), Ok(Some(0)));
    assert!(count(r#","history":[{"empty_layer":"no"}]"#).is_err());
}
