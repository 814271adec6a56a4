//! What a mount tells about itself, and what it gives the kernel unasked.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use support::content::{Content, Fill};
use support::kinds::Kind;
use support::plan::{Meta, Plan, ROOT, What};
use support::program::{ok, refuse, unmount};
use support::same::assert_same;
use support::scratch::Scratch;

fn status(mount: &Path) -> Value {
    serde_json::from_str(&ok(words!["status", "--json", mount])).unwrap()
}

fn count(status: &Value, pointer: &str) -> u64 {
    status.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}: {status}"))
}

/// Waits until a count has come up to what is expected.
#[track_caller]
fn wait_for(mount: &Path, pointer: &str, expected: u64) -> Value {
    for _ in 0..500 {
        let found = status(mount);
        if count(&found, pointer) >= expected {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{pointer} does not reach {expected}: {}", status(mount));
}

/// Forty small files that share a block, in one directory, and a large one.
fn shared() -> Plan {
    let mut plan = Plan::new(Meta::plain(0o755));
    for number in 0..40 {
        let name = format!("small {number:02}");
        let content = Content::whole(2000, Fill::Random(number));
        plan.add(ROOT, name.as_bytes(), What::File(content), Meta::plain(0o644));
    }
    let content = Content::whole(1_000_000, Fill::Random(99));
    plan.add(ROOT, b"large", What::File(content), Meta::plain(0o644));
    plan
}

#[test]
fn the_numbers_of_a_mount_are_its_own() {
    let scratch = Scratch::new();
    let (source, layout, mount) = (scratch.dir("s"), scratch.join("l"), scratch.dir("m"));
    shared().make(&source, None);
    ok(words!["build", "-q", source, layout, "t"]);
    ok(words!["mount", layout, "t", mount]);
    let before = status(&mount);
    assert_eq!(count(&before, "/requests/read"), 0);
    assert_eq!(std::fs::read(mount.join("small 07")).unwrap().len(), 2000);
    let after = status(&mount);
    assert_eq!(count(&after, "/requests/read"), 1);
    assert_eq!(count(&after, "/bytes_read"), 2000);
    assert_eq!(count(&after, "/errors"), 0);
    let times = after["latency"]["read"].as_array().unwrap();
    assert_eq!(times.iter().map(|range| range[1].as_u64().unwrap()).sum::<u64>(), 1);
    let inspected: Value =
        serde_json::from_str(&ok(words!["inspect", "--json", layout, "t"])).unwrap();
    assert_eq!(after["manifest"], inspected["manifest"]);
    let process = format!("/proc/{}/comm", count(&after, "/pid"));
    assert_eq!(std::fs::read_to_string(process).unwrap(), "microfs\n");
    let text = ok(words!["status", mount]);
    assert!(text.contains("1 read") && text.contains("errors    0 for damage"), "{text}");
    unmount(&mount);
    refuse(words!["status", mount], &["no microfs mount", "nothing answers"]);
    refuse(words!["status", scratch.join("none")], &["cannot examine", "No such file"]);
}

#[test]
fn a_writable_mount_can_be_asked_too() {
    let scratch = Scratch::new();
    let (source, layout, mount) = (scratch.dir("s"), scratch.join("l"), scratch.dir("m"));
    shared().make(&source, None);
    ok(words!["build", "-q", source, layout, "t"]);
    ok(words!["mount", "-w", layout, "t", mount]);
    std::fs::write(mount.join("small 01"), "changed").unwrap();
    assert_eq!(std::fs::read(mount.join("small 02")).unwrap().len(), 2000);
    assert!(count(&status(&mount), "/requests/read") >= 1);
    unmount(&mount);
}

#[test]
fn who_has_read_two_files_of_a_block_is_given_the_rest() {
    let scratch = Scratch::new();
    let (source, layout, mount) = (scratch.dir("s"), scratch.join("l"), scratch.dir("m"));
    shared().make(&source, None);
    ok(words!["build", "-q", source, layout, "t"]);
    ok(words!["mount", layout, "t", mount]);
    // The kernel is given only what it knows.
    let listed = std::fs::read_dir(&mount).unwrap().count();
    assert_eq!(listed, 41);
    std::fs::read(mount.join("small 20")).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(count(&status(&mount), "/pushes"), 0, "one file tells nothing");
    std::fs::read(mount.join("small 21")).unwrap();
    wait_for(&mount, "/pushes", 38);
    assert_same(&source, &mount);
    let end = status(&mount);
    let small = count(&end, "/requests/read");
    // Two small ones, and the large one in requests of its own.
    assert!((2..2 + 12).contains(&small), "{end}");
    assert_eq!(count(&end, "/pushes_wasted"), 0);
    unmount(&mount);
}

#[test]
fn a_part_of_a_large_block_brings_the_rest_of_it() {
    let scratch = Scratch::new();
    let (source, layout, mount) = (scratch.dir("s"), scratch.join("l"), scratch.dir("m"));
    shared().make(&source, None);
    ok(words!["build", "-q", source, layout, "t"]);
    for (options, pushes) in [(&[][..], 7), (&["--no-push"][..], 0)] {
        let mut words = words!["mount", layout, "t", mount];
        words.extend(options.iter().map(Into::into));
        ok(words);
        let file = std::fs::File::open(mount.join("large")).unwrap();
        let expected = std::fs::read(source.join("large")).unwrap();
        // From the end, so that the kernel reads nothing ahead; 8 blocks, the
        // last one of 82,496 bytes.
        let mut page = [0; 4096];
        for block in (0..7u64).rev() {
            let offset = block * 131_072 + 65_536;
            file.read_exact_at(&mut page, offset).unwrap();
            let start = usize::try_from(offset).unwrap();
            assert_eq!(page, expected[start..start + 4096]);
            if pushes > 0 {
                wait_for(&mount, "/pushes", 7 - block);
            }
        }
        let before = count(&status(&mount), "/requests/read");
        for offset in (0..7 * 131_072u64).step_by(4096) {
            file.read_exact_at(&mut page, offset).unwrap();
            let start = usize::try_from(offset).unwrap();
            assert_eq!(page, expected[start..start + 4096]);
        }
        let after = status(&mount);
        if pushes > 0 {
            assert_eq!(count(&after, "/requests/read"), before, "all was there");
        }
        assert_eq!(count(&after, "/pushes"), pushes);
        drop(file);
        assert_same(&source, &mount);
        unmount(&mount);
    }
}

#[test]
fn many_parts_of_a_large_file_bring_all_of_it() {
    let scratch = Scratch::new();
    let (source, layout, mount) = (scratch.dir("s"), scratch.join("l"), scratch.dir("m"));
    let mut plan = Plan::new(Meta::plain(0o755));
    let content = Content::whole(40 * 131_072 + 5000, Fill::Random(5));
    plan.add(ROOT, b"large", What::File(content), Meta::plain(0o644));
    plan.make(&source, None);
    ok(words!["build", "-q", source, layout, "t"]);
    ok(words!["mount", layout, "t", mount]);
    let file = std::fs::File::open(mount.join("large")).unwrap();
    let expected = std::fs::read(source.join("large")).unwrap();
    let mut page = [0; 4096];
    // 16 of 41 blocks; from the end, so that the kernel reads nothing ahead.
    for block in (4..20u64).rev().map(|half| half * 2) {
        let offset = block * 131_072 + 65_536;
        file.read_exact_at(&mut page, offset).unwrap();
        let start = usize::try_from(offset).unwrap();
        assert_eq!(page, expected[start..start + 4096]);
    }
    // Each block in one go, none of them twice.
    let before = count(&wait_for(&mount, "/pushes", 41), "/requests/read");
    let mut found = vec![0; expected.len()];
    file.read_exact_at(&mut found, 0).unwrap();
    assert!(found == expected, "other content");
    let after = status(&mount);
    assert_eq!(count(&after, "/requests/read"), before, "all was there");
    assert_eq!(count(&after, "/pushes"), 41);
    drop(file);
    unmount(&mount);
}

/// Reads everything from several threads in different orders, over and over,
/// while the kernel is made to forget.
#[test]
fn pushed_bytes_are_the_right_ones_under_load() {
    for kind in [Kind::Mixed, Kind::Sizes, Kind::Sparse, Kind::Links] {
        for size in ["512", "4K", "128K"] {
            let scratch = Scratch::new();
            let (source, layout, mount) = (scratch.dir("s"), scratch.join("l"), scratch.dir("m"));
            kind.plan(8).make(&source, None);
            ok(words!["build", "-q", "-b", size, source, layout, "t"]);
            ok(words!["mount", "--cache-mb", "1", layout, "t", mount]);
            std::thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| assert_same(&source, &mount));
                }
            });
            assert_same(&source, &mount);
            assert_eq!(count(&status(&mount), "/errors"), 0);
            unmount(&mount);
        }
    }
}

fn get(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn metrics_are_given_by_http_and_in_a_file() {
    let scratch = Scratch::new();
    let (source, layout, mount) = (scratch.dir("s"), scratch.join("l"), scratch.dir("m"));
    shared().make(&source, None);
    ok(words!["build", "-q", source, layout, "t"]);
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    ok(words!["mount", "--metrics", free, layout, "t", mount]);
    std::fs::read(mount.join("small 07")).unwrap();
    let answer = get(&free, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    let label = format!("mount=\"{}\"", mount.display());
    let line = format!("microfs_requests_total{{{label},kind=\"read\"}} 1");
    assert!(body.lines().any(|found| found == line), "{line} in\n{body}");
    let last = format!("microfs_answer_seconds_bucket{{{label},kind=\"read\",le=\"+Inf\"}} 1");
    assert!(body.lines().any(|found| found == last), "{last} in\n{body}");
    assert!(get(&free, "PUT / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    // A second mount cannot have the same address, and is not left behind.
    let other = scratch.dir("other");
    refuse(
        words!["mount", "--metrics", free, layout, "t", other],
        &["cannot give metrics at", "in use"],
    );
    assert!(std::fs::read_dir(&other).unwrap().next().is_none());
    unmount(&mount);

    // The name of this machine is an address, and what is no file leaves none.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = free.port();
    ok(words!["mount", "--metrics", format!("localhost:{port}"), layout, "t", mount]);
    unmount(&mount);
    let folder = scratch.dir("folder");
    refuse(words!["mount", "--metrics", folder, layout, "t", other], &["folder", "metrics"]);
    assert!(!scratch.join("folder.new").exists());

    let file = scratch.join("metrics.prom");
    ok(words!["mount", "--metrics", file, layout, "t", mount]);
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("# TYPE microfs_requests_total counter\n"), "{text}");
    // Each name is explained once, before its first value.
    let names: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let mut once = names.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(names.len(), once.len());
    unmount(&mount);
}
