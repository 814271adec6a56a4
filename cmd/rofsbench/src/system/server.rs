//! What processes use, from /proc.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Memory of processes, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Memory {
    /// Resident, programs and libraries included.
    pub resident: u64,
    /// Resident and of nobody else: heap and stacks.
    pub anonymous: u64,
    /// Most that was ever resident.
    pub peak: u64,
}

/// What processes used until now.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// Seconds of all processors.
    pub cpu: f64,
    pub memory: Memory,
    /// Threads there are.
    pub threads: u64,
}

/// Seconds that all processors were busy since the start, whoever used them;
/// time of other machines on the same host is not in it.
pub fn busy_seconds() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> =
        line.split_whitespace().skip(1).map(|word| word.parse().unwrap_or(0)).collect();
    // user, nice, system, then after idle and iowait: irq, softirq
    [0, 1, 2, 5, 6].iter().filter_map(|index| ticks.get(*index)).sum::<u64>() as f64 / per_second()
}

/// A process and all that came from it and are there.
pub fn family(pid: u32) -> Vec<u32> {
    let parents: Vec<_> =
        all().into_iter().filter_map(|pid| Some((pid, stat(pid)?.parent))).collect();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    family
}

/// Processes with this path on their command line, the caller apart.
pub fn with_word(path: &Path) -> Vec<u32> {
    let word = path.as_os_str().as_encoded_bytes();
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|each| each == word)
    };
    all().into_iter().filter(|pid| *pid != std::process::id()).filter(has).collect()
}

/// The sum of what these processes used.
pub fn usage(pids: &[u32]) -> Usage {
    let mut sum = Usage::default();
    for pid in pids {
        sum.cpu += stat(*pid).map_or(0.0, |stat| stat.cpu);
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let word = line.and_then(|rest| rest.split_whitespace().next());
            word.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
        };
        sum.memory.resident += number("VmRSS:") * 1024;
        sum.memory.anonymous += number("RssAnon:") * 1024;
        sum.memory.peak += number("VmHWM:") * 1024;
        sum.threads += number("Threads:");
    }
    sum
}

fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

struct Stat {
    parent: u32,
    /// Seconds.
    cpu: f64,
}

/// See proc(5): after the name in parentheses come the fields from the third on.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let parent = fields.nth(1)?.parse().ok()?;
    let user: u64 = fields.nth(9)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Stat { parent, cpu: (user + system) as f64 / per_second() })
}

fn per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

#[cfg(test)]
mod tests {
    use super::{family, stat, usage};

    #[test]
    fn a_child_is_found_and_counted() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = std::process::id();
        let pids = family(own);
        let parent = stat(child.id()).map(|stat| stat.parent);
        let used = usage(&pids);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(pids.first(), Some(&own));
        assert!(pids.contains(&child.id()));
        assert_eq!(parent, Some(own));
        assert!(used.threads >= 2 && used.memory.resident > 1 << 20, "{used:?}");
        assert!(used.memory.peak >= used.memory.anonymous);
    }
}
