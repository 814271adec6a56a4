use super::escape::{Escape, escape, unescape};
use super::*;
use crate::format::FileType;
use crate::tree::{DeviceNumber, Timestamp};

fn escaped(bytes: &[u8], how: Escape) -> String {
    let mut out = Vec::new();
    escape(bytes, how, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn escapes_like_composefs_info() {
    assert_eq!(escaped(b"a b\\\n\r\t=\x7f\xff\0", Escape::Plain), r"a\x20b\\\n\r\t=\x7f\xff\x00");
    assert_eq!(escaped(b"a=b-", Escape::Equal), r"a\x3db-");
    assert_eq!(escaped(b"-", Escape::LoneDash), r"\x2d");
    assert_eq!(escaped(b"-", Escape::Plain), "-");
    assert_eq!(escaped(b"--=", Escape::LoneDash), "--=");
}

#[test]
fn every_byte_comes_back() {
    let all: Vec<u8> = (0..=255).collect();
    for how in [Escape::Plain, Escape::LoneDash, Escape::Equal] {
        assert_eq!(unescape(escaped(&all, how).as_bytes()).unwrap(), all);
    }
    for bad in [&br"\"[..], br"\x", br"\x1", br"\xg0", br"\q"] {
        assert_eq!(unescape(bad), None, "{bad:?}");
    }
}

/// The example of composefs-dump(5).
const MANUAL: &str = r"/ 4096 40755 4 1000 1000 0 1695372970.944925700 - - - security.selinux=unconfined_u:object_r:unlabeled_t:s0\x00
/a\x20dir\x20w\x20space 27 40755 2 1000 1000 0 1694598852.869646118 - - - security.selinux=unconfined_u:object_r:unlabeled_t:s0\x00
/a-dir/a-file 259 100644 1 1000 1000 0 1695368732.385062094 35/d02f81325122d77ec1d11baba655bc9bf8a891ab26119a41c50fa03ddfb408 - 35d02f81325122d77ec1d11baba655bc9bf8a891ab26119a41c50fa03ddfb408 security.selinux=unconfined_u:object_r:unlabeled_t:s0\x00
/a-hardlink 259 @100644 1 1000 1000 0 1695368732.385062094 /a-dir/a-file - 35d02f81325122d77ec1d11baba655bc9bf8a891ab26119a41c50fa03ddfb408 security.selinux=unconfined_u:object_r:unlabeled_t:s0\x00
/inline.txt 10 100644 1 1000 1000 0 1697019909.446146440 - some-text\n - security.selinux=unconfined_u:object_r:unlabeled_t:s0\x00
";

#[test]
fn reads_and_writes_the_manual_s_example() {
    let mut again = Vec::new();
    for line in MANUAL.lines() {
        parse_line(line.as_bytes()).unwrap().write(&mut again);
    }
    assert_eq!(String::from_utf8(again).unwrap(), MANUAL);
    let link = parse_line(MANUAL.lines().nth(3).unwrap().as_bytes()).unwrap();
    assert!(link.hard_link);
    assert_eq!(link.payload.as_deref(), Some(&b"/a-dir/a-file"[..]));
    let inline = parse_line(MANUAL.lines().nth(4).unwrap().as_bytes()).unwrap();
    assert_eq!(inline.content.as_deref(), Some(&b"some-text\n"[..]));
    assert_eq!(inline.mtime, Timestamp { seconds: 1_697_019_909, nanoseconds: 446_146_440 });
    let label = &inline.xattrs[0];
    assert_eq!(label.0, b"security.selinux");
    assert_eq!(label.1, b"unconfined_u:object_r:unlabeled_t:s0\0");
}

#[test]
fn reads_devices_and_old_times() {
    let entry = parse_line(b"/b 0 60777 1 0 0 107690 -1.5 - - -\n").unwrap();
    assert_eq!(entry.device, DeviceNumber { major: 420, minor: 170 });
    assert_eq!(entry.file_type, FileType::BlockDevice);
    assert_eq!(entry.mtime, Timestamp { seconds: -1, nanoseconds: 5 });
}

#[test]
fn rejects_what_is_no_line() {
    let cases: [(&str, ParseError); 14] = [
        ("", ParseError::Missing(Field::Size)),
        ("/ 0 40755 2 0 0 0 0.0 - -", ParseError::Missing(Field::Digest)),
        ("a 0 40755 2 0 0 0 0.0 - - -", ParseError::Invalid(Field::Path)),
        ("/\\q 0 40755 2 0 0 0 0.0 - - -", ParseError::Invalid(Field::Path)),
        ("/ +1 40755 2 0 0 0 0.0 - - -", ParseError::Invalid(Field::Size)),
        ("/ 0 755 2 0 0 0 0.0 - - -", ParseError::Invalid(Field::Mode)),
        ("/ 0 240755 2 0 0 0 0.0 - - -", ParseError::Invalid(Field::Mode)),
        ("/ 0 40755 2 4294967296 0 0 0.0 - - -", ParseError::Invalid(Field::Uid)),
        ("/ 0 40755 2 0 0 0 0 - - -", ParseError::Invalid(Field::Mtime)),
        ("/ 0 40755 2 0 0 0 0.1000000000 - - -", ParseError::Invalid(Field::Mtime)),
        ("/l 0 120777 1 0 0 0 0.0 - - -", ParseError::Invalid(Field::Payload)),
        ("/f 2 100644 1 0 0 0 0.0 - x -", ParseError::ContentLength),
        ("/f 2 100644 1 0 0 0 0.0 - - ab", ParseError::Invalid(Field::Digest)),
        ("/f 0 100644 1 0 0 0 0.0 - - - =x", ParseError::Invalid(Field::Xattr)),
    ];
    for (line, error) in cases {
        assert_eq!(parse_line(line.as_bytes()).unwrap_err(), error, "{line}");
    }
    assert_eq!(parse_line(b"/\0 0 40755 2 0 0 0 0.0 - - -").unwrap_err(), ParseError::Nul);
    // A directory has but one name.
    let error = parse_line(b"/d 0 @40755 2 0 0 0 0.0 /e - -").unwrap_err();
    assert_eq!(error, ParseError::Invalid(Field::Payload));
    // Of a hard link only path, mode and payload count.
    assert!(parse_line(b"/d - @100755 - - - - - /e - -").unwrap().hard_link);
}

fn digest(bytes: &[u8]) -> String {
    let mut verity = Verity::new();
    verity.data(bytes);
    verity.finish().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn digests_are_those_of_fsverity() {
    // Printed by `fsverity digest` 1.5 for files of these bytes.
    let pattern = |length: usize| -> Vec<u8> {
        (0..length).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect()
    };
    let cases = [
        (0, "3d248ca542a24fc62d1c43b916eae5016878e2533c88238480b26128a1f1af95"),
        (1, "b803429503d95915829b29fdbc8bbad142f3abfd11b1cadf5526582e685c0551"),
        (4_095, "f7c044deee0d5af15f6478c08b8a0c03931d9963beb30220eeca8bdd03e1c7e4"),
        (4_096, "258b680fa93e3bfc1586d9b439d29a2172bd0db550fe7da1272fd8120d801182"),
        (4_097, "0328cc6ed983dc0df3103b9651098ab305e4adfae46a1a5814b6602b0630293d"),
        (524_288, "e1389416027616e5a91f01961c0d159871f5c6afaf577d6e3b9d815f916fbde0"),
        (524_289, "00023924223dbf3c1f1095d9f0fb02546dc2d8ea7032445ad216eab168faa3bb"),
        (528_384, "6f014f4ac506e6436e4a5a7adb415abcb3a5476f7490f36621fa7c7e4c7e9272"),
        (1_048_581, "8066eff4763c00e1b40da93d1641085ed12e80f9e80cc3396904d83293fa585a"),
    ];
    for (length, expected) in cases {
        assert_eq!(digest(&pattern(length)), expected, "{length} bytes");
    }
}

#[test]
fn zeros_are_zeros() {
    for (before, zeros, after) in
        [(0, 4096, 0), (1, 5, 9), (4000, 1_200_000, 100), (4096, 524_288, 1)]
    {
        let mut bytes = vec![3; before];
        bytes.resize(before + zeros, 0);
        bytes.resize(before + zeros + after, 5);
        let mut verity = Verity::new();
        verity.data(&vec![3; before]);
        verity.zeros(zeros.try_into().unwrap());
        verity.data(&vec![5; after]);
        let sparse: String = verity.finish().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(sparse, digest(&bytes), "{before} {zeros} {after}");
    }
}
