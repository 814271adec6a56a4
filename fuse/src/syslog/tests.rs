use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use super::SystemLog;

/// The start of each record: facility "daemon" is 3 and severity "error" is 3
/// in RFC 3164, section 4.1.1.
fn start() -> String {
    format!("<27>microfs[{}]: ", std::process::id())
}

fn received(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 4096];
    let length = socket.recv(&mut bytes).unwrap();
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

fn log(directory: &Path) -> SystemLog {
    SystemLog::at(directory.join("log"), directory.join("kmsg"))
}

#[test]
fn a_daemon_that_listens_gets_each_line() {
    let directory = tempfile::tempdir().unwrap();
    let log = log(directory.path());
    for _ in 0..2 {
        // The second round is a daemon that was started anew.
        let daemon = UnixDatagram::bind(directory.path().join("log")).unwrap();
        log.line("read of /a: bad");
        log.line("x\n<0>forged\x1b");
        assert_eq!(received(&daemon), start() + "read of /a: bad");
        assert_eq!(received(&daemon), start() + "x\\n<0>forged\\u{1b}");
        fs::remove_file(directory.path().join("log")).unwrap();
    }
}

#[test]
fn without_a_daemon_the_kernels_log_gets_them() {
    let directory = tempfile::tempdir().unwrap();
    let log = log(directory.path());
    // Neither is there: nothing is made, nothing fails.
    log.line("lost");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let kernel = directory.path().join("kmsg");
    fs::write(&kernel, "").unwrap();
    log.line("one");
    // A socket that nobody listens at any more.
    drop(UnixDatagram::bind(directory.path().join("log")).unwrap());
    log.line("two");
    let start = start();
    assert_eq!(fs::read_to_string(&kernel).unwrap(), format!("{start}one\n{start}two\n"));
    fs::write(&kernel, "").unwrap();
    log.line(&"\u{e9}".repeat(2000));
    let text = fs::read_to_string(&kernel).unwrap();
    // printk's limit for one record, in bytes.
    assert!(text.len() < 1024 && text.ends_with("\u{e9}\n"), "{} bytes", text.len());
}

#[test]
fn a_daemon_that_does_not_read_holds_up_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let _daemon = UnixDatagram::bind(directory.path().join("log")).unwrap();
    fs::write(directory.path().join("kmsg"), "").unwrap();
    let log = log(directory.path());
    for _ in 0..1000 {
        log.line("a line");
    }
    assert!(fs::metadata(directory.path().join("kmsg")).unwrap().len() > 0);
}
