use std::sync::{Arc, Mutex};

use super::{Log, Throttled};

#[test]
fn a_flood_is_thinned_out() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let log = Throttled::new(Log::new(move |line| sink.lock().unwrap().push(line.to_owned())));
    for number in 1..=1024 {
        log.line(|| format!("line {number}"));
    }
    let seen = seen.lock().unwrap();
    // 64 of them always, then 128, 256, 512 and 1024.
    assert_eq!(seen.len(), 68);
    assert_eq!(seen[63], "line 64");
    assert!(seen[67].starts_with("line 1024 (1024 such lines"));
}

#[test]
fn lines_are_appended_to_a_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    for line in ["one", "two"] {
        Log::append_to(&path).unwrap().line(line);
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"microfs: one\nmicrofs: two\n");
}
