//! Namespaces of their own, so that no mount, loop device or server outlives
//! the benchmark, however it ends: the kernel takes them down with the last
//! process inside. An ordinary user gets a user namespace as well.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::interrupt;

/// Set inside, to the folder for what lives no longer than the run.
const INSIDE: &str = "ROFSBENCH_RUN_DIR";

/// Where the process is.
pub enum Side {
    /// Inside; the folder is for what lives no longer than the run.
    Inside(PathBuf),
    /// Outside, and the one inside ended so.
    Outside(ExitCode),
}

/// Runs this program again inside and waits for it; returns at once when this is
/// the inside. `work` exists.
pub fn enter(work: &Path) -> Result<Side> {
    interrupt::catch_signals()?;
    if let Some(run) = std::env::var_os(INSIDE) {
        std::thread::spawn(stop_with_outside);
        return Ok(Side::Inside(run.into()));
    }
    remove_stale(work)?;
    let run = work.join(format!("run-{}", std::process::id()));
    std::fs::create_dir(&run).with_context(|| format!("cannot create {}", run.display()))?;
    let code = supervise(&run);
    // Nothing is mounted here: what was, was so in the other namespace.
    std::fs::remove_dir_all(&run).with_context(|| format!("cannot remove {}", run.display()))?;
    code.map(Side::Outside)
}

/// Removes folders of runs whose process outside was killed.
fn remove_stale(work: &Path) -> Result<()> {
    for entry in std::fs::read_dir(work)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix("run-")?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            std::fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn supervise(run: &Path) -> Result<ExitCode> {
    let mut command = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user", "--map-auto"]);
    }
    command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]);
    command.args(["--mount-proc", "--"]).arg(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1)).env(INSIDE, run).stdin(Stdio::piped());
    let mut child = command.spawn().context("cannot run unshare, of Debian's util-linux")?;
    let mut pipe = child.stdin.take();
    loop {
        if let Some(status) = child.try_wait()? {
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            return Ok(ExitCode::from(code.unwrap_or(1)));
        }
        // The first wish to stop is passed on, the second one is an order.
        if interrupt::take() && pipe.take().is_none() {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The pipe's other end closes when the process outside wants to stop or is gone.
fn stop_with_outside() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    interrupt::request();
}
