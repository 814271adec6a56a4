use zerocopy::IntoBytes;

use super::*;
use crate::abi::{GetxattrIn, ReadIn, opcode};

/// A request as the kernel lays it out.
fn message(opcode: u32, body: &[u8]) -> Vec<u64> {
    let length = size_of::<InHeader>() + body.len();
    let header = InHeader {
        len: u32::try_from(length).unwrap(),
        opcode,
        unique: 7,
        nodeid: 9,
        uid: 0,
        gid: 0,
        pid: 1,
        total_extlen: 0,
        padding: 0,
    };
    let mut words = vec![0u64; length.div_ceil(8)];
    let bytes = words.as_mut_bytes();
    bytes[..40].copy_from_slice(header.as_bytes());
    bytes[40..length].copy_from_slice(body);
    words
}

#[test]
fn names_end_at_their_nul() {
    let words = message(opcode::LOOKUP, b"name\0");
    let request = Incoming::parse(words.as_bytes()).unwrap();
    assert_eq!((request.header.unique, request.header.nodeid), (7, 9));
    assert_eq!(request.name(0), Some(&b"name"[..]));
    let words = message(opcode::LOOKUP, b"no end");
    assert_eq!(Incoming::parse(words.as_bytes()).unwrap().name(0), None);
}

#[test]
fn arguments_come_before_names() {
    let words = message(opcode::GETXATTR, b"\x05\0\0\0\0\0\0\0user.x\0");
    let request = Incoming::parse(words.as_bytes()).unwrap();
    assert_eq!(request.arguments::<GetxattrIn>().unwrap().size, 5);
    assert_eq!(request.name(8), Some(&b"user.x"[..]));
    assert!(request.arguments::<ReadIn>().is_none(), "the body is too short for it");
}

#[test]
fn a_message_that_is_cut_is_no_request() {
    let words = message(opcode::LOOKUP, b"name\0");
    let bytes = words.as_bytes();
    for length in 0..45 {
        assert!(Incoming::parse(&bytes[..length]).is_none(), "{length} bytes");
    }
    assert!(Incoming::parse(&bytes[..45]).is_some());
}
