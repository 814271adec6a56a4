//! The `microfs` command: see `microfs --help`.

// These panic where nothing can be written: `output` has what does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

mod cli;
mod config_values;
mod exit;
mod image;
mod options;
mod output;
mod progress;
mod status;
mod verbs;
mod writable;

fn main() -> ExitCode {
    exit::report(cli::run())
}
