//! The order of the work: names top-down, content in parallel, then hard
//! links, then directories bottom-up.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::{ScopeFifo, ThreadPool};
use rustix::fs::AtFlags;

use super::directories::{Directories, DirectoryId};
use super::error::{Action, ExtractError, Failure, failed};
use super::file::{self, OpenFile};
use super::outcome::{Outcome, Spot};
use super::report::{ExtractReport, Unrestored, What};
use super::restore::{Handle, Properties};
use super::target::{self, Resolver};
use super::{ExtractOptions, Progress, object};
use crate::format::FileType;
use crate::stack::{Attr, DirEntry, NodeNum, Stack};

/// A larger file is written in parts of so many bytes, in parallel.
const PART: u64 = 8 << 20;
/// Tasks under way for each thread, and in all; each may hold a directory open.
const TASKS_PER_THREAD: usize = 16;
const TASKS_MAX: usize = 256;

/// What all tasks need.
struct Shared<'a> {
    stack: &'a Stack,
    progress: &'a dyn Progress,
    force: bool,
    resolver: Resolver,
    outcome: Outcome,
    tasks: AtomicUsize,
    tasks_max: usize,
}

impl Shared<'_> {
    /// Runs a task on the pool, or here and now when enough are under way.
    fn submit<'scope>(
        &'scope self,
        scope: &ScopeFifo<'scope>,
        task: impl FnOnce(&'scope Self) + Send + 'scope,
    ) {
        if self.tasks.load(Ordering::Relaxed) >= self.tasks_max {
            return task(self);
        }
        self.tasks.fetch_add(1, Ordering::Relaxed);
        scope.spawn_fifo(move |_| {
            task(self);
            self.tasks.fetch_sub(1, Ordering::Relaxed);
        });
    }

    fn finish_part(&self, open: &OpenFile, spot: &Spot, attr: &Attr) {
        let restored = open.finish_part(self.stack).transpose();
        if let Some(result) = restored {
            self.made(spot, attr, result);
        }
    }

    fn made(&self, spot: &Spot, attr: &Attr, result: Result<Vec<What>, Failure>) {
        self.outcome.made(spot, attr.file_type, attr.node, result);
        self.progress.object();
    }

    fn write_part(&self, open: &OpenFile, spot: &Spot, attr: &Attr, start: u64, end: u64) {
        if self.outcome.is_stopped() {
            open.fail();
        } else {
            match open.write(self.stack, start, end, self.progress) {
                Ok(bytes) => self.outcome.wrote(bytes),
                Err(failure) => self.outcome.fail(spot, failure),
            }
        }
        self.finish_part(open, spot, attr);
    }

    fn small_file(&self, directory: &Arc<OwnedFd>, spot: &Spot, attr: &Attr) {
        if self.outcome.is_stopped() {
            return;
        }
        match file::create(&self.resolver, self.stack, attr, directory, &spot.name, self.force) {
            Ok(open) => self.write_part(&open, spot, attr, 0, attr.size),
            Err(failure) => self.outcome.fail(spot, failure),
        }
    }

    fn other(&self, directory: &Arc<OwnedFd>, spot: &Spot, attr: &Attr) {
        if !self.outcome.is_stopped() {
            let result = object::make(self.stack, attr, directory, &spot.name, self.force);
            self.made(spot, attr, result);
        }
    }

    /// Makes a large file and queues its parts that hold data.
    fn large_file<'scope>(
        &'scope self,
        scope: &ScopeFifo<'scope>,
        directory: &Arc<OwnedFd>,
        spot: &Spot,
        attr: Attr,
    ) -> Result<(), Failure> {
        let open =
            file::create(&self.resolver, self.stack, &attr, directory, &spot.name, self.force)?;
        let open = Arc::new(open);
        let queued = self.queue_parts(scope, &open, spot, attr);
        if queued.is_err() {
            open.fail();
        }
        // The part that `create` counts: this one.
        self.finish_part(&open, spot, &attr);
        queued
    }

    fn queue_parts<'scope>(
        &'scope self,
        scope: &ScopeFifo<'scope>,
        open: &Arc<OpenFile>,
        spot: &Spot,
        attr: Attr,
    ) -> Result<(), Failure> {
        let mut at = 0;
        while let Some(data) = self.stack.seek_data(attr.node, at)? {
            if self.outcome.is_stopped() {
                open.fail();
                break;
            }
            // Parts begin at multiples of their size, so that blocks are whole.
            let end = data.saturating_add(1).next_multiple_of(PART).min(attr.size);
            open.add_part();
            let (open, spot) = (Arc::clone(open), spot.clone());
            self.submit(scope, move |shared| shared.write_part(&open, &spot, &attr, data, end));
            at = end;
        }
        Ok(())
    }
}

/// The thread that makes directories and hands out the rest.
struct Walker<'scope, 'a> {
    shared: &'scope Shared<'a>,
    directories: Directories,
    pending: Vec<DirectoryId>,
    firsts: HashMap<NodeNum, Spot>,
    links: Vec<(NodeNum, Spot)>,
}

impl<'scope> Walker<'scope, '_> {
    fn run(&mut self, scope: &ScopeFifo<'scope>) {
        while let Some(directory) = self.pending.pop() {
            if self.shared.outcome.is_stopped() {
                return;
            }
            let mark = self.pending.len();
            if let Err((spot, failure)) = self.visit(scope, directory) {
                return self.shared.outcome.fail(&spot, failure);
            }
            if let Some(added) = self.pending.get_mut(mark..) {
                added.reverse();
            }
        }
    }

    fn visit(&mut self, scope: &ScopeFifo<'scope>, at: DirectoryId) -> Result<(), (Spot, Failure)> {
        let here = || Spot { directory: at, name: [].into() };
        let node = self.directories.node(at);
        let opened = self.directories.open(at, &self.shared.resolver);
        let directory = opened.map_err(|failure| (here(), failure))?;
        let mut stopped = None;
        let listed = self.shared.stack.read_dir(node, 0, &mut |entry| {
            let spot = Spot { directory: at, name: entry.name.into() };
            if let Err(failure) = self.name(scope, &directory, &spot, &entry) {
                stopped = Some((spot, failure));
                return ControlFlow::Break(());
            }
            if self.shared.outcome.is_stopped() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        match (stopped, listed) {
            (Some(stopped), _) => Err(stopped),
            (None, listed) => listed.map_err(|cause| (here(), Failure::Read(cause))),
        }
    }

    fn name(
        &mut self,
        scope: &ScopeFifo<'scope>,
        directory: &Arc<OwnedFd>,
        spot: &Spot,
        entry: &DirEntry<'_>,
    ) -> Result<(), Failure> {
        let shared = self.shared;
        if entry.file_type == FileType::Directory {
            let reused = target::make_directory(directory, entry.name, shared.force)?;
            let id = self.directories.add(spot.directory, entry.name, entry.node);
            if reused {
                target::forget_acls(self.directories.open(id, &shared.resolver)?);
            }
            self.pending.push(id);
            return Ok(());
        }
        let attr = shared.stack.attr(entry.node)?;
        if attr.links > 1 {
            if self.firsts.contains_key(&entry.node) {
                self.links.push((entry.node, spot.clone()));
                return Ok(());
            }
            self.firsts.insert(entry.node, spot.clone());
        }
        if attr.file_type == FileType::Regular && attr.size > PART {
            return shared.large_file(scope, directory, spot, attr);
        }
        let (directory, spot) = (Arc::clone(directory), spot.clone());
        shared.submit(scope, move |shared| {
            if attr.file_type == FileType::Regular {
                shared.small_file(&directory, &spot, &attr);
            } else {
                shared.other(&directory, &spot, &attr);
            }
        });
        Ok(())
    }

    fn make_links(&mut self) {
        for (node, spot) in std::mem::take(&mut self.links) {
            let outcome = &self.shared.outcome;
            if outcome.is_stopped() {
                return;
            }
            if outcome.is_missing(node) {
                outcome.lose(&spot, vec![What::Device]);
                continue;
            }
            match self.make_link(node, &spot) {
                Ok(()) => outcome.linked(),
                Err(failure) => outcome.fail(&spot, failure),
            }
            self.shared.progress.object();
        }
    }

    fn make_link(&mut self, node: NodeNum, spot: &Spot) -> Result<(), Failure> {
        let Some(first) = self.firsts.get(&node) else { return Ok(()) };
        let resolver = &self.shared.resolver;
        let from = self.directories.open(first.directory, resolver)?;
        let to = self.directories.open(spot.directory, resolver)?;
        let made = target::make(&*to, &spot.name, self.shared.force, || {
            rustix::fs::linkat(&from, &*first.name, &to, &*spot.name, AtFlags::empty())
        });
        made.map_err(|failure| match failure {
            Failure::System(Action::Create, cause) => Failure::System(Action::Link, cause),
            other => other,
        })
    }

    fn restore_directories(&mut self) {
        for id in self.directories.bottom_up() {
            if self.shared.outcome.is_stopped() {
                return;
            }
            let spot = Spot { directory: id, name: [].into() };
            let node = self.directories.node(id);
            let restored = self.restore_directory(id, node);
            self.shared.outcome.made(&spot, FileType::Directory, node, restored);
            self.shared.progress.object();
        }
    }

    fn restore_directory(&mut self, id: DirectoryId, node: NodeNum) -> Result<Vec<What>, Failure> {
        let directory = self.directories.open(id, &self.shared.resolver)?;
        let attr = self.shared.stack.attr(node)?;
        let xattrs = self.shared.stack.xattrs(node)?;
        let properties = Properties { attr: &attr, xattrs: &xattrs };
        properties.restore(Handle::Open(directory.as_fd()))
    }

    fn sync(&mut self) {
        let root = self.directories.open(DirectoryId::ROOT, &self.shared.resolver);
        let synced = root.and_then(|root| rustix::fs::syncfs(&*root).map_err(failed(Action::Sync)));
        if let Err(failure) = synced {
            let spot = Spot { directory: DirectoryId::ROOT, name: [].into() };
            self.shared.outcome.fail(&spot, failure);
        }
    }
}

/// See [`super::extract`].
pub fn run(
    stack: &Stack,
    target: &Path,
    options: &ExtractOptions,
    pool: &ThreadPool,
    progress: &dyn Progress,
) -> Result<ExtractReport, ExtractError> {
    let root = target::open_target(target, options.force)?;
    let threads = pool.current_num_threads().max(1);
    let shared = Shared {
        stack,
        progress,
        force: options.force,
        resolver: Resolver::default(),
        outcome: Outcome::new(options.strict),
        tasks: AtomicUsize::new(0),
        tasks_max: threads.saturating_mul(TASKS_PER_THREAD).min(TASKS_MAX),
    };
    let mut walker = Walker {
        shared: &shared,
        directories: Directories::new(root),
        pending: vec![DirectoryId::ROOT],
        firsts: HashMap::new(),
        links: Vec::new(),
    };
    pool.in_place_scope_fifo(|scope| walker.run(scope));
    walker.make_links();
    walker.restore_directories();
    if options.sync && !shared.outcome.is_stopped() {
        walker.sync();
    }
    let Walker { directories, .. } = walker;
    let path = |spot: &Spot| directories.path(spot.directory, &spot.name);
    let ended = shared.outcome.end();
    if let Some((spot, failure)) = ended.failure {
        return Err(failure.at(full_path(target, path(&spot))));
    }
    let mut report = ended.report;
    let listed = ended.lost.into_iter();
    report.unrestored = listed.map(|(spot, what)| Unrestored { path: path(&spot), what }).collect();
    report.unrestored.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(report)
}

fn full_path(target: &Path, path: PathBuf) -> PathBuf {
    if path.as_os_str().is_empty() { target.to_path_buf() } else { target.join(path) }
}
