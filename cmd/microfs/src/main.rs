//! The `microfs` command: see `microfs --help`.

// These panic where nothing can be written: `output` has what does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    // With a handler, whatever it does, a file that would become larger than the
    // process may make it is an error of the write and not the end of the process.
    let ignored = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, ignored);
    exit::report(cli::run())
}
