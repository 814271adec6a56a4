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
#[path = "../../../../pkg/tests/support/replay.rs"]
pub mod replay;
pub mod same;
pub mod scratch;
pub mod server;
pub mod special_kinds;
pub mod tars;
pub mod users;

/// The seeds to make trees from, one after the other; when the test fails, the
/// command is printed that repeats it with the one at hand.
pub fn seeds() -> impl Iterator<Item = u64> {
    let seeds = match wanted_seed() {
        Some(seed) => vec![seed],
        None if is_long() => {
            let since = std::time::UNIX_EPOCH.elapsed().unwrap();
            (1..=6).chain([since.as_secs()]).collect()
        }
        None => vec![1],
    };
    // Kept until the next seed is asked for.
    let mut replay = None;
    seeds.into_iter().inspect(move |seed| drop(replay.replace(Replay(*seed))))
}

pub use replay::is_long;
use replay::{Replay, wanted_seed};

/// Says what is missing instead of failing in the middle.
#[track_caller]
pub fn need_root() {
    assert!(
        rustix::process::geteuid().is_root(),
        "this test makes devices and mounts, so it must be run as root"
    );
}
