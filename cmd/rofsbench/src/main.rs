//! The `rofsbench` command: see `rofsbench --help`.

use std::process::ExitCode;

mod child;
mod cli;
mod corpus;
mod interrupt;
mod isolate;
mod machine;
mod random;
mod report;
mod results;
mod run;
mod scale;
mod stage;
mod stats;
mod system;
mod workload;

fn main() -> ExitCode {
    cli::main().unwrap_or_else(|error| {
        eprintln!("rofsbench: {error:#}");
        ExitCode::from(if interrupt::is_wanted() { 130 } else { 1 })
    })
}
