//! Compressed layers: every format, joined, padded, cut and damaged.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

use microfs_oci::Compression;
use microfs_oci::decompress::{DecompressError, Decompressed, Fault, detect};
use support::compress::{ALL, bzip2, gzip, skippable, xz, zstd};

fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    Decompressed::new(bytes)?.read_to_end(&mut content).map(|_| content)
}

fn fault(bytes: &[u8]) -> Fault {
    let error = read(bytes).unwrap_err();
    DecompressError::of(&error).unwrap().fault
}

/// Bytes that compress somewhat.
fn sample(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"abcdefgh"[usize::try_from(state >> 29).unwrap()]
    };
    std::iter::repeat_with(&mut next).take(length).collect()
}

/// Gives one byte at a time.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(&mut buffer[..1])
    }
}

#[test]
fn every_format_is_recognised_and_read() {
    let content = sample(700_000);
    for (compression, pack) in ALL {
        let packed = pack(&content);
        let mut reader = Decompressed::new(&*packed).unwrap();
        assert_eq!(reader.compression(), compression);
        let mut unpacked = Vec::new();
        reader.read_to_end(&mut unpacked).unwrap();
        assert!(unpacked == content, "{compression}");
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
        let mut slowly = Vec::new();
        let mut reader = Decompressed::new(Slow(&packed)).unwrap();
        let mut small = [0; 7];
        loop {
            match reader.read(&mut small).unwrap() {
                0 => break,
                count => slowly.extend_from_slice(&small[..count]),
            }
        }
        assert!(slowly == content, "{compression}, byte by byte");
    }
}

#[test]
fn nothing_and_plain_bytes_are_handed_on() {
    for plain in [&b""[..], b"x", b"BZ2 is not it", b"BZh9.tar is a name\0\0", &[0; 1024]] {
        assert_eq!(Decompressed::new(plain).unwrap().compression(), Compression::None);
        assert_eq!(read(plain).unwrap(), plain);
    }
    let packed = gzip(b"content");
    let mut raw = Vec::new();
    Decompressed::plain(&*packed).read_to_end(&mut raw).unwrap();
    assert_eq!(raw, packed);
}

#[test]
fn tools_of_the_formats_are_understood() {
    let content = sample(200_000);
    let tools: [(&str, &[&str]); 5] = [
        ("gzip", &["-9c"]),
        ("bzip2", &["-1c"]),
        ("xz", &["-9ec"]),
        ("zstd", &["-19", "-c", "--long=27"]),
        ("zstd", &["-1", "-c", "--no-check"]),
    ];
    for (tool, arguments) in tools {
        let child =
            Command::new(tool).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = match child {
            Err(error) if std::env::var_os("CI").is_none() => {
                println!("{tool} cannot be run ({error}); not tested");
                continue;
            }
            child => child.unwrap(),
        };
        let mut input = child.stdin.take().unwrap();
        let copy = content.clone();
        let writer = std::thread::spawn(move || input.write_all(&copy));
        let packed = child.wait_with_output().unwrap().stdout;
        writer.join().unwrap().unwrap();
        assert!(read(&packed).unwrap() == content, "{tool} {arguments:?}");
    }
}

#[test]
fn joined_streams_are_one() {
    for (compression, pack) in &ALL[1..] {
        let parts: [&[u8]; 5] = [b"", b"first", b"", b"second", b""];
        let joined: Vec<u8> = parts.iter().flat_map(|part| pack(part)).collect();
        assert_eq!(read(&joined).unwrap(), b"firstsecond", "{compression}");
    }
    let many: Vec<u8> = (0..5000).flat_map(|_| gzip(b"x")).collect();
    assert_eq!(read(&many).unwrap(), [b'x'; 5000]);
    let mut big = gzip(&sample(300_000));
    big.extend(gzip(b"tail"));
    assert!(read(&big).unwrap().ends_with(b"tail"));
}

#[test]
fn zstd_frames_that_are_skipped_may_stand_anywhere() {
    let (one, two) = (zstd(b"one"), zstd(b"two"));
    let skip = |length| skippable(3, &vec![0xaa; length]);
    let layouts: [Vec<Vec<u8>>; 6] = [
        vec![skip(0), one.clone(), two.clone()],
        vec![skippable(0, b"x"), skippable(15, b"y"), one.clone(), two.clone()],
        vec![one.clone(), skip(300_000), two.clone()],
        vec![one.clone(), two.clone(), skip(9)],
        vec![one.clone(), two.clone(), skip(9), skip(0)],
        vec![skip(1), one, skip(2), two, skip(3)],
    ];
    for layout in layouts {
        assert_eq!(read(&layout.concat()).unwrap(), b"onetwo");
    }
    assert_eq!(read(&skip(5)).unwrap(), b"");
}

#[test]
fn gzip_headers_may_have_every_field() {
    let mut packed = Vec::new();
    let mut writer = flate2::GzBuilder::new()
        .extra(vec![b'S', b'G', 3, 0, 1, 2, 3])
        .filename("layer.tar")
        .comment("a comment")
        .mtime(1_700_000_000)
        .write(&mut packed, flate2::Compression::default());
    writer.write_all(b"content").unwrap();
    writer.finish().unwrap();
    assert_eq!(read(&packed).unwrap(), b"content");
}

#[test]
fn zero_bytes_at_the_end_are_padding_and_nothing_else_is() {
    for (compression, pack) in &ALL[1..] {
        for zeros in [1, 4, 511, 200_000] {
            let mut packed = pack(b"content");
            packed.resize(packed.len() + zeros, 0);
            assert_eq!(read(&packed).unwrap(), b"content", "{compression}, {zeros}");
            packed.push(1);
            assert_eq!(fault(&packed), Fault::TrailingData, "{compression}, {zeros}");
        }
        for tail in [&b"x"[..], b"more than ten bytes", &sample(300_000)] {
            let end = pack(b"content").len();
            let packed = [&pack(b"content"), tail].concat();
            let error = read(&packed).unwrap_err();
            let error = DecompressError::of(&error).unwrap();
            assert_eq!(error.fault, Fault::TrailingData, "{compression}");
            assert_eq!(error.offset, u64::try_from(end).unwrap());
        }
        let other = if *compression == Compression::Gzip { xz(b"x") } else { gzip(b"x") };
        assert_eq!(fault(&[pack(b"content"), other].concat()), Fault::TrailingData);
    }
    // The xz format has padding between streams, the others do not.
    assert_eq!(read(&[xz(b"a"), vec![0; 8], xz(b"b")].concat()).unwrap(), b"ab");
    assert_eq!(fault(&[xz(b"a"), vec![0; 6], xz(b"b")].concat()), Fault::TrailingData);
    assert_eq!(fault(&[gzip(b"a"), vec![0; 8], gzip(b"b")].concat()), Fault::TrailingData);
}

#[test]
fn what_is_cut_anywhere_is_an_error() {
    let content = sample(300);
    for (compression, pack) in &ALL[1..] {
        let packed = [pack(&content), pack(b""), pack(b"tail")].concat();
        let ends = [pack(&content).len(), pack(&content).len() + pack(b"").len()];
        for length in 1..packed.len() {
            let result = read(&packed[..length]);
            if ends.contains(&length) {
                assert_eq!(result.unwrap(), content, "{compression}, a stream less");
                continue;
            }
            let error = result.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{compression}, {length}");
            let error = *DecompressError::of(&error).unwrap();
            assert_eq!((error.compression, error.fault), (*compression, Fault::Truncated));
        }
    }
    let frames = [skippable(0, &content), zstd(b"x")].concat();
    for length in (1..frames.len()).filter(|length| *length != content.len() + 8) {
        assert_eq!(fault(&frames[..length]), Fault::Truncated, "skippable, {length}");
    }
}

#[test]
fn damage_anywhere_is_found_or_harmless() {
    let content = sample(300);
    for (compression, pack) in &ALL[1..] {
        let packed = pack(&content);
        for place in 0..packed.len() {
            for flip in [1, 0x80, 0xff] {
                let mut bad = packed.clone();
                bad[place] ^= flip;
                // A magic that is gone makes it plain. Some fields and some
                // bits between them are of no consequence; a checksum is not.
                let checksum = packed.len() - 5..packed.len() - 1;
                let idle = !checksum.contains(&place);
                match read(&bad) {
                    Ok(read) => assert!(
                        idle && read == content || detect(&bad) == Compression::None && read == bad,
                        "{compression}, byte {place}"
                    ),
                    Err(error) => assert!(DecompressError::of(&error).is_some()),
                }
            }
        }
    }
}

#[test]
fn an_error_names_the_place_and_stays() {
    let mut packed = gzip(&sample(500_000));
    let middle = packed.len() / 2;
    packed[middle..middle + 64].fill(0xff);
    let mut reader = Decompressed::new(&*packed).unwrap();
    let first = io::copy(&mut reader, &mut io::sink()).unwrap_err();
    let found = *DecompressError::of(&first).unwrap();
    assert_eq!(found.fault, Fault::Corrupt);
    let offset = usize::try_from(found.offset).unwrap();
    assert!(offset >= middle && offset < packed.len(), "{offset} of {}, {middle}", packed.len());
    assert_eq!(first.to_string(), format!("corrupt gzip stream at compressed byte {offset}"));
    let again = reader.read(&mut [0; 10]).unwrap_err();
    assert_eq!(DecompressError::of(&again), Some(&found));
    assert_eq!(fault(&[0x1f, 0x8b, 8, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0]), Fault::Corrupt);
}

#[test]
fn what_takes_too_much_memory_is_refused() {
    // A frame header that asks for a window of 2^28 bytes, and one of 2^27.
    let frame = |log: u8| {
        let last_raw_block_of_one = [0x09, 0, 0, b'x'];
        [&[0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3][..], &last_raw_block_of_one].concat()
    };
    assert_eq!(read(&frame(27)).unwrap(), b"x");
    assert_eq!(fault(&frame(28)), Fault::Memory);
    let packed = |dictionary| {
        let mut options = liblzma::stream::LzmaOptions::new_preset(0).unwrap();
        options.dict_size(dictionary);
        let mut filters = liblzma::stream::Filters::new();
        filters.lzma2(&options);
        let check = liblzma::stream::Check::Crc64;
        let stream = liblzma::stream::Stream::new_stream_encoder(&filters, check).unwrap();
        let mut writer = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
        writer.write_all(b"x").unwrap();
        writer.finish().unwrap()
    };
    assert_eq!(read(&packed(128 << 20)).unwrap(), b"x");
    assert_eq!(fault(&packed(256 << 20)), Fault::Memory);
}

#[test]
fn an_error_of_the_source_is_passed_on() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from_raw_os_error(5))
        }
    }
    for (compression, pack) in ALL {
        let packed = pack(&sample(1000));
        let half = &packed[..packed.len() / 2];
        let result = Decompressed::new(half.chain(Broken))
            .and_then(|mut r| io::copy(&mut r, &mut io::sink()));
        assert_eq!(result.unwrap_err().raw_os_error(), Some(5), "{compression}");
    }
    assert!(bzip2(b"").len() > 10);
}
