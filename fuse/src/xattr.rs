//! Answers about extended attributes.

use std::path::PathBuf;

use microfs::stack::{NodeNum, Stack};
use rustix::io::Errno;

use crate::errno::Failure;

/// Attributes that only `CAP_SYS_ADMIN` of the initial user namespace may
/// see; the kernel guards their values, but leaves their names to the filesystem.
const TRUSTED: &[u8] = b"trusted.";
/// Names that `ls -l` asks every file for, until it hears that the filesystem
/// knows nothing of the kind.
const LABEL: &[u8] = b"security.selinux";
const ACLS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];
/// Number of `CAP_SYS_ADMIN` in a capability set.
const CAP_SYS_ADMIN: u32 = 21;

/// What to answer to a request for a value or a list.
pub(crate) enum Answer {
    /// Its length; the caller probed with size 0.
    Size(u32),
    /// The bytes.
    Data(Vec<u8>),
}

/// The value of an attribute for a caller with room for `size` bytes (0: a probe).
///
/// # Errors
/// `ENOSYS` when no object of the stack has any attribute (the kernel then
/// never asks again), `EOPNOTSUPP` for labels and ACLs when no object has any,
/// `ENODATA`, `ERANGE`, and the stack's own errors.
pub(crate) fn get(stack: &Stack, node: NodeNum, name: &[u8], size: u32) -> Result<Answer, Failure> {
    let known = stack.xattr_knowledge();
    if !known.any {
        return Err(Errno::NOSYS.into());
    }
    if !known.may_have(name) {
        // Where ACLs occur the kernel itself asks, and takes that for a failure.
        let is_foreign = name == LABEL || !known.acl && ACLS.contains(&name);
        return Err(if is_foreign { Errno::NOTSUP } else { Errno::NODATA }.into());
    }
    let value = stack.xattr(node, name)?.ok_or(Errno::NODATA)?;
    fit(value, size)
}

/// The names of an object's attributes, each ended by a NUL, for the process `pid`.
///
/// A stack without any attribute gives empty lists: the kernel would turn
/// `ENOSYS` into `EOPNOTSUPP`, of which tools that copy attributes complain.
///
/// # Errors
/// `ERANGE`, and the stack's own errors.
pub(crate) fn list(stack: &Stack, node: NodeNum, size: u32, pid: u32) -> Result<Answer, Failure> {
    let mut names = Vec::new();
    if !stack.xattr_knowledge().any {
        return fit(names, size);
    }
    let mut may_see_trusted = None;
    for (name, _) in stack.xattrs(node)? {
        let hidden = name.starts_with(TRUSTED)
            && !*may_see_trusted.get_or_insert_with(|| is_administrator(pid));
        if !hidden {
            names.extend_from_slice(&name);
            names.push(0);
        }
    }
    fit(names, size)
}

fn fit(bytes: Vec<u8>, size: u32) -> Result<Answer, Failure> {
    let length = u32::try_from(bytes.len()).map_err(|_| Errno::RANGE)?;
    match size {
        0 => Ok(Answer::Size(length)),
        _ if length > size => Err(Errno::RANGE.into()),
        _ => Ok(Answer::Data(bytes)),
    }
}

/// Whether a process has `CAP_SYS_ADMIN` in the initial user namespace, as far
/// as `/proc` tells; a process that cannot be seen has not.
fn is_administrator(pid: u32) -> bool {
    let process: PathBuf = ["/proc", &pid.to_string()].iter().collect();
    let read = |file: &str| std::fs::read_to_string(process.join(file)).unwrap_or_default();
    has_capability(&read("status")) && maps_everything(&read("uid_map"))
}

fn has_capability(status: &str) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|set| set & (1 << CAP_SYS_ADMIN) != 0)
}

fn maps_everything(uid_map: &str) -> bool {
    uid_map.split_ascii_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests;
