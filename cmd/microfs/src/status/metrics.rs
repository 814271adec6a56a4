//! Metrics for those who collect them: at a TCP address, or in a file that is
//! written anew every few seconds.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use super::{Source, prometheus};

/// How old a file of metrics becomes.
const INTERVAL: Duration = Duration::from_secs(5);
/// How long a collector may take to ask, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest request that is read, in bytes.
const REQUEST_MAX: usize = 8192;

/// Where metrics go.
#[derive(Debug, Clone)]
pub enum Metrics {
    /// Given to whoever asks by HTTP.
    Address(SocketAddr),
    /// Written to a file, which is replaced as a whole.
    File(PathBuf),
}

impl std::str::FromStr for Metrics {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = "must be ADDRESS:PORT, such as 127.0.0.1:9100, or a file; \
                     a file with a colon in its name is written ./NAME";
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        match text.rsplit_once(':') {
            _ if text.is_empty() => Err(usage.to_owned()),
            _ if text.contains('/') => Ok(Self::File(PathBuf::from(text))),
            None => Ok(Self::File(PathBuf::from(text))),
            Some(("localhost", port)) => {
                let port: u16 = port.parse().map_err(|_| usage.to_owned())?;
                let mut found = ("localhost", port)
                    .to_socket_addrs()
                    .map_err(|error| format!("cannot find localhost: {error}"))?;
                found.next().map(Self::Address).ok_or_else(|| "localhost has no address".to_owned())
            }
            Some(_) => Err(usage.to_owned()),
        }
    }
}

impl Metrics {
    /// Begins to give them, from a thread of its own, for as long as the
    /// process lives.
    ///
    /// # Errors
    /// When the address is taken or the file cannot be written.
    pub fn start(&self, source: Source, mount_point: &Path) -> anyhow::Result<()> {
        let mount_point = mount_point.display().to_string();
        let thread = std::thread::Builder::new().name("microfs-metrics".into());
        match self {
            Self::Address(address) => {
                let listener = TcpListener::bind(address)
                    .with_context(|| format!("cannot give metrics at {address}"))?;
                thread.spawn(move || give(&listener, &source, &mount_point))?;
            }
            Self::File(path) => {
                let path = path.clone();
                let failed = format!("cannot write metrics to {}", path.display());
                write(&path, &source, &mount_point).context(failed)?;
                thread.spawn(move || {
                    loop {
                        std::thread::sleep(INTERVAL);
                        // A full disk may have room again the next time.
                        let _ = write(&path, &source, &mount_point);
                    }
                })?;
            }
        }
        Ok(())
    }
}

fn write(path: &Path, source: &Source, mount_point: &str) -> anyhow::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let written = std::fs::write(&new, prometheus::text(&source.report(), mount_point))
        .and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // Best effort: the error is what counts.
        let _ = std::fs::remove_file(&new);
    }
    Ok(written?)
}

fn give(listener: &TcpListener, source: &Source, mount_point: &str) {
    for stream in listener.incoming() {
        match stream {
            // Collectors come again.
            Ok(stream) => drop(answer(stream, source, mount_point)),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// One request, one answer, whatever the path.
fn answer(mut stream: TcpStream, source: &Source, mount_point: &str) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = Vec::new();
    let mut part = [0; 512];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_MAX {
        match stream.read(&mut part)? {
            0 => break,
            read => request.extend_from_slice(part.get(..read).unwrap_or_default()),
        }
    }
    let (status, body) = if request.starts_with(b"GET ") {
        ("200 OK", prometheus::text(&source.report(), mount_point))
    } else {
        ("405 Method Not Allowed", String::new())
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}
