//! The `microfs` command: see `microfs --help`.

use std::process::ExitCode;

mod cli;
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
