//! Encoders of the formats layers come in.

use std::io::{Read, Write};

use microfs_oci::Compression;

pub type Pack = fn(&[u8]) -> Vec<u8>;

/// The formats, that of no compression first.
pub const ALL: [(Compression, Pack); 5] = [
    (Compression::None, |bytes| bytes.to_vec()),
    (Compression::Gzip, gzip),
    (Compression::Zstd, zstd),
    (Compression::Bzip2, bzip2),
    (Compression::Xz, xz),
];

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// One frame with a checksum.
pub fn zstd(bytes: &[u8]) -> Vec<u8> {
    let mut writer = zstd::Encoder::new(Vec::new(), 3).unwrap();
    writer.include_checksum(true).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// A zstd frame that decoders skip; `kind` is 0 to 15.
pub fn skippable(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap().to_le_bytes();
    [&[0x50 | kind, 0x2a, 0x4d, 0x18][..], &length, bytes].concat()
}

pub fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    bzip2::read::BzEncoder::new(bytes, bzip2::Compression::fast())
        .read_to_end(&mut packed)
        .unwrap();
    packed
}

pub fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut writer = liblzma::write::XzEncoder::new(Vec::new(), 1);
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}
