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

/// Prints an error with its causes on one line and gives the exit code.
pub fn report(result: anyhow::Result<Outcome>) -> ExitCode {
    match result {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Negative) => ExitCode::from(1),
        // Whoever read the output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("microfs: {}", one_line(&error));
            ExitCode::from(FAILURE)
        }
    }
}

/// The causes of an error, each once: some errors repeat their source's text.
fn one_line(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text.replace('\n', "; ")
}
