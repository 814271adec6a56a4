use std::io::{Read, Write};
use std::process::{Command, Stdio};

use super::*;
use crate::archive::{Member, MemberKind, Members, Segment};

fn entry<'a>(path: &'a [u8], kind: EntryKind<'a>) -> Entry<'a> {
    let mtime = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };
    Entry { path, kind, permissions: 0o640, uid: 7, gid: 8, mtime, xattrs: &[] }
}

fn archive(entries: &[Entry<'_>]) -> Vec<u8> {
    let mut writer = ArchiveWriter::new(Vec::new());
    for entry in entries {
        writer.member(entry).unwrap();
    }
    writer.finish().unwrap().0
}

/// The only member of an archive, by our own reader.
fn read(bytes: &[u8]) -> Member {
    let mut members = Members::new(bytes);
    let member = members.next_member().unwrap().unwrap();
    assert!(members.next_member().unwrap().is_none());
    member
}

/// What `tar` says of an archive.
fn tar(words: &[&str], bytes: &[u8]) -> String {
    let mut command = Command::new("tar");
    command.args(words).env("LC_ALL", "C").env("TZ", "UTC");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let bytes = bytes.to_vec();
    let feed = std::thread::spawn(move || stdin.write_all(&bytes));
    let output = child.wait_with_output().unwrap();
    feed.join().unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    assert_eq!(errors, "");
    String::from_utf8(output.stdout).unwrap()
}

fn list(bytes: &[u8]) -> String {
    tar(&["--numeric-owner", "--full-time", "-tvf", "-"], bytes)
}

/// The `tar` crate writes the same header where it can.
#[test]
fn a_plain_header_is_the_tar_crate_s() {
    let bytes = archive(&[entry(b"a/file", EntryKind::Regular(0))]);
    let mut header = tar::Header::new_ustar();
    header.set_path("a/file").unwrap();
    header.set_mode(0o640);
    header.set_uid(7);
    header.set_gid(8);
    header.set_size(0);
    header.set_mtime(1_700_000_000);
    header.set_entry_type(tar::EntryType::Regular);
    header.set_device_major(0).unwrap();
    header.set_device_minor(0).unwrap();
    header.set_cksum();
    let block = bytes.first_chunk::<512>().unwrap();
    // The checksum's blank is the only choice.
    let mut wanted = *header.as_bytes();
    wanted[148..156].copy_from_slice(&block[148..156]);
    assert_eq!(block, &wanted);
    assert_eq!(tar::Header::from_byte_slice(block).cksum().unwrap(), header.cksum().unwrap());
    assert_eq!(bytes.len(), 512 + 1024);
    assert!(bytes[512..].iter().all(|byte| *byte == 0));
}

#[test]
fn every_type_is_listed_by_gnu_tar() {
    let device = DeviceNumber { major: 4095, minor: 1_048_575 };
    let bytes = archive(&[
        entry(b"", EntryKind::Directory),
        entry(b"d", EntryKind::Directory),
        entry(b"d/l", EntryKind::Symlink(b"../x")),
        entry(b"d/h", EntryKind::HardLink(b"d/l")),
        entry(b"c", EntryKind::CharDevice(device)),
        entry(b"b", EntryKind::BlockDevice(device)),
        entry(b"p", EntryKind::Fifo),
    ]);
    let wanted = "\
drw-r----- 7/8               0 2023-11-14 22:13:20 ./
drw-r----- 7/8               0 2023-11-14 22:13:20 d/
lrw-r----- 7/8               0 2023-11-14 22:13:20 d/l -> ../x
hrw-r----- 7/8               0 2023-11-14 22:13:20 d/h link to d/l
crw-r----- 7/8    4095,1048575 2023-11-14 22:13:20 c
brw-r----- 7/8    4095,1048575 2023-11-14 22:13:20 b
prw-r----- 7/8               0 2023-11-14 22:13:20 p
";
    assert_eq!(list(&bytes), wanted);
}

#[test]
fn paths_of_any_length_come_back() {
    let name = |length: usize| vec![b'n'; length];
    let mut paths = vec![name(1), name(99), name(100), name(101), name(255)];
    for (directory, last) in [(1, 98), (154, 100), (155, 100), (155, 101), (156, 100), (155, 1)] {
        paths.push([name(directory), name(last)].join(&b'/'));
        paths.push([name(directory / 2), name(directory / 3), name(last)].join(&b'/'));
    }
    paths.push([name(100), name(100), name(100)].join(&b'/'));
    paths.push(vec![b"0123456789".to_vec(); 400].join(&b'/'));
    paths.push(b"\xff\n\\ \x01 \xc3\xa4".to_vec());
    for path in &paths {
        for kind in [EntryKind::Fifo, EntryKind::Directory] {
            let bytes = archive(&[entry(path, kind)]);
            let found = read(&bytes).path;
            let found = found.strip_suffix(b"/").unwrap_or(&found);
            assert_eq!(found, path);
            let mut crate_s = tar::Archive::new(bytes.as_slice());
            let member = crate_s.entries().unwrap().next().unwrap().unwrap();
            let found = member.path_bytes();
            assert_eq!(found.strip_suffix(b"/").unwrap_or(&found), path);
            if matches!(kind, EntryKind::Fifo) {
                let target = [b"t/", path.as_slice()].concat();
                let bytes = archive(&[entry(b"l", EntryKind::HardLink(&target))]);
                assert_eq!(read(&bytes).kind, MemberKind::HardLink(target));
            }
        }
        // Only what does not fit the header has another one before it.
        let longest = path.len() <= 100;
        if longest {
            assert_eq!(archive(&[entry(path, EntryKind::Fifo)]).len(), 512 + 1024);
        }
    }
    let path = [name(155), name(100)].join(&b'/');
    assert_eq!(archive(&[entry(&path, EntryKind::Fifo)]).len(), 512 + 1024);
}

#[test]
fn numbers_of_any_size_come_back() {
    let largest = u32::MAX;
    let at_field = 0o7_777_777;
    for id in [0, at_field, at_field + 1, largest] {
        let device = DeviceNumber { major: id, minor: largest - id };
        let mut entry = entry(b"x", EntryKind::BlockDevice(device));
        (entry.uid, entry.gid) = (id, largest - id);
        let member = read(&archive(&[entry]));
        assert_eq!((member.uid, member.gid), (id, largest - id));
        assert_eq!(member.kind, MemberKind::BlockDevice(device));
    }
    let seconds = [0, 1, -1, 0o77_777_777_777, 0o77_777_777_777 + 1, i64::MAX, i64::MIN];
    for seconds in seconds {
        for nanoseconds in [0, 1, 500_000_000, 999_999_999] {
            let mut entry = entry(b"x", EntryKind::Fifo);
            entry.mtime = Timestamp { seconds, nanoseconds };
            let bytes = archive(&[entry]);
            assert_eq!(read(&bytes).mtime, entry.mtime, "{:?}", entry.mtime);
            let is_plain = (0..=0o77_777_777_777).contains(&seconds) && nanoseconds == 0;
            assert_eq!(bytes.len() == 512 + 1024, is_plain, "{:?}", entry.mtime);
        }
    }
}

#[test]
fn gnu_tar_sees_the_same_times_and_owners() {
    let mut old = entry(b"old", EntryKind::Fifo);
    old.mtime = Timestamp { seconds: -2, nanoseconds: 0 };
    (old.uid, old.gid) = (4_000_000_000, 2_097_152);
    let mut late = entry(b"late", EntryKind::Fifo);
    late.mtime = Timestamp { seconds: 1 << 35, nanoseconds: 120_000_000 };
    // `date -u -d @34359738368`
    let wanted = "\
prw-r----- 4000000000/2097152 0 1969-12-31 23:59:58 old
prw-r----- 7/8                0 3058-10-26 03:46:08.12 late
";
    let found = list(&archive(&[old, late]));
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed(&found), squeezed(wanted));
}

#[test]
fn attributes_come_back() {
    let xattrs = [
        (b"user.empty".to_vec(), Vec::new()),
        (b"user.text".to_vec(), b"a=b\nc\0\xff".to_vec()),
        (b"user.a=b%c \xff".to_vec(), (0..=255).collect()),
        (b"user.=1".to_vec(), b"1".to_vec()),
        (b"user.=2".to_vec(), b"22".to_vec()),
        (b"user.large".to_vec(), vec![7; 65_536]),
    ];
    let entry = Entry { xattrs: &xattrs, ..entry(b"x", EntryKind::Regular(0)) };
    assert_eq!(read(&archive(&[entry])).xattrs, xattrs);
}

#[test]
fn too_much_is_refused() {
    let xattrs: Vec<_> =
        (0..65u8).map(|number| (vec![b'a' + number % 26, number + 1], vec![0; 65_536])).collect();
    let entry = Entry { xattrs: &xattrs, ..entry(b"x", EntryKind::Fifo) };
    let refused = ArchiveWriter::new(Vec::new()).member(&entry);
    assert!(matches!(refused, Err(EmitError::TooLong { limit: 4_194_304 })), "{refused:?}");
    for bad in [&b""[..], b"a\0b"] {
        let entry = super::tests::entry(b"x", EntryKind::Symlink(bad));
        let refused = ArchiveWriter::new(Vec::new()).member(&entry);
        assert!(matches!(refused, Err(EmitError::Text("its link target"))), "{refused:?}");
    }
}

/// Offset and bytes.
type Run<'a> = (u64, &'a [u8]);

fn sparse(size: u64, runs: &[Run<'_>]) -> Vec<u8> {
    let mut map = SparseMap::new(size);
    let length = |bytes: &[u8]| u64::try_from(bytes.len()).unwrap();
    for (offset, bytes) in runs {
        map.add(*offset, length(bytes));
    }
    let mut writer = ArchiveWriter::new(Vec::new());
    writer.member(&entry(b"d/s", EntryKind::Sparse(&map))).unwrap();
    for (offset, bytes) in runs {
        writer.run(*offset, length(bytes)).unwrap();
    }
    writer.end_map().unwrap();
    for (_, bytes) in runs {
        writer.data(bytes).unwrap();
    }
    writer.finish().unwrap().0
}

#[test]
fn holes_of_any_size_come_back_and_cost_nothing() {
    let longest = u64::try_from(i64::MAX).unwrap();
    let block = &[b'x'; 512][..];
    let many: Vec<Run<'_>> = (0..64).map(|at| (at * 1000 + 1, block)).collect();
    let cases: [(u64, &[Run<'_>]); 6] = [
        (1, &[]),
        (longest, &[]),
        (longest, &[(longest - 1, b"z")]),
        (longest, &[(0, block), (1 << 40, b"bc")]),
        (10_000, &[(3, block), (9_999, b"d")]),
        (70_000, &many),
    ];
    for (size, runs) in cases {
        let bytes = sparse(size, runs);
        assert!(bytes.len() < 4096 + runs.len() * 512);
        let mut members = Members::new(bytes.as_slice());
        let member = members.next_member().unwrap().unwrap();
        assert_eq!(member.path, b"d/s");
        let data: Vec<Segment> = runs
            .iter()
            .map(|(offset, bytes)| Segment {
                offset: *offset,
                length: u64::try_from(bytes.len()).unwrap(),
            })
            .collect();
        assert_eq!(member.kind, MemberKind::Regular { size, data });
        for (_, bytes) in runs {
            let mut read = vec![0; bytes.len()];
            members.read_data(&mut read).unwrap();
            assert_eq!(read, *bytes);
        }
        assert!(members.next_member().unwrap().is_none());
        let listed = list(&bytes);
        assert!(listed.contains(&format!(" {size} ")) && listed.ends_with(" d/s\n"), "{listed}");
    }
    let text = tar(&["-xOf", "-"], &sparse(600, &[(1, &[b'a'; 512]), (520, b"bc")]));
    assert_eq!(text, format!("\0{}{}bc{}", "a".repeat(512), "\0".repeat(7), "\0".repeat(78)));
}

#[test]
fn a_member_takes_exactly_what_it_announced() {
    let mut writer = ArchiveWriter::new(Vec::new());
    writer.member(&entry(b"x", EntryKind::Regular(600))).unwrap();
    writer.data(&[1; 500]).unwrap();
    assert!(matches!(writer.data(&[1; 101]), Err(EmitError::Length)));
    writer.data(&[1; 50]).unwrap();
    let early = writer.member(&entry(b"y", EntryKind::Fifo));
    assert!(matches!(early, Err(EmitError::Length)));
    writer.data(&[1; 50]).unwrap();
    writer.member(&entry(b"y", EntryKind::Regular(0))).unwrap();
    let (bytes, _) = writer.finish().unwrap();
    assert_eq!(bytes.len(), 512 + 1024 + 512 + 1024);
    let mut crate_s = tar::Archive::new(bytes.as_slice());
    let mut first = crate_s.entries().unwrap().next().unwrap().unwrap();
    let mut data = Vec::new();
    first.read_to_end(&mut data).unwrap();
    assert_eq!(data, [1; 600]);
}

#[test]
fn eight_gib_and_more_have_a_record() {
    struct Count(u64, Vec<u8>);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 < 4096 {
                self.1.extend_from_slice(bytes);
            }
            self.0 += u64::try_from(bytes.len()).unwrap();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for (size, headers) in [(0o77_777_777_777u64, 512u64), (0o100_000_000_000, 1536)] {
        let mut writer = ArchiveWriter::new(Count(0, Vec::new()));
        writer.member(&entry(b"x", EntryKind::Regular(size))).unwrap();
        let piece = vec![0; 1 << 26];
        let mut left = size;
        while left > 0 {
            let take = usize::try_from(left).unwrap().min(piece.len());
            writer.data(&piece[..take]).unwrap();
            left -= u64::try_from(take).unwrap();
        }
        let (Count(written, head), length) = writer.finish().unwrap();
        assert_eq!(length, written);
        assert_eq!(written, headers + size.next_multiple_of(512) + 1024);
        let member = Members::new(head.as_slice()).next_member().unwrap().unwrap();
        let data = vec![Segment { offset: 0, length: size }];
        assert_eq!(member.kind, MemberKind::Regular { size, data });
    }
}
