//! A run: images are made and checked, then in each round every workload is done
//! by every system, in an order that changes from round to round.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};

use crate::cli::Options;
use crate::corpus::{Corpus, Kind as CorpusKind};
use crate::interrupt;
use crate::machine::{Machine, now};
use crate::random::Random;
use crate::results::{Failure, Remark, Results, Sample, Settings, SystemInfo};
use crate::scale::Scale;
use crate::stage::{Images, Stage, verify};
use crate::system::detect::{self, is_real_root};
use crate::system::mount::{Mounted, drop_caches};
use crate::system::{Family, System, image, server};
use crate::workload::command::Bench;
use crate::workload::plan::Plan;
use crate::workload::{Kind, State, Workload, list};

/// Failures of one workload of one system after which it is left alone.
const PATIENCE: u32 = 2;

/// What a run works with.
pub struct Session<'a> {
    pub options: &'a Options,
    /// For what lives no longer than the run.
    pub folder: &'a Path,
    pub systems: Vec<System>,
    pub results: Results,
    /// In which the caches are when a workload begins.
    pub states: Vec<State>,
    bench: Bench,
}

/// Does everything that the options say. A wish to stop ends it early, with what
/// was measured until then.
pub fn run(options: &Options, folder: &Path) -> Result<Results> {
    let mut session = Session::new(options, folder)?;
    match session.all() {
        Ok(()) => session.results.is_complete = true,
        Err(_) if interrupt::is_wanted() => {}
        Err(error) => return Err(error),
    }
    session.results.finished = now();
    Ok(session.results)
}

impl<'a> Session<'a> {
    fn new(options: &'a Options, folder: &'a Path) -> Result<Self> {
        let (systems, mut skipped) = detect::systems(options)?;
        let can_drop = is_real_root() && !options.keep_caches;
        let mut states = options.states.clone();
        if !can_drop && states.contains(&State::Cold) {
            let why = "only root drops caches, and not with --keep-caches: fresh mounts instead";
            skipped.push(Remark { what: "cold".to_owned(), why: why.to_owned() });
            states.retain(|state| *state != State::Cold);
            states.push(State::Fresh);
        }
        states.sort_unstable();
        states.dedup();
        let machine = Machine::here(&options.work);
        let settings = Settings {
            rounds: options.rounds(),
            slow_rounds: options.slow_rounds.min(options.rounds()),
            seed: options.seed,
            block_size: options.block_size,
            read_block: options.read_block.unwrap_or(options.block_size),
            level: options.level,
            drops_caches: can_drop,
            cpus: machine.cpus,
        };
        let mut results = Results::new(now(), machine, settings);
        results.skipped = skipped;
        results.systems = systems.iter().map(info).collect();
        std::fs::create_dir(folder.join("mount"))?;
        let bench = Bench::new(folder)?;
        Ok(Self { options, folder, systems, results, states, bench })
    }

    fn all(&mut self) -> Result<()> {
        let mut stages = Vec::new();
        for kind in self.options.corpora() {
            if list::ALL.iter().any(|row| self.options.wants(row) && row.kind != Kind::Mounting) {
                stages.extend(self.stage(kind)?);
            }
        }
        let scale = Scale::new(self)?;
        let work = self.work(&stages);
        if work.is_empty() && scale.is_none() {
            bail!("nothing is left to measure");
        }
        // What is not on disk yet cannot be dropped from the caches.
        rustix::fs::sync();
        let start = Instant::now();
        let partial = self.options.work.join("unfinished.json");
        for round in 1..=self.options.rounds() {
            for (stage, workload) in &work {
                self.take_turns(round, stage, workload)?;
            }
            if let Some(scale) = &scale {
                scale.round(self, round)?;
            }
            self.results.store(&partial)?;
            let (rounds, minutes) = (self.options.rounds(), start.elapsed().as_secs_f64() / 60.0);
            eprintln!("rofsbench: round {round} of {rounds} is done, {minutes:.1} minutes");
        }
        Ok(std::fs::remove_file(&partial)?)
    }

    /// Where systems are mounted.
    pub fn at(&self) -> PathBuf {
        self.folder.join("mount")
    }

    /// Where servers write to.
    pub fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    /// Notes that something went wrong; only a wish to stop ends the run.
    pub fn failed(
        &mut self,
        corpus: &str,
        workload: &str,
        system: &str,
        why: String,
    ) -> Result<()> {
        interrupt::check()?;
        eprintln!("rofsbench: {corpus}, {workload}, {system}: {why}");
        let is_same = |failure: &&mut Failure| failure.is_of(corpus, workload, system);
        match self.results.failed.iter_mut().find(is_same) {
            Some(failure) => failure.times += 1,
            None => {
                let (corpus, workload) = (corpus.to_owned(), workload.to_owned());
                let system = system.to_owned();
                self.results.failed.push(Failure { corpus, workload, system, times: 1, why });
            }
        }
        Ok(())
    }

    /// A tree with images whose mounts show it.
    fn stage(&mut self, kind: CorpusKind) -> Result<Option<Stage>> {
        let corpus = match Corpus::get(kind, self.options) {
            Ok(corpus) => corpus,
            Err(error) => {
                self.failed(kind.name(), "corpus", "source", format!("{error:#}"))?;
                return Ok(None);
            }
        };
        let plan = Plan::new(&corpus.manifest, self.options)?;
        let mut images = Images::new(self.options, kind.name(), corpus.manifest.digest());
        let mut paths = Vec::new();
        for system in self.systems.clone() {
            let image = match &system.builder {
                None => Ok(corpus.tree.clone()),
                Some(builder) => images.of_tree(builder, &corpus.tree),
            };
            let checked = image.and_then(|image| {
                eprintln!(
                    "rofsbench: comparing {} of {} with its source",
                    system.name,
                    kind.name()
                );
                verify(&system, &image, &self.at(), &self.log(), &corpus.manifest)
                    .map(|others| (image, others))
                    .map_err(|error| format!("{error:#}"))
            });
            paths.push(match checked {
                Ok((image, others)) => {
                    self.remark_on_xattrs(kind, &system.name, &others);
                    Some(image)
                }
                Err(why) => {
                    self.failed(kind.name(), "verify", &system.name, why)?;
                    None
                }
            });
        }
        self.results.images.extend(images.infos());
        let stage = Stage { corpus, images: paths, plan };
        self.results.corpora.push(stage.info());
        Ok(Some(stage))
    }

    fn remark_on_xattrs(&mut self, kind: CorpusKind, system: &str, others: &[String]) {
        if let Some(first) = others.first() {
            let what = format!("extended attributes of {} by {system}", kind.name());
            let why = format!("not those of the source in {} places, as in {first}", others.len());
            self.results.remarks.push(Remark { what, why });
        }
    }

    /// Every workload with the tree that it is done on.
    fn work<'b>(&mut self, stages: &'b [Stage]) -> Vec<(&'b Stage, &'static Workload)> {
        let mut work = Vec::new();
        for stage in stages {
            for workload in &list::ALL {
                if !self.options.wants(workload) || !stage.is_for(workload) {
                    continue;
                }
                match stage.obstacle(workload, &self.bench) {
                    None => work.push((stage, workload)),
                    Some(why) => {
                        let what = format!("{} of {}", workload.name, stage.corpus.kind.name());
                        self.results.skipped.push(Remark { what, why });
                    }
                }
            }
        }
        work
    }

    /// Systems of this round by index, in an order of its own.
    pub fn order(&self, round: u32, corpus: &str, workload: &str) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.systems.len()).collect();
        order.retain(|index| {
            let is_slow = self.systems.get(*index).is_none_or(|system| system.is_slow);
            !is_slow || round <= self.options.slow_rounds
        });
        let name = format!("{round} {corpus} {workload}");
        Random::named(self.options.seed, &name).shuffle(&mut order);
        order
    }

    fn take_turns(&mut self, round: u32, stage: &Stage, workload: &Workload) -> Result<()> {
        let corpus = stage.corpus.kind.name();
        for index in self.order(round, corpus, workload.name) {
            let (Some(system), Some(Some(image))) =
                (self.systems.get(index).cloned(), stage.images.get(index))
            else {
                continue;
            };
            let mut failed = self.results.failed.iter();
            let before = failed.find(|failure| failure.is_of(corpus, workload.name, &system.name));
            if before.is_some_and(|failure| failure.times >= PATIENCE) {
                continue;
            }
            if let Err(error) = self.measure(round, stage, workload, &system, image) {
                self.failed(corpus, workload.name, &system.name, format!("{error:#}"))?;
            }
        }
        Ok(())
    }

    /// One system's turn.
    fn measure(
        &mut self,
        round: u32,
        stage: &Stage,
        workload: &Workload,
        system: &System,
        image: &Path,
    ) -> Result<()> {
        let states = self.states.clone();
        if states.contains(&State::Cold) {
            drop_caches()?;
            let mounted = Mounted::new(system, image, &self.at(), &self.log())?;
            self.pass(round, stage, workload, system, State::Cold, &mounted)?;
            if states.contains(&State::Warm) {
                self.pass(round, stage, workload, system, State::Warm, &mounted)?;
            }
            mounted.unmount()?;
        }
        if states.contains(&State::Fresh) || states == [State::Warm] {
            // The source's files are in the page cache for as long as there is memory.
            if system.family != Family::Directory {
                image::warm(image)?;
            }
            let mounted = Mounted::new(system, image, &self.at(), &self.log())?;
            self.pass(round, stage, workload, system, State::Fresh, &mounted)?;
            if states.contains(&State::Warm) && !states.contains(&State::Cold) {
                self.pass(round, stage, workload, system, State::Warm, &mounted)?;
            }
            mounted.unmount()?;
        }
        Ok(())
    }

    fn pass(
        &mut self,
        round: u32,
        stage: &Stage,
        workload: &Workload,
        system: &System,
        state: State,
        mounted: &Mounted,
    ) -> Result<()> {
        if let Kind::Command(tool) = workload.kind {
            self.bench.prime(tool);
        }
        let before = mounted.usage();
        let busy = server::busy_seconds();
        let pass = workload.run(&self.at(), &stage.plan, &self.bench)?;
        let system_cpu = server::busy_seconds() - busy;
        let after = mounted.usage();
        let server_cpu = after.zip(before).map(|(after, before)| after.cpu - before.cpu);
        if let Some(info) = self.results.systems.iter_mut().find(|info| info.name == system.name) {
            info.threads = info.threads.max(after.map_or(0, |usage| usage.threads));
        }
        self.results.samples.push(Sample {
            corpus: stage.corpus.kind.name().to_owned(),
            workload: workload.name.to_owned(),
            state,
            system: system.name.clone(),
            round,
            wall: pass.wall,
            client_cpu: pass.client_cpu,
            server_cpu,
            system_cpu,
            bytes: pass.bytes,
            operations: pass.operations,
            memory_before: before.map(|usage| usage.memory),
            memory_after: after.map(|usage| usage.memory),
        });
        Ok(())
    }
}

fn info(system: &System) -> SystemInfo {
    let arguments: Vec<_> =
        system.arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    SystemInfo {
        name: system.name.clone(),
        version: system.version.clone(),
        builder: system.builder.as_ref().map(|builder| builder.version.clone()),
        is_fuse: system.is_fuse(),
        threads: 0,
        is_slow: system.is_slow,
        arguments: arguments.join(" "),
    }
}
