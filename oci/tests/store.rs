//! Blobs in and out.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, symlink};

use microfs_oci::error::Document;
use microfs_oci::verified::{parse_digest, sha256};
use microfs_oci::{Descriptor, Digest, Layout, MediaType, OciError, VerifiedReader};
use support::{Handmade, blob_path, count_blobs, new_layout};

fn described(bytes: &[u8]) -> Descriptor {
    Descriptor::new(MediaType::ImageLayer, sha256(bytes).unwrap(), bytes.len() as u64)
}

#[test]
fn a_blob_is_visible_only_after_commit() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let mut writer = session.blob().unwrap();
    writer.write_all(b"hello ").unwrap();
    writer.write_all(b"world").unwrap();
    assert_eq!(writer.size(), 11);
    let mut middle = [0; 5];
    writer.file().read_exact_at(&mut middle, 6).unwrap();
    assert_eq!(&middle, b"world");
    assert_eq!(count_blobs(layout.path()), 0);
    let blob = writer.commit().unwrap();
    assert_eq!(blob.digest, sha256(b"hello world").unwrap());
    assert_eq!(blob.size, 11);
    assert_eq!(fs::read(blob_path(layout.path(), &blob.digest)).unwrap(), b"hello world");
}

#[test]
fn an_abandoned_blob_leaves_nothing() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let mut writer = session.blob().unwrap();
    writer.write_all(b"x").unwrap();
    let temporary = writer.path();
    assert!(temporary.exists());
    drop(writer);
    assert!(!temporary.exists());
    drop(session);
    let left = fs::read_dir(layout.path().join(".microfs/sessions")).unwrap().count();
    assert_eq!((count_blobs(layout.path()), left), (0, 0));
}

#[test]
fn a_writer_keeps_its_session_alive() {
    let (_dir, layout) = new_layout();
    let mut writer = layout.begin().unwrap().blob().unwrap();
    writer.write_all(b"x").unwrap();
    assert_eq!(layout.gc(&Default::default()).unwrap().live_sessions, 1);
    writer.commit().unwrap();
}

#[test]
fn a_file_changed_behind_the_writer_is_refused() {
    let (_dir, layout) = new_layout();
    let mut writer = layout.begin().unwrap().blob().unwrap();
    writer.write_all(b"abc").unwrap();
    writer.file().set_len(2).unwrap();
    assert!(matches!(
        writer.commit(),
        Err(OciError::TemporaryChanged { expected: 3, found: 2, .. })
    ));
    assert_eq!(count_blobs(layout.path()), 0);
}

#[test]
fn storing_again_is_idempotent_and_heals() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let blob = session.put(b"content").unwrap();
    assert_eq!(session.put(b"content").unwrap(), blob);
    let path = blob_path(layout.path(), &blob.digest);
    for damage in [&b"conte"[..], b"CONTENT", b"content and more"] {
        fs::write(&path, damage).unwrap();
        assert!(layout.verify_blob(&described(b"content")).is_err());
        session.put(b"content").unwrap();
        layout.verify_blob(&described(b"content")).unwrap();
    }
    assert_eq!(count_blobs(layout.path()), 1);
}

#[test]
fn reuse_says_whether_a_blob_is_there() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    let digest = sha256(b"content").unwrap();
    assert!(!session.reuse(&digest, 7).unwrap());
    session.put(b"content").unwrap();
    assert!(session.reuse(&digest, 7).unwrap());
    assert!(!session.reuse(&digest, 8).unwrap());
}

#[test]
fn errors_say_what_is_wrong_with_a_blob() {
    let (_dir, layout) = new_layout();
    let session = layout.begin().unwrap();
    session.put(b"content").unwrap();
    let digest = sha256(b"content").unwrap();
    let error = layout.open_blob(&digest, 6).unwrap_err();
    assert!(matches!(error, OciError::BlobSize { expected: 6, found: 7, .. }), "{error}");
    let error = layout.verify_blob(&described(b"other")).unwrap_err();
    assert!(error.is_missing_blob(), "{error}");
    fs::write(blob_path(layout.path(), &digest), b"CONTENT").unwrap();
    let error = layout.verify_blob(&described(b"content")).unwrap_err();
    assert!(matches!(error, OciError::BlobDigest { .. }), "{error}");
    let error =
        layout.read_blob_verified(&described(b"content"), Document::Config, 100).unwrap_err();
    assert!(matches!(error, OciError::BlobDigest { .. }), "{error}");
    let error = layout.read_blob_verified(&described(b"content"), Document::Config, 6).unwrap_err();
    assert!(matches!(error, OciError::TooLarge { size: 7, limit: 6, .. }), "{error}");
    let odd = parse_digest("blake3:0123").unwrap();
    assert!(matches!(layout.open_blob(&odd, 1), Err(OciError::UnsupportedAlgorithm { .. })));
}

#[test]
fn links_pipes_and_folders_are_no_blobs() {
    let made = Handmade::new();
    made.index(&[]);
    let secret = made.path().join("secret");
    fs::write(&secret, b"content").unwrap();
    let digest = sha256(b"content").unwrap();
    let path = blob_path(made.path(), &digest);
    let layout = made.open();
    let refused = |layout: &Layout| {
        let error = layout.open_blob(&digest, 7).unwrap_err();
        assert!(matches!(error, OciError::WrongType { .. }), "{error}");
    };
    symlink(&secret, &path).unwrap();
    refused(&layout);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    refused(&layout);
    fs::remove_dir(&path).unwrap();
    let status = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(status.success());
    refused(&layout);
    fs::remove_file(&path).unwrap();
    // A link in place of a folder on the way.
    fs::write(&path, b"content").unwrap();
    layout.open_blob(&digest, 7).unwrap();
    for name in ["blobs/sha256", "blobs"] {
        let (from, to) = (made.path().join(name), made.path().join("elsewhere"));
        fs::rename(&from, &to).unwrap();
        symlink(&to, &from).unwrap();
        refused(&layout);
        fs::remove_file(&from).unwrap();
        fs::rename(&to, &from).unwrap();
    }
}

#[test]
fn missing_blob_folders_mean_missing_blobs() {
    let made = Handmade::new();
    made.index(&[]);
    fs::remove_dir_all(made.path().join("blobs")).unwrap();
    let layout = made.open();
    assert!(layout.verify_blob(&described(b"x")).unwrap_err().is_missing_blob());
    layout.begin().unwrap().put(b"x").unwrap();
    layout.verify_blob(&described(b"x")).unwrap();
}

#[test]
fn sha512_blobs_are_verified() {
    let made = Handmade::new();
    made.index(&[]);
    // SHA-512 of the empty string.
    let hex = "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce\
               47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e";
    let digest = parse_digest(&format!("sha512:{hex}")).unwrap();
    fs::create_dir(made.path().join("blobs/sha512")).unwrap();
    fs::write(blob_path(made.path(), &digest), b"").unwrap();
    let descriptor = Descriptor::new(MediaType::ImageLayer, digest.clone(), 0);
    made.open().verify_blob(&descriptor).unwrap();
    fs::write(blob_path(made.path(), &digest), b"x").unwrap();
    assert!(made.open().verify_blob(&descriptor).is_err());
    let mut reader = VerifiedReader::new(&b"x"[..], &digest, 1).unwrap();
    assert!(reader.read(&mut [0; 8]).is_err());
}

/// Gives out at most three bytes at a time.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(3);
        self.0.read(&mut buffer[..count])
    }
}

#[test]
fn the_verified_reader_withholds_the_last_bytes_of_wrong_content() {
    let right = b"0123456789";
    let digest = sha256(right).unwrap();
    fn read<'a>(
        content: &'a [u8],
        digest: &Digest,
        size: u64,
    ) -> (std::io::Result<Vec<u8>>, VerifiedReader<Slow<'a>>) {
        let mut reader = VerifiedReader::new(Slow(content), digest, size).unwrap();
        let mut out = vec![0; usize::try_from(size).unwrap()];
        let result = reader.read_exact(&mut out);
        (result.map(|()| out), reader)
    }
    let (out, reader) = read(right, &digest, 10);
    assert_eq!(out.unwrap(), right);
    assert!(reader.is_verified());
    for (content, size) in [
        (&b"0123456780"[..], 10),
        (b"012345678", 10),
        (b"0123456789x", 10),
        (right, 9),
        (right, 11),
    ] {
        let (out, mut reader) = read(content, &digest, size);
        let error = out.unwrap_err();
        assert!(!reader.is_verified());
        assert!(reader.read(&mut [0; 4]).is_err(), "a failed reader stays failed");
        if error.kind() == std::io::ErrorKind::InvalidData {
            let error = OciError::from_read(error, std::path::Path::new("x"));
            assert!(matches!(error, OciError::BlobSize { .. } | OciError::BlobDigest { .. }));
        }
    }
}

#[test]
fn finish_reads_what_a_decoder_left() {
    let right = b"0123456789";
    let digest = sha256(right).unwrap();
    let mut reader = VerifiedReader::new(&right[..], &digest, 10).unwrap();
    reader.read_exact(&mut [0; 4]).unwrap();
    reader.finish().unwrap();
    let mut reader = VerifiedReader::new(&b"0123456780"[..], &digest, 10).unwrap();
    reader.read_exact(&mut [0; 4]).unwrap();
    assert!(reader.finish().is_err());
    VerifiedReader::new(&b""[..], &sha256(b"").unwrap(), 0).unwrap().finish().unwrap();
    assert!(VerifiedReader::new(&b"x"[..], &sha256(b"").unwrap(), 0).unwrap().finish().is_err());
}
