//! The wish to stop: from a signal, or because the process outside has gone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static WANTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Somebody wants the work to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// From now on SIGINT, SIGTERM and SIGHUP only leave a mark.
pub fn catch_signals() -> std::io::Result<()> {
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&WANTED))?;
    }
    Ok(())
}

/// As a signal does.
pub fn request() {
    WANTED.store(true, Ordering::Relaxed);
}

/// Whether to stop.
pub fn is_wanted() -> bool {
    WANTED.load(Ordering::Relaxed)
}

/// As [`is_wanted`], and forgets the wish.
pub fn take() -> bool {
    WANTED.swap(false, Ordering::Relaxed)
}

/// An error when it is time to stop.
pub fn check() -> Result<(), Interrupted> {
    if is_wanted() { Err(Interrupted) } else { Ok(()) }
}
