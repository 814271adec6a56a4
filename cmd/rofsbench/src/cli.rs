//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;

use crate::corpus::Kind;
use crate::isolate::{self, Side};
use crate::results::Results;
use crate::workload::{Group, State, list};
use crate::{interrupt, machine, report, run};

/// Packages of the Debian root filesystem: at least 1 GB and 25,000 files.
const PACKAGES: [&str; 9] = [
    "g++",
    "git",
    "golang-go",
    "libboost-dev",
    "nodejs",
    "perl",
    "python3",
    "python3-numpy",
    "vim",
];

/// Measures reading through microfs, its peers and the plain directory
///
/// Builds trees and images, mounts them by each system in turn, and writes JSON, Markdown tables and
/// SVG plots. Images have zstd and one block size wherever a system knows them. The systems take
/// turns in random order in every round, so that a slow moment of the machine meets all of them.
/// Everything is mounted in namespaces of its own, which end with the program, however it ends.
/// As root all is measured; an ordinary user gets a user namespace, without kernel filesystems and
/// with caches that are not dropped.
#[derive(Debug, Parser)]
#[command(name = "rofsbench", version)]
pub struct Options {
    /// Rounds [default: 5, with --quick 1]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Rounds in which slow systems are measured, such as squashfuse
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub slow_rounds: u32,
    /// Seed of generated trees and of all random orders
    #[arg(short = 'r', long, default_value_t = 1)]
    pub seed: u64,
    /// Block size of images, and of requests in tests 3, 5, 7 and 8
    #[arg(short, long, value_name = "SIZE", default_value = "128K", value_parser = size)]
    pub block_size: u64,
    /// Bytes of a request in these tests when it is another
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub read_block: Option<u64>,
    /// Bytes of the pseudo-random tree [default: 112M, with --quick 8M]
    #[arg(short = 'B', long = "budget", value_name = "SIZE", value_parser = size)]
    budget_option: Option<u64>,
    /// Files of the pseudo-random tree [default: 5000, with --quick 400]
    #[arg(long = "files", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    files_option: Option<u64>,
    /// Bytes of the media files [default: 256M, with --quick 8M]
    #[arg(long = "media-size", value_name = "SIZE", value_parser = size)]
    media_option: Option<u64>,
    /// Files of the image with a million files [default: 1000000, with --quick 5000]
    #[arg(long = "scale-files", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    scale_option: Option<u64>,
    /// Level of zstd
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=22))]
    pub level: u32,
    /// Trees to read [default: all, with --quick random]
    #[arg(short, long = "corpus", value_enum, value_delimiter = ',')]
    corpora: Vec<Kind>,
    /// Systems to measure [default: all there are]
    #[arg(short, long = "system", value_name = "NAME", value_delimiter = ',')]
    pub systems: Vec<String>,
    /// Workloads or groups of them: t0 to t8, classic, metadata, reading, access, start, scale, or
    /// a name from the tables [default: all]
    #[arg(short, long = "workload", value_name = "NAME", value_delimiter = ',')]
    pub workloads: Vec<String>,
    /// States of the caches to begin in
    #[arg(long = "states", value_enum, value_delimiter = ',', default_value = "cold,warm")]
    pub states: Vec<State>,
    /// A program of another place or version: microfs, squashfuse, squashfuse_ll, mksquashfs,
    /// mkfs.erofs, erofsfuse or puzzlefs. With @LABEL it is measured beside the installed one
    #[arg(short, long = "tool", value_name = "NAME[@LABEL]=PATH", value_parser = tool)]
    pub tools: Vec<Tool>,
    /// Further words for the mount command of a system, such as microfs='--threads 1'
    #[arg(long, value_name = "SYSTEM=WORDS", value_parser = pair)]
    pub mount_args: Vec<(String, String)>,
    /// Use only so many processors
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// Do not drop the caches of the whole machine
    #[arg(long)]
    pub keep_caches: bool,
    /// Little of everything, for a try and for automatic tests
    #[arg(long)]
    pub quick: bool,
    /// Read this tree instead of a Debian one
    #[arg(long, value_name = "DIR", env = "ROOTFS")]
    pub rootfs: Option<PathBuf>,
    /// Packages of the Debian tree
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = PACKAGES)]
    pub packages: Vec<String>,
    /// Suite of the Debian tree [default: that of this machine]
    #[arg(long, value_name = "NAME")]
    pub suite: Option<String>,
    /// Mirror that the Debian tree comes from [default: that of this machine]
    #[arg(long, value_name = "URL")]
    pub mirror: Option<String>,
    /// Script that makes the Debian tree
    #[arg(long, value_name = "FILE", default_value = "testdata/rootfs.sh")]
    pub rootfs_script: PathBuf,
    /// Folder for trees and images, which are kept for the next time
    #[arg(long, value_name = "DIR", default_value = "target/bench")]
    pub work: PathBuf,
    /// Folder for results [default: results in the folder of --work]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Another folder for results, such as testdata/bench
    #[arg(long, value_name = "DIR")]
    save: Option<PathBuf>,
    /// Show what is faster and slower than in these earlier results
    #[arg(long, value_name = "OLD.json")]
    compare: Option<PathBuf>,
    /// Percent by which a median must have changed to be shown by --compare
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    threshold: f64,
    /// Measure nothing: report on these results
    #[arg(long, value_name = "RESULTS.json")]
    from: Option<PathBuf>,
}

/// A program that the user named.
#[derive(Debug, Clone)]
pub struct Tool {
    pub program: String,
    pub label: Option<String>,
    pub path: PathBuf,
}

/// Options with what depends on others settled.
impl Options {
    /// How often everything is measured.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// Bytes of the pseudo-random tree.
    pub fn budget(&self) -> u64 {
        self.budget_option.unwrap_or(if self.quick { 8 << 20 } else { 112 << 20 })
    }

    /// Files of the pseudo-random tree.
    pub fn files(&self) -> u64 {
        self.files_option.unwrap_or(if self.quick { 400 } else { 5000 })
    }

    /// Bytes of the media files.
    pub fn media_size(&self) -> u64 {
        self.media_option.unwrap_or(if self.quick { 8 << 20 } else { 256 << 20 })
    }

    /// Files of the image with very many.
    pub fn scale_files(&self) -> u64 {
        self.scale_option.unwrap_or(if self.quick { 5000 } else { 1_000_000 })
    }

    /// Files of each layer of the image that has layers.
    pub fn layer_files(&self) -> u64 {
        if self.quick { 200 } else { list::LAYER_FILES }
    }

    /// Trees to read.
    pub fn corpora(&self) -> Vec<Kind> {
        match &*self.corpora {
            [] if self.quick => vec![Kind::Random],
            [] => Kind::ALL.to_vec(),
            chosen => Kind::ALL.into_iter().filter(|kind| chosen.contains(kind)).collect(),
        }
    }

    /// Whether a workload is to be done.
    pub fn wants(&self, workload: &list::Workload) -> bool {
        self.workloads.is_empty()
            || self.workloads.iter().any(|name| {
                name == workload.name
                    || name == workload.group.name()
                    || (name == "classic" && list::is_classic(workload))
            })
    }

    fn check(&self) -> Result<()> {
        if !self.block_size.is_power_of_two() || !(4096..=1 << 20).contains(&self.block_size) {
            bail!("--block-size: a power of two from 4K to 1M, which all systems know");
        }
        if self.read_block == Some(0) {
            bail!("--read-block: at least 1");
        }
        if self.budget() < 1 << 20 || self.media_size() < 1 << 20 {
            bail!("--budget and --media-size: at least 1M");
        }
        for name in &self.workloads {
            let is_group = Group::ALL.iter().any(|group| group.name() == name);
            if !is_group && name != "classic" && list::named(name).is_none() {
                let names: Vec<_> = list::ALL.iter().map(|workload| workload.name).collect();
                bail!("--workload {name}: there are {}", names.join(", "));
            }
        }
        for tool in &self.tools {
            if !tool.path.is_file() {
                bail!("--tool {}: no file {}", tool.name(), tool.path.display());
            }
        }
        Ok(())
    }
}

/// Does what the command line says.
pub fn main() -> Result<ExitCode> {
    let mut options = Options::parse();
    options.check()?;
    if let Some(from) = &options.from {
        let results = Results::load(from)?;
        finish(&options, &results)?;
        return Ok(ExitCode::SUCCESS);
    }
    std::fs::create_dir_all(&options.work)
        .with_context(|| format!("cannot create {}", options.work.display()))?;
    options.work = std::fs::canonicalize(&options.work)?;
    let folder = match isolate::enter(&options.work)? {
        Side::Outside(code) => return Ok(code),
        Side::Inside(folder) => folder,
    };
    if let Some(cpus) = options.cpus {
        machine::confine(usize::try_from(cpus)?)?;
    }
    let results = run::run(&options, &folder)?;
    finish(&options, &results)?;
    if interrupt::is_wanted() {
        eprintln!("rofsbench: interrupted; the results are of what was done");
        return Ok(ExitCode::from(130));
    }
    Ok(if results.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes and prints results.
fn finish(options: &Options, results: &Results) -> Result<()> {
    let out = options.out.clone().unwrap_or_else(|| options.work.join("results"));
    for folder in std::iter::once(&out).chain(&options.save) {
        report::write(results, folder)?;
    }
    let mut text = report::summary(results);
    if let Some(old) = &options.compare {
        let old = Results::load(old)?;
        let compared = report::compare::markdown(&old, results, options.threshold);
        let path = out.join("compare.md");
        std::fs::write(&path, &compared)
            .with_context(|| format!("cannot write {}", path.display()))?;
        text.push('\n');
        text.push_str(&compared);
    }
    println!("{text}");
    eprintln!("rofsbench: results are in {}", out.display());
    Ok(())
}

/// A number of bytes, with K, M or G for powers of 1024.
fn size(text: &str) -> Result<u64> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (text.get(..text.len() - 1), 10),
        Some(b'M' | b'm') => (text.get(..text.len() - 1), 20),
        Some(b'G' | b'g') => (text.get(..text.len() - 1), 30),
        _ => (Some(text), 0),
    };
    let number: u64 =
        digits.unwrap_or_default().parse().context("a number, or one with K, M, G")?;
    number.checked_mul(1 << shift).context("too large")
}

fn pair(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').context("NAME=VALUE is wanted")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn tool(text: &str) -> Result<Tool> {
    let (name, path) = pair(text)?;
    let (program, label) = match name.split_once('@') {
        Some((program, label)) => (program.to_owned(), Some(label.to_owned())),
        None => (name, None),
    };
    const KNOWN: [&str; 7] = [
        "microfs",
        "squashfuse",
        "squashfuse_ll",
        "mksquashfs",
        "mkfs.erofs",
        "erofsfuse",
        "puzzlefs",
    ];
    if !KNOWN.contains(&program.as_str()) {
        bail!("one of {} is wanted", KNOWN.join(", "));
    }
    let path = std::path::absolute(path)?;
    Ok(Tool { program, label, path })
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::{Options, size, tool};
    use crate::corpus::Kind;
    use crate::workload::list;

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn sizes_and_tools() {
        assert_eq!(size("4096").unwrap(), 4096);
        assert_eq!(size("128K").unwrap(), 131_072);
        assert_eq!(size("1g").unwrap(), 1_073_741_824);
        assert!(size("K").is_err() && size("").is_err() && size("99999999999G").is_err());
        let found = tool("squashfuse_ll@0.6=/opt/squashfuse_ll").unwrap();
        assert_eq!(found.name(), "squashfuse_ll@0.6");
        assert!(tool("ext4=/bin/true").is_err() && tool("microfs").is_err());
    }

    #[test]
    fn quick_is_small_and_names_choose() {
        let quick = Options::parse_from(["rofsbench", "--quick", "-w", "classic,seq"]);
        assert_eq!((quick.rounds(), quick.corpora()), (1, vec![Kind::Random]));
        let wanted: Vec<_> = list::ALL.iter().filter(|row| quick.wants(row)).collect();
        assert_eq!(wanted.len(), 10);
        assert!(quick.check().is_ok());
        let wrong = Options::parse_from(["rofsbench", "-w", "nothing"]);
        assert!(wrong.check().is_err());
        let full = Options::parse_from(["rofsbench"]);
        assert_eq!((full.rounds(), full.corpora().len()), (5, 4));
    }
}
