//! Everything that a run found out, as it is stored.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::system::server::Memory;
use crate::workload::State;

/// Of the layout of the JSON file.
const SCHEMA: u32 = 1;

/// A run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    pub schema: u32,
    /// Times of day, as text.
    pub started: String,
    pub finished: String,
    /// Whether all rounds were done.
    pub is_complete: bool,
    pub machine: Machine,
    pub options: Settings,
    pub systems: Vec<SystemInfo>,
    pub corpora: Vec<CorpusInfo>,
    pub images: Vec<ImageInfo>,
    pub samples: Vec<Sample>,
    /// What was not measured.
    pub skipped: Vec<Remark>,
    /// What one should know when one looks at the figures.
    pub remarks: Vec<Remark>,
    /// What went wrong.
    pub failed: Vec<Failure>,
}

/// What decides about the figures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    pub rounds: u32,
    pub slow_rounds: u32,
    pub seed: u64,
    /// Bytes.
    pub block_size: u64,
    /// Bytes.
    pub read_block: u64,
    /// Of zstd.
    pub level: u32,
    /// Whether the caches were dropped before each cold run.
    pub drops_caches: bool,
    /// Processors that were used.
    pub cpus: u32,
}

/// A system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SystemInfo {
    pub name: String,
    /// Of what serves the mount.
    pub version: String,
    /// Of what makes the image.
    pub builder: Option<String>,
    /// Whether a process serves the mount.
    pub is_fuse: bool,
    /// Most threads of that process that were seen after a workload.
    pub threads: u64,
    /// Measured in fewer rounds.
    pub is_slow: bool,
    /// Further words for the mount command.
    pub arguments: String,
}

/// A tree.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CorpusInfo {
    pub name: String,
    pub files: u64,
    pub directories: u64,
    pub others: u64,
    pub bytes: u64,
    /// Bytes of the largest file.
    pub largest: u64,
    /// Files that have extended attributes.
    pub with_xattrs: u64,
    /// Digest of all of it.
    pub digest: String,
}

/// An image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImageInfo {
    pub corpus: String,
    pub format: String,
    pub builder: String,
    pub bytes: u64,
    /// Of one build beside whatever else the machine did: no measurement.
    pub build_seconds: f64,
    pub command: String,
}

/// One run of one workload.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sample {
    pub corpus: String,
    pub workload: String,
    pub state: State,
    pub system: String,
    /// From 1 on.
    pub round: u32,
    /// Seconds.
    pub wall: f64,
    /// Seconds of the readers or the command.
    pub client_cpu: f64,
    /// Seconds of the process that serves the mount, in the kernel's ticks.
    pub server_cpu: Option<f64>,
    /// Seconds that all processors were busy meanwhile, whoever used them; in ticks.
    pub system_cpu: f64,
    pub bytes: u64,
    pub operations: u64,
    /// Of the process that serves the mount, before the workload.
    pub memory_before: Option<Memory>,
    /// The same after it.
    pub memory_after: Option<Memory>,
}

/// Something that is so, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remark {
    pub what: String,
    pub why: String,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub corpus: String,
    pub workload: String,
    pub system: String,
    /// How often.
    pub times: u32,
    /// The first time.
    pub why: String,
}

impl Failure {
    /// Whether it is of this row and column.
    pub fn is_of(&self, corpus: &str, workload: &str, system: &str) -> bool {
        self.corpus == corpus && self.workload == workload && self.system == system
    }
}

impl Results {
    /// Of nothing yet.
    pub fn new(started: String, machine: Machine, options: Settings) -> Self {
        Self {
            schema: SCHEMA,
            started,
            finished: String::new(),
            is_complete: false,
            machine,
            options,
            systems: Vec::new(),
            corpora: Vec::new(),
            images: Vec::new(),
            samples: Vec::new(),
            skipped: Vec::new(),
            remarks: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Reads a file that [`Self::store`] wrote.
    pub fn load(path: &Path) -> Result<Self> {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let results: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{}: no results of rofsbench", path.display()))?;
        ensure!(results.schema == SCHEMA, "{}: of another version", path.display());
        Ok(results)
    }

    /// Writes a file; never half of one.
    pub fn store(&self, path: &Path) -> Result<()> {
        let unfinished = path.with_extension("json.tmp");
        let write = || -> Result<()> {
            serde_json::to_writer_pretty(File::create(&unfinished)?, self)?;
            Ok(std::fs::rename(&unfinished, path)?)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}
