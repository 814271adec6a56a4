//! Where a serving mount reports what it cannot answer with an errno alone.

use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::syslog::SystemLog;

/// Lines that are always written; after them only every line whose number is
/// a power of two is, so a damaged hot block cannot fill a disk.
const ALWAYS: u64 = 64;

/// A sink for single lines (without line feed). Cheap to clone.
#[derive(Clone)]
pub struct Log(Arc<dyn Fn(&str) + Send + Sync>);

impl Log {
    /// A sink that hands each line to `write`, from any thread.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(write))
    }

    /// Lines go to standard error, preceded by `microfs: `.
    #[must_use]
    pub fn stderr() -> Self {
        Self::new(|line| {
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(std::io::stderr().lock(), "microfs: {line}");
        })
    }

    /// Lines are appended to a file, each in one write; `/dev/kmsg` works.
    ///
    /// # Errors
    /// Those of opening the file, which is created when it is missing.
    pub fn append_to(path: &Path) -> std::io::Result<Self> {
        let file = std::fs::File::options().append(true).create(true).open(path)?;
        Ok(Self::new(move |line| {
            let _ = (&file).write_all(format!("microfs: {line}\n").as_bytes());
        }))
    }

    /// Lines go to the system's log, each with `label` before it: to the syslog
    /// daemon, or to the kernel's log where no daemon listens. Where neither can
    /// be reached they are lost.
    #[must_use]
    pub fn system(label: &str) -> Self {
        let (log, label) = (SystemLog::new(), label.to_owned());
        Self::new(move |line| log.line(&format!("{label}: {line}")))
    }

    /// Hands a line on.
    pub fn line(&self, line: &str) {
        (self.0)(line);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

/// A [`Log`] for lines that requests cause, thinned out (see [`ALWAYS`]).
pub(crate) struct Throttled {
    log: Log,
    lines: AtomicU64,
}

impl Throttled {
    pub(crate) fn new(log: Log) -> Self {
        Self { log, lines: AtomicU64::new(0) }
    }

    pub(crate) fn line(&self, line: impl FnOnce() -> String) {
        let number = self.lines.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if number <= ALWAYS {
            self.log.line(&line());
        } else if number.is_power_of_two() {
            self.log.line(&format!("{} ({number} such lines so far, most not shown)", line()));
        }
    }
}

#[cfg(test)]
mod tests;
