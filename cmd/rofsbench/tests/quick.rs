//! A whole run on a tiny tree.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// What is written and read: all kinds of readers, commands, a mount of layers.
const WORKLOADS: &str = "t0,t3,t4,t7,read-4,ls-lR,tar,seq,rand4k,sparse,ready-layers";

/// The program that is measured, built as this test was.
fn microfs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_BIN_EXE_rofsbench")).parent().unwrap();
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--locked", "--package", "microfs-cli", "--target-dir"]);
        cargo.arg(folder.parent().unwrap());
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success());
        folder.join("microfs")
    })
}

/// The driver on a tree of 60 files and 1 MiB. The caches of a machine that
/// others use are left alone.
fn rofsbench(scratch: &TempDir, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rofsbench"));
    command.args(["--quick", "--keep-caches", "--budget", "1M", "--files", "60", "--work"]);
    command.arg(scratch.path()).args(["-s", "directory,microfs", "--tool"]);
    command.arg(format!("microfs={}", microfs().display()));
    command.args(words).env_remove("ROOTFS").stdin(Stdio::null());
    command
}

fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{command:?}: {status}\n{out}{err}");
    out
}

fn load(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Neither mounts nor servers nor a folder of the run.
fn assert_nothing_is_left(scratch: &TempDir) {
    let path = scratch.path().to_str().unwrap();
    let run = format!("{path}/run-");
    let start = Instant::now();
    let left = || {
        let mut left = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&line).contains(&run) {
                left.push(String::from_utf8_lossy(&line).into_owned());
            }
        }
        left
    };
    while !left().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "still there: {:?}", left());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&run));
}

fn folders_of_runs(scratch: &TempDir) -> usize {
    let entries = fs::read_dir(scratch.path()).unwrap().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("run-")).count()
}

#[test]
fn a_quick_run_measures_writes_and_leaves_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let (out, save) = (scratch.path().join("out"), scratch.path().join("save"));
    let paths = ["--out", out.to_str().unwrap(), "--save", save.to_str().unwrap()];
    let words = [&["-n", "2", "-w", WORKLOADS], &paths[..]].concat();
    let text = succeed(&mut rofsbench(&scratch, &words));
    assert!(text.contains("### Targets, random"), "{text}");
    assert_nothing_is_left(&scratch);
    assert_eq!(folders_of_runs(&scratch), 0);

    let results = load(&out.join("results.json"));
    assert_eq!(results["is_complete"], true);
    assert_eq!(results["failed"].as_array().unwrap().len(), 0, "{}", results["failed"]);
    assert_eq!(results["options"]["drops_caches"], false);
    check_corpus(&results["corpora"][0], scratch.path());
    check_samples(&results);
    check_files(&out);
    assert_eq!(load(&save.join("results.json")), results);

    // Trees and images are used again, and results can be looked at again.
    let before = images(&scratch);
    succeed(&mut rofsbench(&scratch, &["-w", "seq"]));
    assert_eq!(images(&scratch), before);
    compare(&scratch, &out.join("results.json"));
}

/// Paths of images with the times they were made at.
fn images(scratch: &TempDir) -> Vec<(PathBuf, std::time::SystemTime)> {
    let entries = fs::read_dir(scratch.path().join("images")).unwrap().flatten();
    let mut found: Vec<_> = entries
        .filter(|entry| entry.path().is_dir())
        .map(|entry| (entry.path(), entry.metadata().unwrap().modified().unwrap()))
        .collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

/// As `find` and `du` see the tree, and exactly as large as was asked for.
fn check_corpus(corpus: &Value, scratch: &Path) {
    let tree = fs::read_dir(scratch.join("corpora")).unwrap().next().unwrap().unwrap().path();
    let find = |words: &[&str]| succeed(Command::new("find").arg(&tree).args(words));
    assert_eq!(corpus["name"], "random");
    assert_eq!(corpus["files"], find(&["-type", "f"]).lines().count());
    assert_eq!(corpus["directories"], find(&["-type", "d"]).lines().count());
    let sizes = find(&["-type", "f", "-printf", "%s\n"]);
    let sizes: Vec<u64> = sizes.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(corpus["bytes"], sizes.iter().sum::<u64>());
    assert_eq!(corpus["largest"], *sizes.iter().max().unwrap());
    // Hard links are read once for each name, and are one file for du.
    let du = succeed(Command::new("find").arg(&tree).args(["-type", "f", "-printf", "%i %s\n"]));
    let mut once: Vec<_> = du.lines().collect();
    once.sort_unstable();
    once.dedup();
    let sum = |line: &&str| line.split(' ').nth(1).unwrap().parse::<u64>().unwrap();
    assert_eq!(once.iter().map(sum).sum::<u64>(), 1 << 20);
}

fn check_samples(results: &Value) {
    let samples = results["samples"].as_array().unwrap();
    let bytes = results["corpora"][0]["bytes"].as_u64().unwrap();
    let of = |workload: &str, state: &str, system: &str| -> Vec<&Value> {
        let is = |sample: &&Value| {
            sample["workload"] == workload && sample["state"] == state && sample["system"] == system
        };
        samples.iter().filter(is).collect()
    };
    for workload in WORKLOADS.split(',').filter(|name| *name != "ready-layers") {
        for system in ["directory", "microfs"] {
            for state in ["fresh", "warm"] {
                let found = of(workload, state, system);
                assert_eq!(found.len(), 2, "{workload} {state} {system}");
                for sample in found {
                    assert!(sample["wall"].as_f64().unwrap() > 0.0, "{sample}");
                    assert_eq!(sample["server_cpu"].is_null(), system == "directory");
                    if ["t3", "t7", "read-4"].contains(&workload) {
                        assert_eq!(sample["bytes"], bytes, "{sample}");
                    }
                }
            }
        }
    }
    assert_eq!(of("rand4k", "fresh", "microfs")[0]["operations"], 20_000);
    assert_eq!(of("ready-layers", "fresh", "directory").len(), 0);
    let ready = of("ready-layers", "fresh", "microfs");
    assert_eq!(ready.len(), 2);
    for sample in ready {
        let memory = &sample["memory_before"];
        assert!(memory["resident"].as_u64().unwrap() > memory["anonymous"].as_u64().unwrap());
    }
}

fn check_files(out: &Path) {
    let page = fs::read_to_string(out.join("results.md")).unwrap();
    let row = page.lines().find(|line| line.starts_with("| read all, 4 readers | fresh |"));
    assert_eq!(row.unwrap().matches(" to ").count(), 2, "a spread for each system: {row:?}");
    let mut plots = 0;
    for entry in fs::read_dir(out).unwrap().flatten() {
        let path = entry.path();
        if path.extension() == Some(OsStr::new("svg")) {
            let script = "import sys, xml.dom.minidom as dom; dom.parse(sys.argv[1])";
            succeed(Command::new("/usr/bin/python3").args(["-c", script]).arg(&path));
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(page.contains(&format!("]({name})")), "{name} is not on the page");
            plots += 1;
        }
    }
    assert!(plots >= 5, "{plots} plots");
}

/// With itself a run has no changes; with one whose times are halved, each row
/// is slower.
fn compare(scratch: &TempDir, results: &Path) {
    let compare = |old: &Path| {
        let mut command = rofsbench(scratch, &["--from", results.to_str().unwrap(), "--compare"]);
        succeed(command.arg(old))
    };
    let text = compare(results);
    assert!(text.contains("### Slower by more than 10 %: 0 of "), "{text}");
    assert!(!text.contains("not of the same thing"), "{text}");
    let mut faster = load(results);
    for sample in faster["samples"].as_array_mut().unwrap() {
        sample["wall"] = 1e-9.into();
    }
    let old = scratch.path().join("old.json");
    fs::write(&old, faster.to_string()).unwrap();
    let text = compare(&old);
    let line = text.lines().find(|line| line.starts_with("### Slower")).unwrap();
    let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
    assert_eq!(numbers.len(), 3, "{line}");
    assert_eq!(numbers[1], numbers[2], "{line}");
    assert!(numbers[1] > 40, "{line}");
}

/// Starts a run that goes on for long, and returns when something is mounted.
fn start(scratch: &TempDir) -> Child {
    let mut command = rofsbench(scratch, &["-n", "100000", "-w", "read-4,seq"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let log = scratch.path().join(format!("run-{}", child.id())).join("server.log");
    while !log.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

#[test]
fn a_signal_ends_it_and_leaves_results() {
    let scratch = tempfile::tempdir().unwrap();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut child = start(&scratch);
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}");
        assert_nothing_is_left(&scratch);
        assert_eq!(folders_of_runs(&scratch), 0);
        let results = load(&scratch.path().join("results/results.json"));
        assert_eq!(results["is_complete"], false);
    }
}

#[test]
fn a_kill_leaves_no_mount() {
    let scratch = tempfile::tempdir().unwrap();
    let mut child = start(&scratch);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_nothing_is_left(&scratch);
    // The next run clears away what could not be.
    assert_eq!(folders_of_runs(&scratch), 1);
    succeed(&mut rofsbench(&scratch, &["-w", "seq"]));
    assert_eq!(folders_of_runs(&scratch), 0);
}

#[test]
fn wrong_words_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    for words in [
        ["-w", "nothing"],
        ["-b", "3000"],
        ["-s", "ext4"],
        ["--tool", "microfs@x=/nowhere"],
        ["--rounds", "0"],
    ] {
        let output = rofsbench(&scratch, &words).output().unwrap();
        assert!(!output.status.success(), "{words:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{words:?}");
    }
}
