use std::time::{Duration, Instant};

use super::{differences, strict};
use crate::compare::CompareOptions;
use crate::scan::tests::fixture::Fixture;

const MIB: u64 = 1 << 20;

fn pair(size: u64, a: &[(u64, &[u8])], b: &[(u64, &[u8])]) -> (Fixture, Fixture) {
    let (left, right) = (Fixture::in_memory(), Fixture::in_memory());
    left.sparse("f", size, a).times("f", 1, 1);
    right.sparse("f", size, b).times("f", 1, 1);
    (left, right)
}

#[test]
fn finds_one_byte_anywhere() {
    let data = vec![3u8; 3 << 20];
    for at in [0, 4095, 4096, MIB - 1, MIB, 2 * MIB + 77, 3 * MIB - 1] {
        let mut other = data.clone();
        other[usize::try_from(at).unwrap()] = 4;
        let (a, b) = pair(3 * MIB, &[(0, &data)], &[(0, &other)]);
        assert_eq!(strict(&a, &b), [format!("/f: content at {at}: 0x03 -> 0x04")]);
    }
}

#[test]
fn holes_must_be_in_the_same_places() {
    let zeros = [0u8; 65_536];
    let (a, b) = pair(4 * MIB, &[(0, b"x")], &[(0, b"x"), (2 * MIB, &zeros)]);
    assert_eq!(strict(&a, &b), [format!("/f: map at {}: hole -> data", 2 * MIB)]);
    assert_eq!(strict(&b, &a), [format!("/f: map at {}: data -> hole", 2 * MIB)]);
    let content = CompareOptions { holes: false, ..CompareOptions::default() };
    assert_eq!(differences(&a, &b, &content), [""; 0]);
}

#[test]
fn content_against_a_hole() {
    let (a, b) = pair(8 * MIB, &[(5 * MIB + 9, b"x")], &[]);
    let page = 5 * MIB;
    assert_eq!(
        strict(&a, &b),
        [
            format!("/f: map at {page}: data -> hole"),
            format!("/f: content at {}: 0x78 -> 0x00", page + 9)
        ]
    );
    let content = CompareOptions { holes: false, ..CompareOptions::default() };
    assert_eq!(
        differences(&a, &b, &content),
        [format!("/f: content at {}: 0x78 -> 0x00", page + 9)]
    );
}

#[test]
fn the_largest_files_compare_at_once() {
    const SIZE: u64 = (1 << 63) - 1;
    let start = Instant::now();
    let (a, b) =
        pair(SIZE, &[(1 << 40, b"1"), (1 << 62, b"x")], &[(1 << 40, b"1"), (1 << 62, b"y")]);
    assert_eq!(strict(&a, &b), [format!("/f: content at {}: 0x78 -> 0x79", 1u64 << 62)]);
    let (a, b) = pair(SIZE, &[(1 << 40, b"1")], &[(1 << 40, b"1")]);
    assert_eq!(strict(&a, &b), [""; 0]);
    assert!(start.elapsed() < Duration::from_secs(5));
}
