//! Signals that ask a serving process to end.

use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::session::Event;

/// Hands signals on as events until it is dropped.
#[derive(Debug)]
pub(crate) struct Watcher {
    handle: Handle,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Watches SIGTERM, SIGINT and SIGHUP, less those that the process was
    /// started with as ignored (nohup, a shell's background job).
    ///
    /// # Errors
    /// Those of installing a handler and of starting a thread.
    pub(crate) fn start(events: Sender<Event>) -> std::io::Result<Self> {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let watched = [SIGTERM, SIGINT, SIGHUP].into_iter().filter(|number| {
            let bit = u32::try_from(*number).ok().and_then(|number| number.checked_sub(1));
            bit.and_then(|bit| 1_u64.checked_shl(bit)).is_none_or(|bit| ignored & bit == 0)
        });
        let mut signals = Signals::new(watched)?;
        let handle = signals.handle();
        let thread =
            std::thread::Builder::new().name("microfs-signal".into()).spawn(move || {
                for _ in signals.forever() {
                    if events.send(Event::Signal).is_err() {
                        break;
                    }
                }
            })?;
        Ok(Self { handle, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.handle.close();
        if let Some(thread) = self.thread.take() {
            // It does not panic, and if it did there is nothing to save.
            let _ = thread.join();
        }
    }
}

/// The set of ignored signals in the text of `/proc/self/status`.
fn ignored(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
