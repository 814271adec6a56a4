//! What the measurements were made on.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::child;

/// A machine, as far as it matters for the figures.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel release and version.
    pub kernel: String,
    /// Model name.
    pub cpu: String,
    /// Processors that the benchmark may use.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Distribution.
    pub system: String,
    /// Filesystem that holds corpora and images.
    pub filesystem: String,
    /// How the kernel decompresses, as its configuration says.
    pub kernel_options: Vec<String>,
    /// Kind of virtual machine, or `none`.
    pub virtualization: String,
}

impl Machine {
    /// This one, with corpora and images below `work`.
    pub fn here(work: &Path) -> Self {
        let uname = rustix::system::uname();
        let cpuinfo = read("/proc/cpuinfo");
        let model = field(&cpuinfo, "model name").or_else(|| field(&cpuinfo, "Model"));
        let release = read("/etc/os-release");
        let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
        let mut findmnt = Command::new("findmnt");
        findmnt.args(["--noheadings", "--output", "FSTYPE,OPTIONS", "--target"]).arg(work);
        Self {
            kernel: format!(
                "{} {}",
                uname.release().to_string_lossy(),
                uname.version().to_string_lossy()
            ),
            cpu: model.unwrap_or_else(|| uname.machine().to_string_lossy().into_owned()),
            cpus: sched_getaffinity(None).map_or(0, |set| set.count()),
            memory: field(&read("/proc/meminfo"), "MemTotal")
                .and_then(|text| text.strip_suffix(" kB")?.trim().parse::<u64>().ok())
                .map_or(0, |kib| kib * 1024),
            system: name.unwrap_or("unknown").trim_matches('"').to_owned(),
            filesystem: child::output(&mut findmnt)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" "),
            kernel_options: kernel_options(&uname.release().to_string_lossy()),
            virtualization: first_line(&child::output(&mut Command::new("systemd-detect-virt"))),
        }
    }
}

/// Confines this process and all that it starts to the first of its processors.
/// Threads of the kernel stay where they are.
pub fn confine(cpus: usize) -> Result<()> {
    let allowed = sched_getaffinity(None)?;
    let mut set = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).take(cpus).for_each(|cpu| set.set(cpu));
    sched_setaffinity(None, &set).context("cannot set the processors")
}

/// Time of day as text, in UTC.
pub fn now() -> String {
    first_line(&child::output(Command::new("date").args(["--utc", "+%Y-%m-%d %H:%M:%S UTC"])))
}

/// What the kernel's configuration says of decompression, where it tells.
fn kernel_options(release: &str) -> Vec<String> {
    let mut zcat = Command::new("zcat");
    let mut text = child::output(zcat.arg("/proc/config.gz"));
    if !text.contains("CONFIG_") {
        text = read(&format!("/boot/config-{release}"));
    }
    const WANTED: [&str; 5] = [
        "CONFIG_SQUASHFS_DECOMP_",
        "CONFIG_SQUASHFS_FILE_",
        "CONFIG_SQUASHFS_CHOICE_DECOMP_BY_MOUNT",
        "CONFIG_EROFS_FS_PCPU_KTHREAD",
        "CONFIG_FUSE_IO_URING",
    ];
    let is_wanted = |line: &&str| WANTED.iter().any(|option| line.starts_with(option));
    text.lines().filter(is_wanted).map(str::to_owned).collect()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Value of the first `NAME: VALUE` line.
fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}
