//! Objects without content: links, pipes, sockets, devices.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType as NodeType, Mode};
use rustix::io::Errno;

use super::error::{Action, Failure};
use super::report::What;
use super::restore::{Handle, Properties};
use super::target;
use crate::format::FileType;
use crate::stack::{Attr, Stack};

/// Makes an object that is neither a directory nor a regular file; returns
/// what could not be restored, [`What::Device`] when it was not made.
pub fn make(
    stack: &Stack,
    attr: &Attr,
    directory: &OwnedFd,
    name: &[u8],
    force: bool,
) -> Result<Vec<What>, Failure> {
    let target = match attr.file_type {
        FileType::Symlink => stack.read_link(attr.node)?,
        _ => Vec::new(),
    };
    let made = target::make(directory, name, force, || {
        let node = match attr.file_type {
            FileType::Symlink => return rustix::fs::symlinkat(&*target, directory, name),
            FileType::CharDevice => NodeType::CharacterDevice,
            FileType::BlockDevice => NodeType::BlockDevice,
            FileType::Fifo => NodeType::Fifo,
            FileType::Socket => NodeType::Socket,
            FileType::Regular | FileType::Directory => return Err(Errno::INVAL),
        };
        let device = rustix::fs::makedev(attr.device.major, attr.device.minor);
        rustix::fs::mknodat(directory, name, node, Mode::RUSR | Mode::WUSR, device)
    });
    let is_device = matches!(attr.file_type, FileType::CharDevice | FileType::BlockDevice);
    match made {
        Err(Failure::System(Action::Create, cause))
            if is_device && cause.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Ok(vec![What::Device])
        }
        Err(failure) => Err(failure),
        Ok(()) => {
            let xattrs = stack.xattrs(attr.node)?;
            let properties = Properties { attr, xattrs: &xattrs };
            properties.restore(Handle::Name(directory.as_fd(), name))
        }
    }
}
