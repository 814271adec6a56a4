//! Mounting itself: how soon a mount answers, many mounts at once, and what an
//! idle one costs. The mount commands are run and timed here and not by
//! hyperfine, for each leaves a server behind that must be looked at and taken
//! down before the next.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::child;
use crate::corpus::scale;
use crate::results::{CorpusInfo, Remark, Sample};
use crate::run::Session;
use crate::stage::{Images, Temporary};
use crate::system::image::{self, Image};
use crate::system::mount::{drop_caches, take_down};
use crate::system::{Builder, Family, Format, System, server};
use crate::workload::list::{LAYERS, MOUNTS, named};
use crate::workload::{State, Workload};

/// For a mount command, and for a server's end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Images of one tree, in the order of the systems.
type Row = Vec<Option<PathBuf>>;

/// What is mounted.
pub struct Scale {
    /// Layers where a system has them.
    layers: Row,
    million: Row,
    is_wanted: [bool; 3],
}

impl Scale {
    /// Makes what the wanted workloads need; none if they need nothing.
    pub fn new(session: &mut Session<'_>) -> Result<Option<Self>> {
        let wants = |name| named(name).is_some_and(|row| session.options.wants(row));
        let is_wanted = [wants("ready-layers"), wants("ready-million"), wants("mounts-128")];
        if is_wanted == [false; 3] {
            return Ok(None);
        }
        let why = "its mount is a loop device or no mount of its own; only servers are compared";
        session
            .results
            .skipped
            .push(Remark { what: "mounts-128 of the kernel".into(), why: why.into() });
        let layers = if is_wanted[0] || is_wanted[2] { layers(session)? } else { Row::default() };
        let million = if is_wanted[1] { million(session)? } else { Row::default() };
        Ok(Some(Self { layers, million, is_wanted }))
    }

    /// One round of all of it.
    pub fn round(&self, session: &mut Session<'_>, round: u32) -> Result<()> {
        let parts = [
            ("layers", "ready-layers", &self.layers),
            ("million", "ready-million", &self.million),
            ("layers", "mounts-128", &self.layers),
        ];
        for ((corpus, name, images), is_wanted) in parts.into_iter().zip(self.is_wanted) {
            let Some(workload) = named(name).filter(|_| is_wanted) else { continue };
            for index in session.order(round, corpus, name) {
                let (Some(system), Some(Some(image))) =
                    (session.systems.get(index).cloned(), images.get(index))
                else {
                    continue;
                };
                if let Err(error) = turn(session, round, corpus, workload, &system, image) {
                    session.failed(corpus, name, &system.name, format!("{error:#}"))?;
                }
            }
        }
        Ok(())
    }
}

/// One system's turn.
fn turn(
    session: &mut Session<'_>,
    round: u32,
    corpus: &str,
    workload: &Workload,
    system: &System,
    image: &Path,
) -> Result<()> {
    let is_many = workload.name == "mounts-128";
    if is_many && !system.is_fuse() {
        return Ok(());
    }
    // A second mount of an image is what its first one was: there is no warm state.
    let mut states = session.states.clone();
    states.retain(|state| *state != State::Warm && !(is_many && *state == State::Cold));
    if !states.contains(&State::Fresh) {
        states.push(State::Fresh);
    }
    for state in states {
        let folder = session.folder.join("many");
        let folders: Vec<PathBuf> = if is_many {
            (0..MOUNTS).map(|number| folder.join(number.to_string())).collect()
        } else {
            vec![session.at()]
        };
        folders.iter().try_for_each(fs::create_dir_all)?;
        if state == State::Cold {
            drop_caches()?;
        } else {
            image::warm(image)?;
        }
        let busy = server::busy_seconds();
        let (mounts, wall) = Mounts::new(system, image, folders, &session.log())?;
        let system_cpu = server::busy_seconds() - busy;
        let usage = server::usage(&mounts.servers);
        let has_server = system.is_fuse();
        mounts.take_down()?;
        session.results.samples.push(Sample {
            corpus: corpus.to_owned(),
            workload: workload.name.to_owned(),
            state,
            system: system.name.clone(),
            round,
            wall,
            client_cpu: 0.0,
            server_cpu: has_server.then_some(usage.cpu),
            system_cpu,
            bytes: 0,
            operations: if is_many { MOUNTS as u64 } else { 1 },
            memory_before: has_server.then_some(usage.memory),
            memory_after: None,
        });
    }
    Ok(())
}

/// Mounts with their servers, which are taken down by force when dropped.
struct Mounts {
    at: Vec<PathBuf>,
    servers: Vec<u32>,
}

impl Mounts {
    /// Mounts on all these folders at once; returns when each answers, with the
    /// seconds from the start of the first command until then.
    fn new(system: &System, image: &Path, at: Vec<PathBuf>, log: &Path) -> Result<(Self, f64)> {
        let mut mounts = Self { at, servers: Vec::new() };
        let output = File::create(log)?;
        let mut commands = Vec::new();
        for at in &mounts.at {
            let mut command = system.mount_command(image, at);
            command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output.try_clone()?);
            commands.push(command);
        }
        let start = Instant::now();
        let started: std::io::Result<Vec<Child>> =
            commands.iter_mut().map(Command::spawn).collect();
        let mut children = started.context("cannot run the mount command")?;
        for child in &mut children {
            match child::wait(child, PATIENCE)? {
                Some(status) if status.success() => {}
                Some(status) => bail!("mounting ended: {status}{}", child::said(log)),
                None => bail!("mounting takes more than {} s", PATIENCE.as_secs()),
            }
        }
        for at in &mounts.at {
            let first = fs::read_dir(at)?.next();
            ensure!(first.is_some(), "nothing is mounted on {}", at.display());
        }
        let wall = start.elapsed().as_secs_f64();
        if system.is_fuse() {
            mounts.servers = mounts.at.iter().flat_map(|at| server::with_word(at)).collect();
            ensure!(!mounts.servers.is_empty(), "no process serves the mount");
        }
        Ok((mounts, wall))
    }

    fn take_down(mut self) -> Result<()> {
        while let Some(at) = self.at.last() {
            take_down(at)?;
            self.at.pop();
        }
        let start = Instant::now();
        while let Some(pid) = self.servers.last().copied() {
            if has_ended(pid) {
                self.servers.pop();
            } else if start.elapsed() > PATIENCE {
                bail!("a server is still there after {} s", PATIENCE.as_secs());
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        for at in &self.at {
            let _ = unmount(at, UnmountFlags::DETACH);
        }
        for pid in self.servers.iter().filter_map(|pid| process(*pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// A server in the background is nobody's child, so it is this process' when it
/// ends: the first of the namespace inherits all.
fn has_ended(pid: u32) -> bool {
    let ended = process(pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    !matches!(ended, Some(Ok(None))) && !Path::new(&format!("/proc/{pid}")).exists()
}

fn process(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// A tree in five layers, or as a whole for those who have none.
fn layers(session: &mut Session<'_>) -> Result<Row> {
    let options = session.options;
    let share = options.layer_files();
    let content = blake3::hash(format!("layers {LAYERS} {share} 1").as_bytes());
    let mut images = Images::new(options, "layers", content);
    let mut make = |builder: &Builder, folder: &Path, log: &Path| -> Result<Image> {
        let tree = Temporary::new(folder.join("tree"))?;
        scale::add_files(&tree.0, 0, share)?;
        if builder.format != Format::Microfs {
            (1..LAYERS).try_for_each(|part| scale::add_files(&tree.0, part, share))?;
            return image::build(builder, options, &tree.0, folder, log);
        }
        let mut image = image::build(builder, options, &tree.0, folder, log)?;
        for part in 1..LAYERS {
            scale::add_files(&tree.0, part, share)?;
            let took = image::add_layer(builder, options, &tree.0, &image.path, log)?;
            image.build_seconds += took.as_secs_f64();
        }
        image.bytes = image::bytes(&image.path)?;
        Ok(image)
    };
    let row = row(session, "layers", &mut images, &mut make)?;
    session.results.images.extend(images.infos());
    let files = share * u64::from(LAYERS);
    session.results.corpora.push(info("layers", files, content));
    Ok(row)
}

/// A tree of very many empty files.
fn million(session: &mut Session<'_>) -> Result<Row> {
    let options = session.options;
    let count = options.scale_files();
    let content = blake3::hash(format!("million {count} 1").as_bytes());
    let mut images = Images::new(options, "million", content);
    let mut tree: Option<Temporary> = None;
    let mut make = |builder: &Builder, folder: &Path, log: &Path| -> Result<Image> {
        if tree.is_none() {
            let made = Temporary::new(options.work.join("corpora").join("million.unfinished"))?;
            scale::add_empty(&made.0, count)?;
            tree = Some(made);
        }
        let tree = tree.as_ref().context("no tree")?;
        image::build(builder, options, &tree.0, folder, log)
    };
    let row = row(session, "million", &mut images, &mut make)?;
    session.results.images.extend(images.infos());
    session.results.corpora.push(info("million", count, content));
    Ok(row)
}

/// The image for each system; none for the directory, which is not mounted.
fn row(
    session: &mut Session<'_>,
    corpus: &str,
    images: &mut Images<'_>,
    make: &mut dyn FnMut(&Builder, &Path, &Path) -> Result<Image>,
) -> Result<Row> {
    let mut row = Row::new();
    for system in session.systems.clone() {
        let builder = system.builder.filter(|_| system.family != Family::Directory);
        let Some(builder) = builder else {
            row.push(None);
            continue;
        };
        let image = images.get(&builder, |folder, log| make(&builder, folder, log));
        if let Err(why) = &image {
            session.failed(corpus, "build", &system.name, why.clone())?;
        }
        row.push(image.ok());
    }
    Ok(row)
}

fn info(name: &str, files: u64, content: blake3::Hash) -> CorpusInfo {
    CorpusInfo {
        name: name.to_owned(),
        files,
        directories: 0,
        others: 0,
        bytes: 0,
        largest: 0,
        with_xattrs: 0,
        digest: content.to_string(),
    }
}
