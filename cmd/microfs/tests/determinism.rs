//! The same tree and options give the same bytes, whatever else is different.
//!
//! `MICROFS_GOLDEN=update` records the digests anew instead of checking them.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

mod support;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::content::{Content, Fill};
use support::kinds::Kind;
use support::plan::{Meta, Plan, ROOT, What};
use support::program::{microfs, ok, succeed};
use support::scratch::Scratch;
use support::seeds;

/// Every file of a layout that other tools see, by path.
fn files(layout: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![layout.join("blobs")];
    for top in ["index.json", "oci-layout"] {
        found.insert(PathBuf::from(top), std::fs::read(layout.join(top)).unwrap());
    }
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let name = path.strip_prefix(layout).unwrap().to_path_buf();
                found.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[track_caller]
fn assert_equal(one: &Path, other: &Path) {
    let (one, other) = (files(one), files(other));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&one), names(&other));
    for (name, bytes) in &one {
        assert!(*bytes == other[name], "{} differs", name.display());
    }
}

#[test]
fn threads_runs_places_and_order_of_names_do_not_matter() {
    for seed in seeds() {
        for kind in Kind::ALL {
            eprintln!("{kind:?}, seed {seed}");
            let scratch = Scratch::new();
            let plan = kind.plan(seed);
            let plain = scratch.dir("a");
            plan.make(&plain, None);
            let elsewhere = scratch.dir("a much longer path/of other/depth");
            plan.make(&elsewhere, Some(seed + 1));
            // A tmpfs of its own has other device and inode numbers.
            let other = Scratch::new();
            let third = other.dir("c");
            plan.make(&third, Some(seed + 2));

            let first = scratch.join("first");
            ok(words!["build", "-q", "-j", "1", plain, first, "t"]);
            let runs = [
                (&plain, "1", scratch.join("again")),
                (&plain, "2", scratch.join("two threads")),
                (&elsewhere, "7", scratch.dir("far").join("away")),
                (&third, "3", other.join("layout")),
            ];
            for (source, threads, layout) in runs {
                ok(words!["build", "-q", "-j", threads, source, layout, "t"]);
                assert_equal(&first, &layout);
            }
        }
    }
}

/// A file, a directory and a link whose times are in the past or future of
/// the moment that the tests choose.
fn dated(times: [(i64, u32); 3]) -> Plan {
    let meta = |time| Meta { mtime: time, ..Meta::plain(0o755) };
    let mut plan = Plan::new(meta((5, 5)));
    let content = Content::whole(3000, Fill::Words(1));
    plan.add(ROOT, b"file", What::File(content), meta(times[0]));
    plan.add(ROOT, b"directory", What::Directory, meta(times[1]));
    plan.add(ROOT, b"link", What::Symlink(b"file".to_vec()), meta(times[2]));
    plan
}

fn build_at(epoch: Option<&str>, source: &Path, layout: &Path, more: &[&str]) {
    let mut words = words!["build", "-q", source, layout, "t"];
    words.extend(more.iter().map(OsString::from));
    let mut command = microfs(words);
    if let Some(epoch) = epoch {
        command.env("SOURCE_DATE_EPOCH", epoch);
    }
    succeed(&mut command);
}

#[test]
fn source_date_epoch_hides_later_times_and_dates_the_image() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.dir("one"), scratch.dir("two"));
    dated([(1_000, 9), (2_000_000_000, 1), (1_600_000_000, 1)]).make(&one, None);
    dated([(1_000, 9), (3_000_000_000, 0), (1_600_000_001, 0)]).make(&two, Some(3));
    let (first, second) = (scratch.join("l1"), scratch.join("l2"));
    build_at(Some("1600000000"), &one, &first, &[]);
    build_at(Some("1600000000"), &two, &second, &[]);
    assert_equal(&first, &second);
    let inspected: Value =
        serde_json::from_str(&ok(words!["inspect", "--json", first, "t"])).unwrap();
    // `date -u -d @1600000000 +%FT%TZ`
    assert_eq!(inspected["created"], json!("2020-09-13T12:26:40Z"));
    let listing = ok(words!["ls", first, "t"]);
    for name in ["/directory", "/link"] {
        let line = listing.lines().find(|line| line.contains(name)).unwrap();
        assert!(line.contains(" 1600000000.000000000 "), "{line}");
    }
    let file = listing.lines().find(|line| line.ends_with("/file")).unwrap();
    assert!(file.contains(" 1000.000000009 "), "earlier times stay: {file}");

    // The same as an option; the option wins over the variable.
    let third = scratch.join("l3");
    build_at(Some("7"), &two, &third, &["--clamp-mtime", "1600000000"]);
    let layers = |layout: &Path| {
        let text = ok(words!["inspect", "--json", layout, "t"]);
        serde_json::from_str::<Value>(&text).unwrap()["layers"].clone()
    };
    assert_eq!(layers(&first), layers(&third));
    let fourth = scratch.join("l4");
    build_at(None, &two, &fourth, &[]);
    assert_ne!(layers(&first), layers(&fourth));
}

#[test]
fn owner_and_time_options_make_trees_equal() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.dir("one"), scratch.dir("two"));
    let plan = |uid: u32, time| {
        let mut plan = Plan::new(Meta { uid, gid: uid + 1, mtime: time, ..Meta::plain(0o755) });
        let meta = Meta { uid: uid + 2, gid: uid, mtime: time, ..Meta::plain(0o600) };
        plan.add(ROOT, b"f", What::File(Content::whole(10, Fill::Zeros)), meta);
        plan
    };
    plan(5, (77, 1)).make(&one, None);
    plan(1000, (-8, 2)).make(&two, None);
    for (number, options) in
        [["--all-root", "--mtime", "-3"], ["--owner=7:8", "--mtime", "1700000000"]]
            .into_iter()
            .enumerate()
    {
        let layouts = [&one, &two].map(|source| {
            let layout = source.with_extension(number.to_string());
            build_at(None, source, &layout, &options);
            layout
        });
        assert_equal(&layouts[0], &layouts[1]);
        let listing = ok(words!["ls", layouts[0], "t"]);
        let (owner, time) =
            if number == 0 { ("0     0", "-3.") } else { ("7     8", "1700000000.") };
        assert!(
            listing.lines().all(|line| line.contains(owner) && line.contains(time)),
            "{listing}"
        );
    }
}

const GOLDEN_SEED: u64 = 20_260;
const GOLDEN_OPTIONS: [(&str, &str); 4] =
    [("512", "zstd:1"), ("4096", "none"), ("128K", "zstd:9"), ("1M", "zstd:19")];

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden/digests.json")
}

/// Digests of layer and manifest for a kind of tree and a pair of options.
fn digests(scratch: &Scratch, kind: Kind) -> Value {
    let source = scratch.dir("source");
    kind.plan(GOLDEN_SEED).make(&source, None);
    let mut all = serde_json::Map::new();
    for (size, compression) in GOLDEN_OPTIONS {
        let layout = scratch.join(&format!("{size}-{compression}").replace(':', "-"));
        let report = ok(words![
            "build",
            "--json",
            "-b",
            size,
            "-c",
            compression,
            "--config-platform",
            "linux/amd64",
            source,
            layout,
            "t"
        ]);
        let report: Value = serde_json::from_str(&report).unwrap();
        let name = format!("block size {size}, compression {compression}");
        all.insert(name, json!({ "layer": report["layer"], "manifest": report["manifest"] }));
    }
    Value::Object(all)
}

#[test]
fn digests_are_those_recorded() {
    let mut trees = serde_json::Map::new();
    for kind in Kind::ALL {
        let scratch = Scratch::new();
        trees.insert(format!("{kind:?}"), digests(&scratch, kind));
    }
    let found = json!({
        "encoder": microfs::writer::encoder(),
        "format_version": microfs::format::VERSION,
        "seed": GOLDEN_SEED,
        "trees": trees,
    });
    let path = golden_path();
    if std::env::var_os("MICROFS_GOLDEN").is_some_and(|value| value == "update") {
        let text = serde_json::to_string_pretty(&found).unwrap() + "\n";
        std::fs::write(&path, text).unwrap();
        return;
    }
    let how = "to record them anew: MICROFS_GOLDEN=update cargo test -p microfs-cli \
               --test determinism --test golden";
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; {how}", path.display()));
    let recorded: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        recorded["encoder"], found["encoder"],
        "the digests were recorded with another encoder; review why it changed, and {how}"
    );
    for kind in Kind::ALL {
        let kind = format!("{kind:?}");
        let (old, new) = (&recorded["trees"][&kind], &found["trees"][&kind]);
        assert_eq!(old, new, "{kind}: an unchanged encoder writes other bytes; {how}");
    }
    assert_eq!(recorded, found, "{how}");
}
