//! What the tests of the program share: seeded trees, private filesystems to
//! put them on, and the program itself.
//!
//! Environment: `MICROFS_SEED=N` makes every generated tree from seed N,
//! `MICROFS_LONG=1` asks for all sizes and many seeds.
#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)]

/// Words of a command line, of any types that are text or paths.
#[macro_export]
macro_rules! words {
    ($($word:expr),* $(,)?) => {
        vec![$(AsRef::<std::ffi::OsStr>::as_ref(&$word).to_os_string()),*]
    };
}

pub mod content;
pub mod dump;
pub mod image;
pub mod kinds;
pub mod layers;
pub mod mutate;
pub mod plan;
pub mod program;
pub mod random;
pub mod read_only;
pub mod same;
pub mod scratch;
pub mod server;
pub mod special_kinds;
pub mod users;

/// Whether the long versions of the tests are asked for.
pub fn is_long() -> bool {
    std::env::var_os("MICROFS_LONG").is_some_and(|value| value == "1")
}

/// The seeds to make trees from; each is printed, so that a failure shows it.
pub fn seeds() -> Vec<u64> {
    let seeds = match std::env::var("MICROFS_SEED") {
        Ok(text) => vec![text.parse().expect("MICROFS_SEED must be a number")],
        Err(_) if is_long() => {
            let since = std::time::UNIX_EPOCH.elapsed().unwrap();
            (1..=6).chain([since.as_secs()]).collect()
        }
        Err(_) => vec![1],
    };
    eprintln!("seeds {seeds:?}; MICROFS_SEED=N replays one");
    seeds
}

/// Says what is missing instead of failing in the middle.
#[track_caller]
pub fn need_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test makes devices and mounts, so it must be run as root"
    );
}
