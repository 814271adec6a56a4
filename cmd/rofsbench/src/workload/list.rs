//! All workloads.

pub use super::Workload;
use super::command::Tool;
use super::{Group, Kind};

/// In the order of the report. `t0` to `t8` are the tests of linux-microfs'
/// rofsbench.
pub const ALL: [Workload; 24] = [
    row("t0", "`ls -lAR`", Group::Metadata, Kind::Command(Tool::LsAll)),
    row("t1", "`find`", Group::Metadata, Kind::Command(Tool::Find)),
    row("t2", "`find -type f`", Group::Metadata, Kind::Command(Tool::FindFiles)),
    row("t3", "files in order, blocks in order", Group::Reading, blocks(false, false)),
    row("t4", "stat in order", Group::Metadata, Kind::Stat { random_files: false }),
    row("t5", "random files, blocks in order", Group::Reading, blocks(true, false)),
    row("t6", "stat, random files", Group::Metadata, Kind::Stat { random_files: true }),
    row("t7", "files in order, random blocks", Group::Reading, blocks(false, true)),
    row("t8", "random files, random blocks", Group::Reading, blocks(true, true)),
    row("ls-lR", "`ls -lR`", Group::Metadata, Kind::Command(Tool::Ls)),
    row("ls-ZR", "`ls -ZR`", Group::Metadata, Kind::Command(Tool::LsContext)),
    row("getfattr", "`getfattr -Rd`", Group::Metadata, Kind::Command(Tool::Getfattr)),
    row("read-1", "read all, 1 reader", Group::Reading, Kind::ReadAll(1)),
    row("read-4", "read all, 4 readers", Group::Reading, Kind::ReadAll(4)),
    row("read-16", "read all, 16 readers", Group::Reading, Kind::ReadAll(16)),
    row("tar", "`tar c`", Group::Reading, Kind::Command(Tool::Tar)),
    row("sparse", "1,000 random small files", Group::Access, Kind::Sparse),
    row("seq", "largest file, in order", Group::Access, Kind::Sequential),
    row("rand4k", "20,000 × random 4 KiB", Group::Access, Kind::Random4K),
    row("python", "python3 with imports", Group::Start, Kind::Command(Tool::Python)),
    row("runc", "container start, runc", Group::Start, Kind::Command(Tool::Runc)),
    row("ready-layers", "mount, 5 layers", Group::Scale, Kind::Mounting),
    row("ready-million", "mount, very many files", Group::Scale, Kind::Mounting),
    row("mounts-128", "128 mounts at once", Group::Scale, Kind::Mounting),
];

/// Of the metadata workloads, those that a corpus with one capability is for.
pub const WITH_CAPABILITY: [&str; 5] = ["t0", "t4", "ls-lR", "ls-ZR", "getfattr"];

/// Files that `sparse` reads.
pub const SPARSE_FILES: usize = 1000;
/// Requests that `rand4k` makes.
pub const RANDOM_READS: usize = 20_000;
/// Mounts of `mounts-128`.
pub const MOUNTS: usize = 128;
/// Layers of `ready-layers`.
pub const LAYERS: u32 = 5;
/// Files of each of them.
pub const LAYER_FILES: u64 = 6000;

/// The workload of this name.
pub fn named(name: &str) -> Option<&'static Workload> {
    ALL.iter().find(|workload| workload.name == name)
}

/// Whether linux-microfs' rofsbench had it.
pub fn is_classic(workload: &Workload) -> bool {
    let digits = workload.name.strip_prefix('t').unwrap_or_default();
    digits.parse::<u8>().is_ok()
}

const fn row(name: &'static str, title: &'static str, group: Group, kind: Kind) -> Workload {
    Workload { name, title, group, kind }
}

const fn blocks(random_files: bool, random_blocks: bool) -> Kind {
    Kind::Blocks { random_files, random_blocks }
}
