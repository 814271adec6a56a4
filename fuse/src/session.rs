//! A mount from its making to its end.

use std::io;
use std::num::NonZeroUsize;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvError, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use microfs::stack::{NodeNum, Stack};

use crate::adapter::Adapter;
use crate::attach::{Attached, attach, device_opens};
use crate::detach::detach;
use crate::errno::describe;
use crate::error::{MountError, UnmountError};
use crate::handshake::shake_hands;
use crate::log::Log;
use crate::mount_point;
use crate::mountinfo::{self, Device, MountEntry};
use crate::options::{MountOptions, THREADS_MAX};
use crate::overlay::{Hidden, Writable, cover, may_mount};
use crate::place::{Place, Taken};
use crate::server;
use crate::signals::Watcher;
use crate::statistics::Statistics;
use crate::upper::Prepared;

/// Most threads that are started without being asked for.
const THREADS_UNASKED: usize = 8;
/// From this number of threads on, each has its own queue in the kernel.
const THREADS_WITH_OWN_QUEUE: usize = 5;
/// How long the reason may take to arrive when a mount does not answer.
const REASON: Duration = Duration::from_secs(1);

/// What a mount's owner waits for.
pub(crate) enum Event {
    /// The process is asked to end.
    Signal,
    /// Serving has ended: the mount is gone, or the connection broke.
    Ended(io::Result<()>),
}

/// How a mount came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It was unmounted, from here or from outside, and nobody uses it any more.
    Unmounted,
    /// A second signal came while it was still in use; users get ENOTCONN once
    /// the process has ended.
    Abandoned,
}

/// A mount that answers. Dropping it takes the mount down, lazily if it is in use.
#[derive(Debug)]
pub struct Mounted {
    image: Place,
    /// The overlay that makes it writable.
    cover: Option<Place>,
    /// Only the overlay uses the image, which ends with it.
    is_hidden: bool,
    statistics: Arc<Statistics>,
    log: Log,
    events: Receiver<Event>,
    is_live: bool,
    idle: Option<Duration>,
    /// Requests when it was last looked whether there are new ones.
    seen: u64,
    /// Held for what they do when dropped.
    _watcher: Option<Watcher>,
    _keeper: Option<UnixStream>,
    /// Keeps other mounts out of the directories for changes.
    _changes: Option<Prepared>,
}

/// Mounts a stack on a directory and serves it in threads of its own. When this
/// returns, the root has been read through the mount.
///
/// With [`MountOptions::signals`] the signals that came in meanwhile and later
/// are acted upon by [`Mounted::wait`].
///
/// # Errors
/// [`MountError`]; nothing is left mounted then.
pub fn mount(
    stack: Arc<Stack>,
    mount_point: &Path,
    options: &MountOptions,
) -> Result<Mounted, MountError> {
    let path = mount_point::check(mount_point, options.over)?;
    let root = stack.attr(NodeNum::ROOT)?;
    let (sender, events) = channel();
    let watcher = options.signals.then(|| Watcher::start(sender.clone())).transpose();
    let watcher = watcher.map_err(MountError::Start)?;
    // Looked for while files can still be read whatever is mounted where: from
    // here on one below the mount point would wait for this very thread.
    let crew = Crew::for_mount(options);
    let Attached { device, keeper } = attach(&path, root.permissions, options)?;
    let statistics = Arc::new(Statistics::default());
    let log = options.log.clone();
    let started = serve(stack, Arc::clone(&statistics), device, sender, options, &crew);
    let found = started.and_then(|()| first_look(&path, &events));
    let found = found.inspect_err(|_| {
        // Best effort: the error that brought us here is the one to report.
        let _ = detach(&path, true);
    })?;
    let image = Place::from(found);
    if let Some(kib) = options.read_ahead_kib {
        raise_read_ahead(image.device, kib);
    }
    Ok(Mounted {
        image,
        cover: None,
        is_hidden: false,
        statistics,
        log,
        events,
        is_live: true,
        idle: options.idle,
        seen: 0,
        _watcher: watcher,
        _keeper: keeper,
        _changes: None,
    })
}

/// As [`mount`], writable: an overlay shows the image with the changes of
/// `dirs`, which are made if they are missing. Taking the mount down takes both
/// down.
///
/// # Errors
/// [`MountError`]; nothing is left mounted then.
pub fn mount_writable(
    stack: Arc<Stack>,
    mount_point: &Path,
    dirs: &Writable,
    options: &MountOptions,
) -> Result<Mounted, MountError> {
    let path = mount_point::check(mount_point, options.over)?;
    let prepared = Prepared::new(&stack, dirs)?;
    if may_mount() {
        let mut mounted = mount(stack, &path, options)?;
        mounted.cover = Some(cover(&path, &path, dirs, options)?.into());
        mounted._changes = Some(prepared.kept());
        return Ok(mounted);
    }
    // Dropped last, when nothing is mounted on it any more.
    let hidden = Hidden::make(dirs)?;
    let mut mounted = mount(stack, hidden.path(), options)?;
    mounted.cover = Some(cover(&mounted.image.mount_point, &path, dirs, options)?.into());
    if let Err(error) = mounted.image.take_away() {
        let path = mounted.image.mount_point.clone();
        return Err(MountError::Hide { path, source: Box::new(error) });
    }
    mounted.is_hidden = true;
    mounted._changes = Some(prepared.kept());
    Ok(mounted)
}

/// The threads that serve a mount.
struct Crew {
    threads: usize,
    /// Each has its own queue in the kernel.
    own_queues: bool,
}

impl Crew {
    /// As many as asked for, or as the machine has a use for.
    fn for_mount(options: &MountOptions) -> Self {
        let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let unasked = || cores().min(THREADS_UNASKED);
        let threads = options.threads.map_or_else(unasked, NonZeroUsize::get).min(THREADS_MAX);
        Self { threads, own_queues: threads >= THREADS_WITH_OWN_QUEUE && device_opens() }
    }
}

/// Agrees with the kernel on how to talk, and starts talking.
fn serve(
    stack: Arc<Stack>,
    statistics: Arc<Statistics>,
    device: OwnedFd,
    events: Sender<Event>,
    options: &MountOptions,
    crew: &Crew,
) -> Result<(), MountError> {
    let acls = stack.xattr_knowledge().acl;
    let agreed = shake_hands(&device, options.masked, acls).map_err(MountError::Handshake)?;
    let device = Arc::new(device);
    let mut adapter = Adapter::new(stack, statistics, options.log.clone(), agreed)
        .with_live_root(options.auto_unmount);
    if options.push {
        adapter = adapter.with_pusher(&device);
    }
    let ended = move |result| {
        // The receiver is gone only when nobody waits any more.
        let _ = events.send(Event::Ended(result));
    };
    server::start(adapter, device, crew.threads, crew.own_queues, ended).map_err(MountError::Start)
}

/// Reads the root through the mount: it answers, and the kernel has the
/// root's true owner and permissions before anyone makes an overlay of it.
fn first_look(path: &Path, events: &Receiver<Event>) -> Result<MountEntry, MountError> {
    look(path).map_err(|source| match events.recv_timeout(REASON) {
        Ok(Event::Ended(Err(reason))) => MountError::Serve(reason),
        _ => MountError::NotAnswering { path: path.to_owned(), source },
    })
}

fn look(path: &Path) -> io::Result<MountEntry> {
    let root = rustix::fs::stat(path)?;
    let device = (rustix::fs::major(root.st_dev), rustix::fs::minor(root.st_dev));
    let ours = |mount: &MountEntry| {
        mount.mount_point == path && mount.device == device && mount.fs_type.starts_with(b"fuse.")
    };
    // Somebody may have unmounted it already.
    let gone = || rustix::io::Errno::NOTCONN.into();
    mountinfo::read()?.into_iter().rfind(ours).ok_or_else(gone)
}

/// Sets the read-ahead of this mount alone. Only root may; for others, and
/// where /sys is read-only, the kernel's own value stays.
fn raise_read_ahead((major, minor): Device, kib: u32) {
    let set = move || {
        let file = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
        let _ = std::fs::write(file, kib.to_string());
    };
    // In a thread of its own: no mount waits for sysfs. Failing to start it costs speed only.
    let _ = std::thread::Builder::new().name("microfs-bdi".into()).spawn(set);
}

impl Mounted {
    /// Where it is seen, absolute and resolved.
    #[must_use]
    pub fn mount_point(&self) -> &Path {
        &self.cover.as_ref().unwrap_or(&self.image).mount_point
    }

    /// Its counters, which stay readable when it has ended.
    #[must_use]
    pub fn statistics(&self) -> Arc<Statistics> {
        Arc::clone(&self.statistics)
    }

    /// Serves until the mount is gone. The first signal unmounts, lazily when
    /// the mount is in use: this then returns when its last user is gone. A
    /// second one returns at once.
    ///
    /// # Errors
    /// [`MountError::Serve`] when the connection to the kernel broke; the mount is gone then.
    pub fn wait(mut self) -> Result<End, MountError> {
        let mut is_ending = false;
        loop {
            let event = match self.idle {
                Some(limit) if !is_ending => match self.events.recv_timeout(limit) {
                    Err(RecvTimeoutError::Timeout) => {
                        self.end_if_idle();
                        continue;
                    }
                    other => other.map_err(|_| RecvError),
                },
                _ => self.events.recv(),
            };
            match event {
                Ok(Event::Signal) if is_ending => {
                    self.is_live = false;
                    return Ok(End::Abandoned);
                }
                Ok(Event::Signal) => {
                    is_ending = true;
                    if let Err(error) = self.take_down() {
                        let error = describe(&error);
                        self.log.line(&format!("{error}; signal again to end at once"));
                    }
                }
                Ok(Event::Ended(Ok(()))) | Err(_) => {
                    self.is_live = false;
                    return Ok(End::Unmounted);
                }
                // Dropping takes away what may be left of the mount.
                Ok(Event::Ended(Err(error))) => return Err(MountError::Serve(error)),
            }
        }
    }

    /// Unmounts, lazily when the mount is in use.
    ///
    /// # Errors
    /// [`UnmountError`]; the mount then stays until the process ends.
    pub fn unmount(mut self) -> Result<(), UnmountError> {
        self.is_live = false;
        self.take_down()
    }

    /// The mounts to take down, in this order.
    fn places(&self) -> impl Iterator<Item = &Place> {
        self.cover.iter().chain((!self.is_hidden).then_some(&self.image))
    }

    /// Unmounts when there was no request since the last time and nobody has
    /// a file or directory of the mount open.
    fn end_if_idle(&mut self) {
        let now = self.statistics.all_requests();
        if std::mem::replace(&mut self.seen, now) != now {
            return;
        }
        match self.places().try_for_each(|place| place.take_away_if_idle().map(|_| ())) {
            Ok(()) | Err(UnmountError::Busy { .. }) => {}
            Err(error) => self.log.line(&describe(&error)),
        }
    }

    fn take_down(&self) -> Result<(), UnmountError> {
        let mut last = Taken::Away;
        for place in self.places() {
            last = place.take_away()?;
        }
        let path = self.mount_point().display();
        match last {
            Taken::Away => {}
            Taken::Absent => {
                self.log.line("unmounted already, but still in use; ending with the last user");
            }
            Taken::Detached => {
                self.log.line(&format!("{path} was in use: detached, ending with the last user"));
            }
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.is_live
            && let Err(error) = self.take_down()
        {
            self.log.line(&describe(&error));
        }
    }
}
