//! What is done with a mount, and how it is timed.
//!
//! Reading and stat are done by threads of this process: no time of starting
//! programs is in them. Whole commands are timed by hyperfine.

pub mod command;
pub mod list;
pub mod plan;
mod readers;

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use command::{Bench, Tool};
use plan::Plan;

/// What the caches hold when a workload begins.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Nothing: caches were dropped, then the mount was made.
    Cold,
    /// The image is in the page cache; the mount was just made.
    Fresh,
    /// The same workload just ran on the same mount.
    Warm,
}

impl State {
    /// As in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Fresh => "fresh",
            Self::Warm => "warm",
        }
    }
}

/// Which kind of access a workload shows; one plot each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    Metadata,
    Reading,
    Access,
    Start,
    /// Of mounts, not of what is in them.
    Scale,
}

impl Group {
    /// All, in the order of the report.
    pub const ALL: [Self; 5] =
        [Self::Metadata, Self::Reading, Self::Access, Self::Start, Self::Scale];

    /// As on the command line and in names of plots.
    pub fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Reading => "reading",
            Self::Access => "access",
            Self::Start => "start",
            Self::Scale => "scale",
        }
    }

    /// For a heading.
    pub fn title(self) -> &'static str {
        match self {
            Self::Metadata => "names and attributes",
            Self::Reading => "reading everything",
            Self::Access => "parts: in order, at random, a few files",
            Self::Start => "starting programs",
            Self::Scale => "mounting",
        }
    }
}

/// How a workload is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A command, timed by hyperfine.
    Command(Tool),
    /// Walks the tree, then so many threads read all files.
    ReadAll(usize),
    /// Reads all files of a list block by block.
    Blocks { random_files: bool, random_blocks: bool },
    /// lstat of all files of a list.
    Stat { random_files: bool },
    /// Reads small files at random.
    Sparse,
    /// Reads the largest file from start to end, 1 MiB at once.
    Sequential,
    /// Reads 4 KiB of the largest file, again and again.
    Random4K,
    /// Mounts; not done on a mount.
    Mounting,
}

/// One row of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    pub name: &'static str,
    pub title: &'static str,
    pub group: Group,
    pub kind: Kind,
}

/// What one run of a workload took.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pass {
    /// Seconds.
    pub wall: f64,
    /// Seconds of all processors that reader threads or the command used.
    pub client_cpu: f64,
    /// Bytes read; 0 for commands.
    pub bytes: u64,
    /// Files, calls or requests.
    pub operations: u64,
}

impl Workload {
    /// Does it once on what is mounted at `at`.
    pub fn run(&self, at: &Path, plan: &Plan, bench: &Bench) -> Result<Pass> {
        match self.kind {
            Kind::Command(tool) => bench.time(tool, at),
            Kind::ReadAll(threads) => timed(|| readers::read_all(at, plan, threads)),
            Kind::Blocks { random_files, random_blocks } => {
                let files = if random_files { &plan.shuffled } else { &plan.in_order };
                timed(|| readers::blocks(at, plan, files, random_blocks))
            }
            Kind::Stat { random_files } => {
                let files = if random_files { &plan.shuffled } else { &plan.in_order };
                timed(|| readers::stat(at, plan, files))
            }
            Kind::Sparse => timed(|| readers::whole(at, plan, &plan.sparse)),
            Kind::Sequential => timed(|| readers::sequential(at, plan)),
            Kind::Random4K => timed(|| readers::random(at, plan)),
            Kind::Mounting => Ok(Pass::default()),
        }
    }
}

/// Bytes read and operations done.
struct Done {
    bytes: u64,
    operations: u64,
}

fn timed(work: impl FnOnce() -> Result<Done>) -> Result<Pass> {
    let cpu = process_seconds();
    let start = Instant::now();
    let done = work()?;
    let wall = start.elapsed().as_secs_f64();
    let client_cpu = process_seconds() - cpu;
    Ok(Pass { wall, client_cpu, bytes: done.bytes, operations: done.operations })
}

fn process_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
