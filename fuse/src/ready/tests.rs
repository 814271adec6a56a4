use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::thread;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{ReadyError, ReadyNotifier};

fn byte_of(mut reader: impl Read) -> [u8; 1] {
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    byte
}

#[test]
fn a_pipe_is_told_of_success_and_failure() {
    for (succeeds, byte) in [(true, b"s"), (false, b"f")] {
        let (reader, writer) = std::io::pipe().unwrap();
        let notifier = ReadyNotifier::new(None, None, Some(writer.as_raw_fd())).unwrap();
        if succeeds {
            notifier.ready().unwrap();
        } else {
            drop(notifier);
        }
        assert_eq!(&byte_of(reader), byte);
    }
}

#[test]
fn a_socket_is_told_too() {
    let (reader, writer) = UnixStream::pair().unwrap();
    ReadyNotifier::new(None, None, Some(writer.as_raw_fd())).unwrap().ready().unwrap();
    assert_eq!(&byte_of(reader), b"s");
}

#[test]
fn a_waiter_that_is_gone_is_an_error() {
    let (reader, writer) = std::io::pipe().unwrap();
    let notifier = ReadyNotifier::new(None, None, Some(writer.as_raw_fd())).unwrap();
    drop(reader);
    assert!(matches!(notifier.ready(), Err(ReadyError::Descriptor { .. })));
}

#[test]
fn a_fifo_is_told_once_it_has_a_reader() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    ReadyNotifier::new(None, Some(&fifo), None).unwrap().ready().unwrap();
    assert_eq!(&byte_of(File::open(&fifo).unwrap()), b"s");
    let failing = ReadyNotifier::new(None, Some(&fifo), None).unwrap();
    let reader = thread::spawn(move || byte_of(File::open(&fifo).unwrap()));
    drop(failing);
    assert_eq!(&reader.join().unwrap(), b"f");
}

#[test]
fn what_cannot_be_used_is_named() {
    let (reader, writer) = std::io::pipe().unwrap();
    let missing = "/nonexistent/fifo".as_ref();
    let error = ReadyNotifier::new(None, Some(missing), Some(writer.as_raw_fd())).unwrap_err();
    assert_eq!(error.to_string(), "cannot use init pipe /nonexistent/fifo");
    assert_eq!(&byte_of(reader), b"f");
    let error = ReadyNotifier::new(None, None, Some(987_654)).unwrap_err();
    assert_eq!(error.to_string(), "cannot use file descriptor 987654 to report readiness");
}
