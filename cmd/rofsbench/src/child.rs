//! Commands that are run and waited for.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::interrupt;

/// Between two looks at whether to stop; nothing is timed by it.
const SLICE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Waits for a process' end, at most so long: none when it goes on. Returns the
/// moment it ends.
pub fn wait(child: &mut Child, patience: Duration) -> Result<Option<ExitStatus>> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let start = Instant::now();
    loop {
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&SLICE)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) => return Ok(Some(child.wait()?)),
            Err(error) => return Err(error.into()),
        }
        interrupt::check()?;
        if start.elapsed() > patience {
            return Ok(None);
        }
    }
}

/// Runs a command to its end, its output going to a file, and returns how long
/// it took; killed when it takes too long or when it is time to stop.
pub fn run(command: &mut Command, log: &Path, patience: Duration) -> Result<Duration> {
    let output = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("cannot run {command:?}"))?;
    let status = match wait(&mut child, patience) {
        Ok(Some(status)) => status,
        ended => {
            let _ = child.kill();
            let _ = child.wait();
            ended?;
            bail!("{command:?}: still busy after {} s", patience.as_secs());
        }
    };
    let took = start.elapsed();
    if !status.success() {
        bail!("{}: {status}{}", command.get_program().to_string_lossy(), said(log));
    }
    Ok(took)
}

/// Runs a short command and returns what it said on both outputs, whatever its
/// exit code; nothing if it cannot be run.
pub fn output(command: &mut Command) -> String {
    let Ok(output) = command.stdin(Stdio::null()).output() else { return String::new() };
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}

/// The end of what a program said, for a message.
pub fn said(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(5)..).unwrap_or_default();
    if last.is_empty() { String::new() } else { format!(": {}", last.join("; ")) }
}
