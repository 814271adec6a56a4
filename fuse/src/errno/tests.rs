use std::sync::Arc;

use microfs::ReadError;
use rustix::io::Errno;

use super::{describe, errno, is_damage};

fn io_error() -> ReadError {
    ReadError::Io { layer: 2, cause: Arc::new(std::io::Error::other("disk on fire")) }
}

#[test]
fn errors_become_the_errno_of_read_2_and_friends() {
    assert_eq!(errno(&ReadError::NoSuchNode(9)), Errno::STALE);
    assert_eq!(errno(&ReadError::NotADirectory), Errno::NOTDIR);
    assert_eq!(errno(&ReadError::IsADirectory), Errno::ISDIR);
    assert_eq!(errno(&ReadError::NotASymlink), Errno::INVAL);
    assert_eq!(errno(&io_error()), Errno::IO);
    let link = ReadError::LinkUnresolved { target: b"bin/sh".to_vec() };
    assert_eq!(errno(&link), Errno::IO);
}

#[test]
fn only_damage_is_reported() {
    assert!(is_damage(&io_error()));
    assert!(is_damage(&ReadError::Limit { what: "links", limit: 40 }));
    assert!(!is_damage(&ReadError::NotASymlink));
    assert!(!is_damage(&ReadError::NoSuchNode(9)));
}

#[test]
fn the_line_names_every_cause() {
    assert_eq!(describe(&io_error()), "cannot read layer 2: disk on fire");
}
