//! Making the mount and getting the device that serves it: by mount(2) where
//! that is permitted, else through fusermount3.

use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mount::MountFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::error::MountError;
use crate::fusermount;
use crate::options::{Access, MountOptions, SUBTYPE};

/// A fresh mount.
pub(crate) struct Attached {
    /// The connection to the kernel.
    pub(crate) device: OwnedFd,
    /// While this is open, fusermount3 leaves the mount alone (`auto_unmount`).
    pub(crate) keeper: Option<UnixStream>,
}

/// Where the FUSE device is.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// Type bits of a directory's mode.
const S_IFDIR: u32 = 0o040_000;

/// Mounts on a directory whose path is absolute and resolved. `permissions`
/// are those of the image's root: with them in place from the start, an
/// overlay made over the mount sees the right ones.
pub(crate) fn attach(
    mount_point: &Path,
    permissions: u16,
    options: &MountOptions,
) -> Result<Attached, MountError> {
    let is_root = rustix::process::geteuid().is_root();
    if options.access == Access::RootAndOwner && !is_root {
        return Err(MountError::AllowRoot);
    }
    if options.auto_unmount {
        return by_fusermount(mount_point, options, is_root);
    }
    let device = match File::options().read(true).write(true).open(DEVICE) {
        Ok(device) => device,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_root => {
            return by_fusermount(mount_point, options, is_root);
        }
        Err(error) => return Err(device_error(error)),
    };
    match by_syscall(&device, mount_point, permissions, options, is_root) {
        Ok(()) => Ok(Attached { device: device.into(), keeper: None }),
        Err(Errno::PERM) => by_fusermount(mount_point, options, is_root),
        Err(Errno::NODEV) => Err(MountError::NoDevice),
        Err(errno) => Err(MountError::Mount { path: mount_point.to_owned(), source: errno.into() }),
    }
}

/// Whether the device can be opened again, as one for each thread needs.
pub(crate) fn device_opens() -> bool {
    File::options().read(true).write(true).open(DEVICE).is_ok()
}

fn device_error(error: io::Error) -> MountError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NXIO | Errno::NODEV) => MountError::NoDevice,
        Some(Errno::ACCESS | Errno::PERM) => MountError::DeviceDenied,
        _ => MountError::Device(error),
    }
}

fn everyone(options: &MountOptions, is_root: bool) -> bool {
    match options.access {
        Access::Automatic => is_root,
        Access::Everyone => true,
        Access::RootAndOwner => false,
    }
}

fn source(options: &MountOptions) -> &OsStr {
    options.fs_name.as_deref().unwrap_or(OsStr::new(SUBTYPE))
}

fn by_syscall(
    device: &File,
    mount_point: &Path,
    permissions: u16,
    options: &MountOptions,
    is_root: bool,
) -> Result<(), Errno> {
    let flags = MountFlags::RDONLY | options.restrictions();
    let data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions{}",
        device.as_raw_fd(),
        S_IFDIR | u32::from(permissions),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
        if everyone(options, is_root) { ",allow_other" } else { "" },
    );
    let data = CString::new(data).map_err(|_| Errno::INVAL)?;
    let mut fs_type = OsString::from("fuse.");
    fs_type.push(&options.subtype);
    rustix::mount::mount(source(options), mount_point, fs_type, flags, data.as_c_str())
}

fn by_fusermount(
    mount_point: &Path,
    options: &MountOptions,
    is_root: bool,
) -> Result<Attached, MountError> {
    let (ours, theirs) = UnixStream::pair().map_err(MountError::Start)?;
    // The program inherits its end under the same number.
    fcntl_setfd(&theirs, FdFlags::empty()).map_err(|errno| MountError::Start(errno.into()))?;
    let number = theirs.as_raw_fd().to_string();
    let list = fusermount_options(options, is_root);
    let arguments = [OsStr::new("-o"), &list, OsStr::new("--"), mount_point.as_os_str()];
    let child = fusermount::start(&arguments, Some(("_FUSE_COMMFD", &number)));
    let child = child.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::NoFusermount,
        _ => MountError::Fusermount(error),
    })?;
    drop(theirs);
    let received = receive(ours.as_fd()).map_err(MountError::Fusermount)?;
    let Some(device) = received else {
        let output = child.wait_with_output().map_err(MountError::Fusermount)?;
        return Err(refusal(fusermount::message(&output.stderr)));
    };
    if options.auto_unmount {
        // It stays, and acts when our end closes.
        return Ok(Attached { device, keeper: Some(ours) });
    }
    child.wait_with_output().map_err(MountError::Fusermount)?;
    Ok(Attached { device, keeper: None })
}

fn fusermount_options(options: &MountOptions, is_root: bool) -> OsString {
    let mut list = b"ro,default_permissions,fsname=".to_vec();
    escape(&mut list, source(options));
    list.extend_from_slice(b",subtype=");
    escape(&mut list, &options.subtype);
    // nosuid and nodev are fusermount3's own defaults, and all that ordinary users get.
    let suid = options.suid.unwrap_or(is_root);
    let dev = options.dev.unwrap_or(is_root);
    let chosen: [(bool, &[u8]); 5] = [
        (suid && is_root, b",suid"),
        (dev && is_root, b",dev"),
        (!options.exec, b",noexec"),
        (options.noatime, b",noatime"),
        (everyone(options, is_root), b",allow_other"),
    ];
    for (_, option) in chosen.iter().filter(|(chosen, _)| *chosen) {
        list.extend_from_slice(option);
    }
    if options.auto_unmount {
        list.extend_from_slice(b",auto_unmount");
    }
    OsString::from_vec(list)
}

fn escape(list: &mut Vec<u8>, value: &OsStr) {
    for byte in value.as_bytes() {
        if matches!(byte, b',' | b'\\') {
            list.push(b'\\');
        }
        list.push(*byte);
    }
}

/// The device that fusermount3 sends; nothing when it ends without sending one.
fn receive(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    loop {
        let mut data = [IoSliceMut::new(&mut byte)];
        match recvmsg(&socket, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) => break,
        }
    }
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut devices) => devices.next(),
        _ => None,
    }))
}

fn refusal(message: Vec<u8>) -> MountError {
    if fusermount::mentions(&message, "user_allow_other") {
        MountError::AllowOtherDenied
    } else if fusermount::mentions(&message, "device not found") {
        MountError::NoDevice
    } else if fusermount::mentions(&message, DEVICE) {
        MountError::DeviceDenied
    } else {
        MountError::Refused { message }
    }
}

#[cfg(test)]
mod tests;
