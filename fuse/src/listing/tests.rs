use microfs::FileType;

use super::*;

fn entry(name: &[u8], offset: u64) -> Listed<'_> {
    let (node, file_type) = (NodeNum(40 + offset), FileType::Symlink);
    Listed { name, node, file_type, offset, is_dot: false }
}

/// Names, inode numbers, offsets and types, read as the kernel reads them.
fn parse(mut bytes: &[u8]) -> Vec<(Vec<u8>, u64, u64, u32)> {
    use zerocopy::FromBytes;
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let (dirent, rest) = Dirent::read_from_prefix(bytes).unwrap();
        let length = dirent.namelen as usize;
        found.push((rest[..length].to_vec(), dirent.ino, dirent.off, dirent.kind));
        bytes = &bytes[(24 + length).next_multiple_of(8)..];
    }
    found
}

#[test]
fn entries_are_aligned_and_end_where_the_room_does() {
    // Two entries of 24 + 3 and 24 + 8 bytes, in units of 8.
    for room in 0..=96 {
        let mut bytes = vec![0xaa; room];
        let mut listing = Listing::new(&mut bytes);
        let names: [&[u8]; 3] = [b"abc", b"12345678", b"z"];
        let mut added = 0;
        for (offset, name) in (3..).zip(names) {
            if listing.add(&[], &entry(name, offset)).is_break() {
                break;
            }
            added += 1;
        }
        let length = listing.length();
        assert_eq!(
            (added, length),
            match room {
                0..32 => (0, 0),
                32..64 => (1, 32),
                64..96 => (2, 64),
                _ => (3, 96),
            }
        );
        // DT_LNK of readdir(3) is 10.
        let expected = [(&b"abc"[..], 43, 3, 10), (b"12345678", 44, 4, 10), (b"z", 45, 5, 10)];
        let expected = expected.map(|(name, ino, off, kind)| (name.to_vec(), ino, off, kind));
        assert_eq!(parse(&bytes[..length]), expected[..added]);
    }
}
