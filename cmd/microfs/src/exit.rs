//! Exit codes, and the one place where errors become text.

use std::process::ExitCode;

use crate::output::is_broken_pipe;

/// How a command ended, other than by an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It did what was asked: 0.
    Done,
    /// It answered "no": trees differ, damage was found. 1.
    Negative,
}

/// Something went wrong: 1. Usage errors are clap's: 2.
const FAILURE: u8 = 1;

/// Prints an error with its causes and gives the exit code.
pub fn report(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Negative) => ExitCode::from(1),
        // Whoever read the output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("microfs: {}", chain_text(error.as_ref()));
            ExitCode::from(FAILURE)
        }
    }
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
