//! `microfs mount`, and the same as a helper of mount(8).

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use microfs::stack::StackOptions;
use microfs_fuse::background::{self, BackgroundError};
use microfs_fuse::ready::ReadyNotifier;
use microfs_fuse::{
    Capability, End, HelperCall, Log, MountOptions, Origin, THREADS_MAX, mount, mount_writable,
};
use microfs_oci::{PlatformRequest, Reference};

use crate::exit::{self, Outcome, UsageError};
use crate::image;
use crate::options::{self, PlatformArgs};
use crate::output;
use crate::status::{self, Metrics};
use crate::writable::{self, Changes};

/// Mount an image
///
/// Without -f the command returns when the mount answers, and a process in the
/// background serves it.
#[derive(Debug, Args)]
pub struct MountArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG, then the directory to mount on
    #[arg(required = true, num_args = 1..=3, value_name = options::THEN_DIRECTORY)]
    words: Vec<OsString>,
    /// Stay in the foreground
    #[arg(long, short)]
    foreground: bool,
    /// Make the mount writable; changes are lost when it is taken down
    #[arg(long, short)]
    writable: bool,
    /// Writable, with the changes in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "persist")]
    upper: Option<PathBuf>,
    /// Writable, with the changes kept in this directory for later mounts of the same image
    #[arg(long, value_name = "DIR")]
    persist: Option<PathBuf>,
    /// Unmount when nobody used the mount for so long
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,
    /// Mount options as mount(8) knows them, separated by commas
    #[arg(short, value_name = "OPTIONS")]
    options: Vec<OsString>,
    /// Write one byte to this FIFO: s when the mount answers, f on failure
    #[arg(long, short, value_name = "FIFO")]
    init_pipe: Option<PathBuf>,
    /// Write the same byte to this inherited file descriptor
    #[arg(long, value_name = "N")]
    ready_fd: Option<i32>,
    /// Threads that answer requests [default: one for each core, at most 8]
    #[arg(long, short = 'j', value_name = "N", value_parser = threads)]
    threads: Option<NonZeroUsize>,
    /// MiB of decoded blocks to keep
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    cache_mb: u32,
    /// Do not put the rest of a decoded block into the kernel's page cache
    #[arg(long)]
    no_push: bool,
    /// Give metrics in Prometheus' text format: ADDRESS:PORT to serve them at, or a file to keep them in
    #[arg(long, value_name = "ADDRESS|FILE")]
    metrics: Option<Metrics>,
    /// Append reports of damage to this file [default: standard error in the
    /// foreground; in the background the system's log, by way of /dev/log or /dev/kmsg]
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Mount over a FUSE mount that is already there
    #[arg(long)]
    over: bool,
    /// Do without a kernel feature, as on an older kernel; repeatable
    #[arg(long, value_name = "FEATURE", hide = true)]
    mask: Vec<Capability>,
    #[command(flatten)]
    platform: PlatformArgs,
}

/// A number of threads that a process can have.
fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().filter(|number: &NonZeroUsize| number.get() <= THREADS_MAX);
    number.ok_or_else(|| format!("must be a number from 1 to {THREADS_MAX}"))
}

/// Mounts, and in the foreground or in the background process serves.
pub fn run(args: &MountArgs) -> anyhow::Result<Outcome> {
    let notifier = || {
        let parent = background::enter().context("cannot go into the background")?;
        Ok::<_, anyhow::Error>(ReadyNotifier::new(
            parent,
            args.init_pipe.as_deref(),
            args.ready_fd,
        )?)
    };
    if !args.foreground && !background::is_copy() {
        return in_background();
    }
    // Made first: dropped on any failure, it tells whoever waits.
    let notifier = notifier()?;
    let (reference, rest) = image::split(&args.words, 1)?;
    let [directory] = rest else { bail!("a directory to mount on is missing") };
    if directory.is_empty() {
        return Err(UsageError::of("the directory to mount on is an empty word").into());
    }
    let mut options = MountOptions {
        threads: args.threads,
        over: args.over,
        push: !args.no_push,
        idle: args.timeout.map(|seconds| Duration::from_secs(seconds.into())),
        ..MountOptions::default()
    };
    options.log = match &args.log {
        Some(file) => {
            Log::append_to(file).with_context(|| format!("cannot write to {}", file.display()))?
        }
        None if background::is_copy() => system_log(&reference, directory.as_ref()),
        None => Log::stderr(),
    };
    for list in &args.options {
        options.apply(list, Origin::CommandLine).map_err(UsageError::of)?;
    }
    for capability in &args.mask {
        options.masked.insert(*capability);
    }
    let stack =
        StackOptions { cache_bytes: u64::from(args.cache_mb) << 20, ..StackOptions::default() };
    let job = Job {
        reference,
        platform: args.platform.request(),
        stack,
        directory: PathBuf::from(directory),
        changes: args.changes(),
        metrics: args.metrics.clone(),
    };
    job.serve(options, notifier)
}

impl MountArgs {
    fn changes(&self) -> Option<Changes> {
        let upper = self.upper.clone().map(Changes::Upper);
        let kept = upper.or_else(|| self.persist.clone().map(Changes::Persist));
        kept.or_else(|| self.writable.then_some(Changes::Temporary))
    }
}

/// Lets a copy of this process serve, and returns when its mount answers.
fn in_background() -> anyhow::Result<Outcome> {
    match background::spawn(std::env::args_os()) {
        Ok(()) => Ok(Outcome::Done),
        // It has said why.
        Err(BackgroundError::Ended { status }) if status.code().is_some() => {
            // Whatever its code: without a mount it has failed.
            let code = status.code().and_then(|code| u8::try_from(code).ok());
            Ok(code.filter(|code| *code != 0).map_or(Outcome::Negative, Outcome::Failed))
        }
        Err(error) => Err(error.into()),
    }
}

/// The log of a mount that nobody looks at; each line names it.
fn system_log(reference: &Reference, directory: &Path) -> Log {
    // As seen from anywhere; as given where that cannot be said.
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let reference = Reference { layout: absolute(&reference.layout), ..reference.clone() };
    let directory = absolute(directory);
    Log::system(&format!("{} on {}", image::reference_text(&reference), directory.display()))
}

/// What to mount where.
struct Job {
    reference: Reference,
    platform: PlatformRequest,
    stack: StackOptions,
    directory: PathBuf,
    changes: Option<Changes>,
    metrics: Option<Metrics>,
}

impl Job {
    fn serve(self, mut options: MountOptions, notifier: ReadyNotifier) -> anyhow::Result<Outcome> {
        let opened = image::open(&self.reference, &self.platform, &self.stack)?;
        let place = match &self.changes {
            Some(changes) => {
                writable::refuse_hazards(&opened.stack)?;
                Some(writable::place(changes, opened.image.manifest.digest.as_ref())?)
            }
            None => None,
        };
        if options.fs_name.is_none() {
            options.fs_name = Some(image::reference_text(&self.reference).into());
        }
        let stack = Arc::clone(&opened.stack);
        let mounted = match &place {
            None => mount(opened.stack, &self.directory, &options)?,
            Some(place) => mount_writable(opened.stack, &self.directory, &place.dirs, &options)?,
        };
        let source = status::Source {
            image: image::reference_text(&self.reference),
            manifest: opened.image.manifest.digest.to_string(),
            stack,
            statistics: mounted.statistics(),
        };
        if let Some(metrics) = &self.metrics {
            metrics.start(source.clone(), &self.directory)?;
        }
        // A mount whose numbers cannot be asked for is as good as any other.
        if let Err(error) = status::serve(&self.directory, source) {
            options.log.line(&format!(
                "`microfs status` will not answer for this mount: {}",
                exit::chain_text(error.as_ref())
            ));
        }
        notifier.ready()?;
        let ended = match mounted.wait() {
            Ok(End::Unmounted) => return Ok(Outcome::Done),
            Ok(End::Abandoned) => anyhow!("ended while the mount was still in use"),
            Err(error) => error.into(),
        };
        if background::is_copy() {
            // Nobody hears what it says.
            options.log.line(&exit::chain_text(ended.as_ref()));
        }
        Err(ended)
    }
}

/// Exit codes of mount(8).
const INCORRECT_INVOCATION: u8 = 1;
const MOUNT_FAILURE: u8 = 32;

const HELPER_HELP: &str = "\
Usage: mount.microfs OCI-DIR:TAG DIRECTORY [-sfnv] [-o OPTIONS]

The helper that mount(8) calls for `mount -t microfs` and for lines of fstab.
`microfs mount --help` explains all that mounts can be given.";

/// When the program was called as `mount.microfs` or `mount.fuse.microfs`:
/// does what mount(8) asks for. Exit codes are those of mount(8), which passes
/// them on.
pub fn as_mount_helper() -> anyhow::Result<Option<Outcome>> {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default();
    if name.as_bytes() != b"mount.microfs" && name.as_bytes() != b"mount.fuse.microfs" {
        return Ok(None);
    }
    Ok(Some(match help_mount(arguments) {
        Ok(Outcome::Negative) => Outcome::Failed(MOUNT_FAILURE),
        Ok(outcome) => outcome,
        Err(error) => {
            exit::print(&error);
            let is_usage = exit::is_usage(&error);
            Outcome::Failed(if is_usage { INCORRECT_INVOCATION } else { MOUNT_FAILURE })
        }
    }))
}

fn help_mount(arguments: impl Iterator<Item = OsString>) -> anyhow::Result<Outcome> {
    let arguments: Vec<_> = arguments.collect();
    if arguments.first().is_some_and(|first| first == "-h" || first == "--help") {
        output::line(HELPER_HELP)?;
        return Ok(Outcome::Done);
    }
    let mut call = HelperCall::parse(arguments).map_err(UsageError::of)?;
    let reference = Reference::parse(&call.source)?;
    if call.fake {
        return Ok(Outcome::Done);
    }
    if !background::is_copy() {
        if call.verbose {
            let source = Path::new(OsStr::from_bytes(call.source.as_bytes())).display();
            let target = call.target.display();
            output::line(format_args!("microfs: mounting {source} on {target}"))?;
        }
        return in_background();
    }
    let parent = background::enter().context("cannot go into the background")?;
    let notifier = ReadyNotifier::new(parent, None, None)?;
    call.options.log = system_log(&reference, &call.target);
    let job = Job {
        reference,
        platform: PlatformRequest::Host,
        stack: StackOptions::default(),
        directory: call.target,
        changes: None,
        metrics: None,
    };
    job.serve(call.options, notifier)
}
