//! FORMAT.md against the code: tables of records, sections, codes and rules,
//! and the worked example. A row that is missing, extra or different fails.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::mem::{offset_of, size_of};
use std::sync::Arc;

use microfs::format::blob_table::RawBlobRecord;
use microfs::format::block_pointer::RawBlockPointer;
use microfs::format::dentry::{DentryKind, RawDentry, RawHardLink};
use microfs::format::extent::RawExtent;
use microfs::format::inode::{RawInode, flags};
use microfs::format::prologue::{self, RawPrologue};
use microfs::format::section::Section;
use microfs::format::superblock::{self, RawSuperblock, RawTotals};
use microfs::format::xattr::{RawXattrEntry, RawXattrName, RawXattrSet, known};
use microfs::format::{Codec, DigestAlgorithm, FileType, Rule};
use microfs::reader::{BlockCache, Image};

const DOCUMENT: &str = include_str!("../FORMAT.md");

/// Cells of the first table after the line that starts with `caption`,
/// without its head; backquotes removed.
fn table(caption: &str) -> Vec<Vec<String>> {
    let lines: Vec<&str> = DOCUMENT.lines().collect();
    let starts = |line: &&str| line.starts_with(caption);
    assert_eq!(lines.iter().filter(|line| starts(line)).count(), 1, "caption {caption:?}");
    let after = lines.iter().skip_while(|line| !starts(line)).skip(1);
    let rows = after.skip_while(|line| !line.starts_with('|'));
    let rows: Vec<Vec<String>> = rows
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let inside = line.trim().trim_start_matches('|').strip_suffix('|').unwrap();
            inside.split('|').map(|cell| cell.trim().replace('`', "")).collect()
        })
        .collect();
    assert!(rows.len() > 2 && rows[1][0].starts_with("--"), "no table after {caption:?}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "ragged table after {caption:?}");
    rows[2..].to_vec()
}

/// The first `count` cells of each row, as text.
fn columns(caption: &str, count: usize) -> Vec<Vec<String>> {
    table(caption).into_iter().map(|row| row[..count].to_vec()).collect()
}

/// Bytes of a type as the offset tables write it.
fn type_size(text: &str) -> usize {
    if let Some((element, count)) = text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        return type_size(element) * count.parse::<usize>().unwrap();
    }
    match text {
        "u8" => 1,
        "u16" => 2,
        "u32" => 4,
        "u64" | "i64" => 8,
        "(u64, u64)" => 16,
        "digest" => 32,
        "totals" => size_of::<RawTotals>(),
        other => panic!("type {other:?}"),
    }
}

struct Field {
    name: &'static str,
    offset: usize,
    size: usize,
}

fn size_by<T, F>(_: impl Fn(&T) -> &F) -> usize {
    size_of::<F>()
}

fn check_record(name: &str, size: usize, fields: &[Field]) {
    // The list in this file names every field: no gap is left.
    let mut end = 0;
    for field in fields {
        assert_eq!(field.offset, end, "this test leaves out a field before {name}.{}", field.name);
        end += field.size;
    }
    assert_eq!(end, size, "this test leaves out the last fields of {name}");
    let rows = table(&format!("Record **{name}**, {size} bytes"));
    let documented: Vec<_> = rows.iter().map(|row| row[..4].to_vec()).collect();
    let actual: Vec<_> = fields
        .iter()
        .zip(rows.iter().map(|row| row[2].clone()).chain(std::iter::repeat(String::new())))
        .map(|(field, kind)| {
            vec![field.offset.to_string(), field.size.to_string(), kind, field.name.to_owned()]
        })
        .collect();
    assert_eq!(documented, actual, "table of {name}");
    for row in &rows {
        assert_eq!(type_size(&row[2]).to_string(), row[1], "type of {name}.{}", row[3]);
    }
}

macro_rules! record {
    ($name:literal, $record:ty, $($field:ident)+) => {
        check_record($name, size_of::<$record>(), &[$(Field {
            name: stringify!($field),
            offset: offset_of!($record, $field),
            size: size_by(|record: &$record| &record.$field),
        }),+]);
    };
}

#[test]
fn offset_tables_are_those_of_the_records() {
    record!("prologue", RawPrologue, magic version block_log metadata_log digest_algorithm
        reserved text);
    record!("superblock", RawSuperblock, magic version superblock_size incompatible compatible
        blob_length block_log metadata_log digest_algorithm page_log window_log reserved
        content_codecs metadata_codecs content_blocks metadata_blocks content_offset content_end
        metadata_offset metadata_end pointers_offset pages_offset blobs_offset blob_count
        reserved2 tail_digest sections totals xattr_known xattr_names encoder unused digest);
    record!("totals", RawTotals, data_bytes hole_bytes content_plain content_stored
        metadata_plain metadata_stored unmappable_bytes kinds whiteouts opaque);
    record!("inode", RawInode, mode flags uid gid links size hole_bytes mtime_seconds
        mtime_nanoseconds xattrs start count parent dentry);
    record!("dentry", RawDentry, inode name_end kind);
    record!("extent", RawExtent, file_offset block block_offset blob);
    record!("xattr set", RawXattrSet, first count);
    record!("xattr entry", RawXattrEntry, name length value);
    record!("xattr name", RawXattrName, position length);
    record!("hard link", RawHardLink, inode parent dentry);
    record!("block pointer", RawBlockPointer, offset stored plain digest);
    record!("blob", RawBlobRecord, blob_sha256 superblock_sha256 length);
    assert_eq!(DOCUMENT.matches("\nRecord **").count(), 12, "a record is not checked here");
}

#[test]
fn magic_bytes_are_those_of_the_records() {
    for (record, magic) in [("prologue", prologue::MAGIC), ("superblock", superblock::MAGIC)] {
        let bytes: Vec<_> = magic.iter().map(|byte| format!("{byte:02x}")).collect();
        let rows = table(&format!("Record **{record}**"));
        assert!(rows[0][4].starts_with(&bytes.join(" ")), "magic of {record}");
    }
}

#[test]
fn rules_are_those_of_the_code() {
    let rows = table("- **check**: by a reader");
    let documented: Vec<_> = rows.iter().map(|row| row[..2].to_vec()).collect();
    let rule = |rule: &Rule| vec![format!("R{}", rule.number()), rule.text().to_owned()];
    assert_eq!(documented, Rule::ALL.iter().map(rule).collect::<Vec<_>>());
    for row in rows {
        let known = row[2].split(", ").all(|when| ["open", "use", "check"].contains(&when));
        assert!(known, "{} is checked at {:?}", row[0], row[2]);
    }
    let numbers = Rule::ALL.iter().map(|rule| rule.number());
    assert!(numbers.eq(1..=u32::try_from(Rule::ALL.len()).unwrap()));
    // No rule is referred to that does not exist.
    let words = DOCUMENT.split(|c: char| !c.is_ascii_alphanumeric());
    for number in words.filter_map(|word| word.strip_prefix('R')?.parse::<usize>().ok()) {
        assert!((1..=Rule::ALL.len()).contains(&number), "R{number}");
    }
}

#[test]
fn sections_are_those_of_the_code() {
    let actual: Vec<_> = Section::ALL
        .iter()
        .enumerate()
        .map(|(number, section)| {
            let size = section.record_size().map_or("-".to_owned(), |size| size.to_string());
            vec![number.to_string(), format!("{section:?}"), size]
        })
        .collect();
    assert_eq!(columns("length is at most M =", 3), actual);
}

#[test]
fn codes_are_those_of_the_code() {
    let types: Vec<_> = table("Inode 0 MUST be a directory")
        .into_iter()
        .map(|row| (row[0].clone(), row[2].clone()))
        .collect();
    let bits = |kind: &FileType| (kind.code().to_string(), format!("{:06o}", kind.mode_bits()));
    let mut actual: Vec<_> = FileType::ALL.iter().map(bits).collect();
    actual.push((DentryKind::LinkBelow.code().to_string(), "mode is 0".to_owned()));
    assert_eq!(types, actual);
    let kinds: Vec<_> = columns("Kinds of dentries:", 1).concat();
    let other = [DentryKind::LinkBelow, DentryKind::Whiteout].map(|kind| kind.code().to_string());
    assert_eq!(kinds, ["1 to 7", &other[0], &other[1]]);
    assert!((1..=7).all(|code| FileType::from_code(code).is_some()));
    let codecs: Vec<_> =
        Codec::ALL.iter().map(|c| vec![c.code().to_string(), c.name().to_owned()]).collect();
    assert_eq!(columns("## 13 Codecs", 2), codecs);
    let digests = columns("**Digest algorithms**", 2);
    for (row, digest) in digests.iter().zip([DigestAlgorithm::Blake3, DigestAlgorithm::Sha256]) {
        assert_eq!(row[0], digest.code().to_string());
        assert_eq!(
            row[1].split(',').next().unwrap().replace('-', "").to_lowercase(),
            format!("{digest:?}").to_lowercase()
        );
    }
    assert_eq!((digests.len(), DigestAlgorithm::from_code(3)), (2, None));
    let sum = |caption: &str, column: usize| -> u32 {
        table(caption).iter().map(|row| row[column].parse::<u32>().unwrap()).sum()
    };
    assert_eq!(sum("An empty file MUST be stored", 1), u32::from(flags::ALL));
    let xattrs = known::ANY | known::ACL_ACCESS | known::ACL_DEFAULT | known::USER;
    let xattrs = xattrs | known::TRUSTED | known::SECURITY | known::SYSTEM | known::OTHER;
    assert_eq!(sum("`xattr_known` of the superblock", 0), xattrs);
}

#[test]
fn worked_example_is_a_blob() {
    let mut blob = vec![0u8; 8192];
    let dumps = DOCUMENT.split("```hex\n").skip(1).flat_map(|rest| rest.split("```").next());
    for line in dumps.flat_map(str::lines) {
        let (offset, bytes) = line.split(';').next().unwrap().split_once("  ").unwrap();
        let start = usize::from_str_radix(offset, 16).unwrap();
        for (at, byte) in (start..).zip(bytes.split_whitespace()) {
            assert_eq!(blob[at], 0, "byte {at} is given twice");
            blob[at] = u8::from_str_radix(byte, 16).unwrap();
        }
    }
    let sha256 = |bytes: &[u8]| -> String {
        let digest = DigestAlgorithm::Sha256.digest(bytes);
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    assert!(DOCUMENT.contains(&format!("SHA-256 of the blob is `{}`", sha256(&blob))));
    assert!(DOCUMENT.contains(&format!("`{}`, and the length of the tail", sha256(&blob[4096..]))));
    let image = Image::open(Box::new(blob), 0, Arc::new(BlockCache::new(1 << 20))).unwrap();
    assert_eq!(image.superblock().tail_length(), 8123);
    let root = image.inode(0).unwrap();
    let find = |name: &[u8]| image.find(&root, name).unwrap().unwrap().dentry.inode;
    let hello = image.inode(find(b"hello")).unwrap();
    let mut bytes = [0; 6];
    assert_eq!((image.read_at(&hello, 0, &mut bytes).unwrap(), &bytes), (5, b"hello\0"));
    assert_eq!(image.xattr(&hello, b"user.a").unwrap().unwrap(), b"1");
    assert_eq!(image.inode(find(b"empty")).unwrap().size, 0);
    assert_eq!(image.target(&image.inode(find(b"link")).unwrap()).unwrap(), b"hello");
}
