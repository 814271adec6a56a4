//! The layout folder: creation, refusal, edits that lose nothing.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use microfs_oci::{Layout, Limits, OciError};
use serde_json::{Value, json};
use support::{Handmade, add_image, new_layout, tagged};

#[test]
fn creates_a_layout_that_opens() {
    let (dir, layout) = new_layout();
    let path = dir.path().join("store");
    assert_eq!(fs::read(path.join("oci-layout")).unwrap(), br#"{"imageLayoutVersion":"1.0.0"}"#);
    let index: Value = serde_json::from_slice(&fs::read(path.join("index.json")).unwrap()).unwrap();
    assert_eq!(index["manifests"], json!([]));
    assert_eq!(index["schemaVersion"], json!(2));
    assert!(path.join("blobs/sha256").is_dir());
    assert_eq!(layout.path(), path);
    Layout::open(&path).unwrap();
    Layout::create_or_open(&path).unwrap();
}

#[test]
fn creates_in_an_empty_folder_and_below_missing_ones() {
    let dir = tempfile::tempdir().unwrap();
    Layout::create_or_open(dir.path()).unwrap();
    let other = tempfile::tempdir().unwrap();
    Layout::create_or_open(other.path().join("a/b/c")).unwrap();
    fs::create_dir_all(other.path().join("disk/lost+found")).unwrap();
    Layout::create_or_open(other.path().join("disk")).unwrap();
}

#[test]
fn refuses_a_folder_with_other_content() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("thesis.txt"), "x").unwrap();
    let error = Layout::create_or_open(dir.path()).unwrap_err();
    assert!(matches!(&error, OciError::NotEmpty { entry, .. } if entry == "thesis.txt"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    let error = Layout::open(dir.path()).unwrap_err();
    assert!(matches!(error, OciError::NotALayout { .. }));
    let error = Layout::open(dir.path().join("thesis.txt")).unwrap_err();
    assert!(matches!(error, OciError::NotALayout { .. }));
}

#[test]
fn refuses_a_folder_that_only_looks_half_made() {
    // Without our own folder, an index.json may be anybody's.
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.json"), "{}").unwrap();
    let error = Layout::create_or_open(dir.path()).unwrap_err();
    assert!(matches!(error, OciError::NotEmpty { .. }));
}

#[test]
fn completes_a_layout_whose_creation_was_cut_short() {
    let (_dir, layout) = new_layout();
    for lost in
        [&["oci-layout"][..], &["oci-layout", "index.json"], &["oci-layout", "blobs", "index.json"]]
    {
        for name in lost {
            let path = layout.path().join(name);
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap()
            } else {
                fs::remove_file(path).unwrap()
            }
        }
        assert!(Layout::open(layout.path()).is_err());
        let again = Layout::create_or_open(layout.path()).unwrap();
        assert!(again.index().unwrap().names().is_empty());
    }
}

#[test]
fn refuses_unknown_layout_versions() {
    for (version, good) in
        [("1.0.0", true), ("1.1.0", true), ("2.0.0", false), ("9.0.0", false), ("", false)]
    {
        let made = Handmade::new();
        made.index(&[]);
        let header = json!({"imageLayoutVersion": version, "extra": [1]});
        fs::write(made.path().join("oci-layout"), format!("{header}\n")).unwrap();
        match Layout::open(made.path()) {
            Ok(_) => assert!(good, "{version}"),
            Err(error) => {
                assert!(!good, "{version}");
                assert!(matches!(error, OciError::LayoutVersion { .. }));
                assert!(matches!(
                    Layout::create_or_open(made.path()),
                    Err(OciError::LayoutVersion { .. })
                ));
            }
        }
    }
}

#[test]
fn a_header_that_is_no_json_is_an_error() {
    let made = Handmade::new();
    fs::write(made.path().join("oci-layout"), "hello").unwrap();
    assert!(matches!(Layout::open(made.path()), Err(OciError::Json { .. })));
}

#[test]
fn editing_keeps_unknown_fields_and_entries_byte_for_byte() {
    let made = Handmade::new();
    let alien = r#"{"digest":"not a digest","x":1e400,"big":123456789012345678901234567890}"#;
    let known = tagged(made.image("linux", "amd64", b"x"), "keep").to_string();
    let known = known.replacen('{', r#"{ "z" : [1.50, 2] , "#, 1);
    let text = format!(
        r#"{{"future":{{"b":1,"a":1.0}},"schemaVersion":2,"manifests":[{alien},{known}],"tail":null}}"#
    );
    fs::write(made.path().join("index.json"), &text).unwrap();
    let layout = made.open();
    add_image(&layout.begin().unwrap(), "new", b"layer");
    let after = fs::read_to_string(made.path().join("index.json")).unwrap();
    for kept in [alien, &known, r#""future":{"b":1,"a":1.0}"#, r#""tail":null"#] {
        assert!(after.contains(kept), "{kept} not in {after}");
    }
    layout.untag("new").unwrap();
    assert_eq!(fs::read_to_string(made.path().join("index.json")).unwrap(), text);
    assert_eq!(layout.index().unwrap().unreadable(), 1);
}

#[test]
fn an_index_with_repeated_keys_is_refused() {
    let made = Handmade::new();
    fs::write(made.path().join("index.json"), r#"{"manifests":[],"manifests":[]}"#).unwrap();
    assert!(matches!(made.open().index(), Err(OciError::Json { .. })));
}

#[test]
fn null_is_an_empty_list_and_a_missing_one_is_made() {
    for text in
        [r#"{"schemaVersion":2,"manifests":null,"mediaType":null}"#, r#"{"schemaVersion":2}"#]
    {
        let made = Handmade::new();
        fs::write(made.path().join("index.json"), text).unwrap();
        let listed = made.open().list();
        if text.contains("manifests") {
            assert!(listed.unwrap().is_empty());
        } else {
            let error = listed.unwrap_err();
            assert!(
                matches!(&error, OciError::Malformed { rule, .. } if rule.contains("manifests"))
            );
            let error = made.open().gc(&microfs_oci::GcOptions::default()).unwrap_err();
            assert!(matches!(error, OciError::UnsafeToCollect { .. }));
        }
        add_image(&made.open().begin().unwrap(), "t", b"x");
        assert_eq!(made.open().index().unwrap().names(), ["t"]);
    }
}

#[test]
fn a_linked_index_is_not_followed() {
    let made = Handmade::new();
    made.index(&[]);
    fs::rename(made.path().join("index.json"), made.path().join("real.json")).unwrap();
    std::os::unix::fs::symlink("real.json", made.path().join("index.json")).unwrap();
    assert!(matches!(made.open().index(), Err(OciError::WrongType { .. })));
}

#[test]
fn the_index_never_grows_beyond_what_can_be_read() {
    let (_dir, layout) = new_layout();
    add_image(&layout.begin().unwrap(), "first", b"x");
    let size = fs::metadata(layout.path().join("index.json")).unwrap().len();
    let limits = Limits { index_bytes: size + 20, ..Limits::default() };
    let tight = Layout::open_with(layout.path(), limits).unwrap();
    assert!(matches!(tight.tag("first", "second"), Err(OciError::TooLarge { .. })));
    assert_eq!(tight.index().unwrap().names(), ["first"]);
    let limits = Limits { index_bytes: size - 1, ..Limits::default() };
    let tight = Layout::open_with(layout.path(), limits).unwrap();
    assert!(matches!(tight.index(), Err(OciError::TooLarge { .. })));
}

#[test]
fn reading_writes_nothing() {
    let made = Handmade::new();
    made.index(&[tagged(made.image("linux", "amd64", b"x"), "t")]);
    let layout = made.open();
    layout.list().unwrap();
    layout.resolve(&microfs_oci::Selector::Only, &microfs_oci::PlatformRequest::Host).unwrap();
    layout.gc(&microfs_oci::GcOptions { dry_run: true, keep_newer_than: None }).unwrap();
    assert!(!made.path().join(".microfs").exists());
}

#[test]
fn the_mode_of_the_index_survives_an_edit() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, layout) = new_layout();
    let index = layout.path().join("index.json");
    fs::set_permissions(&index, fs::Permissions::from_mode(0o664)).unwrap();
    add_image(&layout.begin().unwrap(), "t", b"x");
    assert_eq!(fs::metadata(&index).unwrap().permissions().mode() & 0o7777, 0o664);
}

#[test]
fn an_open_layout_stays_the_same_folder() {
    let (dir, layout) = new_layout();
    fs::rename(dir.path().join("store"), dir.path().join("moved")).unwrap();
    add_image(&layout.begin().unwrap(), "t", b"x");
    let moved = Layout::open(dir.path().join("moved")).unwrap();
    assert_eq!(moved.index().unwrap().names(), ["t"]);
}
