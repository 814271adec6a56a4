//! Exit codes, and the one place where errors become text.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use microfs::scan::ScanError;
use microfs::writer::WriteError;

use crate::output::is_broken_pipe;

/// How a command ended, other than by an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what was asked: 0.
    Done,
    /// It answered "no": trees differ, damage was found. 1.
    Negative,
    /// It failed and has said why; the exit code is this.
    Failed(u8),
}

/// Something went wrong.
const FAILURE: u8 = 1;
/// The command line is wrong, as with clap.
pub const USAGE: u8 = 2;

/// What is wrong with the command line, when only the work shows it.
#[derive(Debug)]
pub struct UsageError(String);

impl UsageError {
    /// With the text of another error.
    pub fn of(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

/// Whether an error says that the command line is wrong.
pub fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<UsageError>())
}

/// Prints an error with its causes and gives the exit code.
pub fn report(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Negative) => ExitCode::from(1),
        Ok(Outcome::Failed(code)) => ExitCode::from(code),
        // Whoever read the output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            print(&error);
            ExitCode::from(if is_usage(&error) { USAGE } else { FAILURE })
        }
    }
}

/// Prints an error with its causes, and what can be done about it.
pub fn print(error: &anyhow::Error) {
    let text = chain_text(error.as_ref());
    // Where it cannot be said, the exit code says it.
    let _ = writeln!(std::io::stderr(), "microfs: {text}{}", remedy(error).unwrap_or_default());
}

/// What the user can do about an error that the source is to blame for.
fn remedy(error: &anyhow::Error) -> Option<&'static str> {
    let scan_error = |cause: &'_ (dyn std::error::Error + 'static)| {
        let source = match cause.downcast_ref::<WriteError>() {
            Some(WriteError::Source(source)) => source.downcast_ref::<ScanError>(),
            _ => cause.downcast_ref::<ScanError>(),
        };
        source.map(|error| matches!(error, ScanError::Changed { .. } | ScanError::Vanished { .. }))
    };
    error.chain().any(|cause| scan_error(cause) == Some(true)).then_some(
        ": build from a snapshot of the tree, or leave out what changes (--on-error skip)",
    )
}

/// An error and its causes on one line, each once: some repeat their source's text.
pub fn chain_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = next.source();
    }
    text.replace('\n', "; ")
}
