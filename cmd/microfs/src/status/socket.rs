//! The way from `microfs status` to the process that serves a mount: a socket
//! without a file, named after the device number that `stat` shows for the
//! mount. It is seen in the network namespace of the mount's process only, and answers
//! root and the user who mounted.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};

use super::{Report, Source};

/// How long either side waits for the other.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a name may stay taken: the kernel gives the device number of a mount
/// that was taken down to the next one while the old process still ends.
const TAKEN_MAX: Duration = Duration::from_secs(2);
const TAKEN_STEP: Duration = Duration::from_millis(2);
/// Longest answer in bytes.
const ANSWER_MAX: u64 = 1 << 20;

fn address(mount_point: &Path) -> anyhow::Result<SocketAddr> {
    let stat = rustix::fs::stat(mount_point)
        .with_context(|| format!("cannot examine {}", mount_point.display()))?;
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    Ok(SocketAddr::from_abstract_name(format!("microfs-status-{major}:{minor}"))?)
}

/// Answers questions about a mount from a thread of its own, for as long as
/// the process lives.
///
/// # Errors
/// When there is no socket or thread to be had; the mount does without then.
pub fn serve(mount_point: &Path, source: Source) -> anyhow::Result<()> {
    let listener = bind(&address(mount_point)?)?;
    let answer = move || {
        for stream in listener.incoming() {
            match stream {
                // Whoever asked may be gone already.
                Ok(stream) => drop(tell(stream, &source)),
                // Out of descriptors, most likely: not a reason to spin.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    };
    std::thread::Builder::new().name("microfs-status".into()).spawn(answer)?;
    Ok(())
}

fn bind(address: &SocketAddr) -> std::io::Result<UnixListener> {
    let since = Instant::now();
    loop {
        match UnixListener::bind_addr(address) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && since.elapsed() < TAKEN_MAX => {
                std::thread::sleep(TAKEN_STEP);
            }
            result => return result,
        }
    }
}

fn tell(mut stream: UnixStream, source: &Source) -> anyhow::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(stream.as_fd())?;
    if !peer.uid.is_root() && peer.uid != rustix::process::geteuid() {
        bail!("not one to be told");
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream.write_all(&serde_json::to_vec(&source.report())?)?)
}

/// Asks the process that serves a mount.
///
/// # Errors
/// When nothing that answers is mounted there.
pub fn ask(mount_point: &Path) -> anyhow::Result<Report> {
    let nobody = || {
        anyhow!(
            "{} is no microfs mount that can be asked: nothing answers for it here",
            mount_point.display()
        )
    };
    let mut stream = UnixStream::connect_addr(&address(mount_point)?).map_err(|_| nobody())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut answer = Vec::new();
    Read::by_ref(&mut stream).take(ANSWER_MAX).read_to_end(&mut answer).with_context(|| {
        let seconds = PATIENCE.as_secs();
        format!("the process that serves {} does not answer in {seconds} s", mount_point.display())
    })?;
    if answer.is_empty() {
        bail!("only root and the user who mounted {} may ask", mount_point.display());
    }
    serde_json::from_slice(&answer).context("the mount's process answers in another language")
}
