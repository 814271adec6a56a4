//! Mount options, as structure and as the `-o` text that mount(8) users write.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroUsize;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::Duration;

use rustix::mount::MountFlags;
use thiserror::Error;

use crate::capability::CapabilitySet;
use crate::log::Log;

/// The default subtype: mounts show as type `fuse.microfs`.
pub const SUBTYPE: &str = "microfs";

/// Options that say nothing about a read-only FUSE mount, or that only other
/// programs (mount(8), systemd) act on.
const IGNORED: &[&[u8]] = &[
    b"ro",
    b"default_permissions",
    b"defaults",
    b"async",
    b"sync",
    b"dirsync",
    b"_netdev",
    b"nofail",
    b"auto",
    b"noauto",
    b"user",
    b"nouser",
    b"users",
    b"nousers",
    b"owner",
    b"noowner",
    b"group",
    b"nogroup",
    b"relatime",
    b"norelatime",
    b"strictatime",
    b"nostrictatime",
    b"diratime",
    b"nodiratime",
    b"lazytime",
    b"nolazytime",
    b"mand",
    b"nomand",
    b"iversion",
    b"noiversion",
    b"silent",
    b"loud",
    b"nonempty",
];
const IGNORED_PREFIXES: &[&[u8]] = &[b"x-", b"X-", b"user=", b"comment="];

/// Who may use a mount, before the permissions of its files are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Everyone when root mounts (a container's root filesystem has many
    /// users), only the mounting user otherwise.
    #[default]
    Automatic,
    /// Everyone (`allow_other`). An ordinary user needs `user_allow_other` in `/etc/fuse.conf`.
    Everyone,
    /// Root and the mounting user (`allow_root`). Refused unless they are the
    /// same: the kernel's caches know only one user or all.
    RootAndOwner,
}

/// Most threads that may answer requests; each needs a stack and a few mappings.
pub const THREADS_MAX: usize = 1024;

/// How to mount. The mount is always read-only, and the kernel always checks
/// the permissions of files (`default_permissions`).
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// Who may use it.
    pub access: Access,
    /// Honour setuid and setgid bits and file capabilities. `None`: yes for
    /// root, as a root filesystem needs; an ordinary user cannot have it.
    pub suid: Option<bool>,
    /// Let device files work. `None`: as [`Self::suid`].
    pub dev: Option<bool>,
    /// Let programs run. Default: yes.
    pub exec: bool,
    /// `noatime`. There are no access times to update; it only shows in the mount table.
    pub noatime: bool,
    /// Have `fusermount3` take the mount down when the server ends, however it
    /// ends. Walks through the mount's root then cost a message each. Without
    /// [`Access::Everyone`] an ordinary user's fusermount3 before 3.15 cannot
    /// see that the server has died, and leaves the mount.
    pub auto_unmount: bool,
    /// What the mount table shows as source. `None`: `microfs`.
    pub fs_name: Option<OsString>,
    /// The mount shows as type `fuse.` and this. Default: [`SUBTYPE`].
    pub subtype: OsString,
    /// Threads that answer requests, at most [`THREADS_MAX`]. `None`: one for
    /// each core, at most 8.
    pub threads: Option<NonZeroUsize>,
    /// Mount over a FUSE mount that is already there.
    pub over: bool,
    /// Read-ahead in KiB to set where the system permits (root); `None` leaves the kernel's 128.
    pub read_ahead_kib: Option<u32>,
    /// Put the rest of a block that was decoded for a request into the kernel's page cache.
    pub push: bool,
    /// Unmount when nothing was asked of the mount for so long and nobody uses it.
    pub idle: Option<Duration>,
    /// Unmount on SIGTERM, SIGINT and SIGHUP.
    pub signals: bool,
    /// Kernel features not to use though they are offered, as on an older kernel.
    pub masked: CapabilitySet,
    /// Where damage and trouble are reported.
    pub log: Log,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            access: Access::default(),
            suid: None,
            dev: None,
            exec: true,
            noatime: false,
            auto_unmount: false,
            fs_name: None,
            subtype: SUBTYPE.into(),
            threads: None,
            over: false,
            read_ahead_kib: Some(1024),
            push: true,
            idle: None,
            signals: true,
            masked: CapabilitySet::default(),
            log: Log::stderr(),
        }
    }
}

/// Who wrote an option text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A user; `rw` is an error.
    CommandLine,
    /// mount(8), which says `rw` whenever nobody said `ro`; it is ignored.
    MountHelper,
}

/// An option that cannot be honoured.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum OptionError {
    /// Nobody knows it.
    #[error("unknown mount option {:?}", String::from_utf8_lossy(.option))]
    Unknown {
        /// The option with its value.
        option: Vec<u8>,
    },
    /// Its value cannot be used.
    #[error("mount option {:?} has a bad value", String::from_utf8_lossy(.option))]
    BadValue {
        /// The option with its value.
        option: Vec<u8>,
    },
    /// `rw` was asked for.
    #[error("mount option \"rw\": images are read-only; ask for a writable overlay instead")]
    ReadWrite,
}

impl MountOptions {
    /// Applies a comma-separated list; of contradicting options the last wins.
    /// A comma or backslash in a value is written with a backslash before it.
    ///
    /// Besides the usual options of mount(8) and FUSE there is `threads=N`.
    ///
    /// # Errors
    /// [`OptionError`], naming the first bad option; those before it are applied.
    pub fn apply(&mut self, list: &OsStr, origin: Origin) -> Result<(), OptionError> {
        split(list.as_bytes()).iter().try_for_each(|option| self.apply_one(option, origin))
    }

    /// As [`Self::apply`], but passes over options that are unknown.
    pub(crate) fn apply_known(&mut self, list: &OsStr, origin: Origin) -> Result<(), OptionError> {
        split(list.as_bytes()).iter().try_for_each(|option| match self.apply_one(option, origin) {
            Err(OptionError::Unknown { .. }) => Ok(()),
            applied => applied,
        })
    }

    /// What mount(2) is told of these.
    pub(crate) fn restrictions(&self) -> MountFlags {
        let mut flags = MountFlags::empty();
        flags.set(MountFlags::NOSUID, self.suid == Some(false));
        flags.set(MountFlags::NODEV, self.dev == Some(false));
        flags.set(MountFlags::NOEXEC, !self.exec);
        flags.set(MountFlags::NOATIME, self.noatime);
        flags
    }

    fn apply_one(&mut self, option: &[u8], origin: Origin) -> Result<(), OptionError> {
        match option {
            b"" => {}
            b"rw" if origin == Origin::CommandLine => return Err(OptionError::ReadWrite),
            b"rw" => {}
            b"allow_other" => self.access = Access::Everyone,
            b"allow_root" => self.access = Access::RootAndOwner,
            b"suid" => self.suid = Some(true),
            b"nosuid" => self.suid = Some(false),
            b"dev" => self.dev = Some(true),
            b"nodev" => self.dev = Some(false),
            b"exec" => self.exec = true,
            b"noexec" => self.exec = false,
            b"atime" => self.noatime = false,
            b"noatime" => self.noatime = true,
            b"auto_unmount" => self.auto_unmount = true,
            _ if IGNORED.contains(&option) => {}
            _ if IGNORED_PREFIXES.iter().any(|prefix| option.starts_with(prefix)) => {}
            _ => return self.apply_value(option),
        }
        Ok(())
    }

    fn apply_value(&mut self, option: &[u8]) -> Result<(), OptionError> {
        let unknown = || OptionError::Unknown { option: option.to_vec() };
        let bad = || OptionError::BadValue { option: option.to_vec() };
        let equals = option.iter().position(|byte| *byte == b'=').ok_or_else(unknown)?;
        let (key, value) = option.split_at_checked(equals).ok_or_else(unknown)?;
        let value = value.get(1..).filter(|value| !value.contains(&0)).ok_or_else(bad)?;
        match key {
            b"fsname" if !value.is_empty() => {
                self.fs_name = Some(OsString::from_vec(value.to_vec()));
            }
            b"subtype" if !value.is_empty() && !value.contains(&b'/') => {
                self.subtype = OsString::from_vec(value.to_vec());
            }
            b"threads" => {
                let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                let number = number.filter(|number: &NonZeroUsize| number.get() <= THREADS_MAX);
                self.threads = Some(number.ok_or_else(bad)?);
            }
            b"fsname" | b"subtype" => return Err(bad()),
            _ => return Err(unknown()),
        }
        Ok(())
    }
}

fn split(list: &[u8]) -> Vec<Vec<u8>> {
    let mut options = Vec::new();
    let mut option = Vec::new();
    let mut bytes = list.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b',' => options.push(std::mem::take(&mut option)),
            b'\\' => option.push(*bytes.next().unwrap_or(byte)),
            _ => option.push(*byte),
        }
    }
    options.push(option);
    options
}

#[cfg(test)]
mod tests;
