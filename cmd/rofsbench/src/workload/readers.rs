//! Threads that read. Each call is counted, and what was read is compared with
//! what should have been, so that no error looks like speed.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use super::Done;
use super::plan::{PAGE, Plan};
use crate::interrupt;

/// Bytes of a request where nothing else is said.
const REQUEST: usize = 128 << 10;
/// Bytes of a request when a large file is read in order.
const LARGE: usize = 1 << 20;

/// Lists all directories, then reads all files found, as `find` and some `cat`
/// would, in the order found.
pub fn read_all(at: &Path, plan: &Plan, threads: usize) -> Result<Done> {
    let root = File::open(at)?;
    let (files, names) = walk(root.as_fd())?;
    ensure!(names == plan.names, "{names} names were found, {} should be", plan.names);
    let next = AtomicUsize::new(0);
    let reader = || -> Result<u64> {
        let mut buffer = vec![0; REQUEST];
        let mut bytes = 0;
        while let Some(path) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            interrupt::check()?;
            bytes += read(root.as_fd(), path, &mut buffer)?;
        }
        Ok(bytes)
    };
    let bytes: u64 = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(reader)).collect();
        let own = reader();
        others.into_iter().try_fold(own?, |sum, other| match other.join() {
            Ok(bytes) => Ok(sum + bytes?),
            Err(_) => bail!("a reader thread ended early"),
        })
    })?;
    ensure!(bytes == plan.bytes, "{bytes} bytes were read, {} should be", plan.bytes);
    Ok(Done { bytes, operations: files.len() as u64 })
}

/// Reads these files from start to end.
pub fn whole(at: &Path, plan: &Plan, order: &[usize]) -> Result<Done> {
    let root = File::open(at)?;
    let mut buffer = vec![0; REQUEST];
    let mut done = Done { bytes: 0, operations: 0 };
    for file in plan.pick(order) {
        interrupt::check()?;
        let bytes = read(root.as_fd(), &file.path, &mut buffer)?;
        ensure!(bytes == file.size, "{:?}: {bytes} bytes were read of {}", file.path, file.size);
        done.bytes += bytes;
        done.operations += 1;
    }
    Ok(done)
}

/// Reads all blocks of these files, one request each.
pub fn blocks(at: &Path, plan: &Plan, order: &[usize], is_random: bool) -> Result<Done> {
    let root = File::open(at)?;
    let mut buffer = vec![0; usize::try_from(plan.block)?];
    let mut done = Done { bytes: 0, operations: 0 };
    for file in plan.pick(order) {
        interrupt::check()?;
        let opened = open(root.as_fd(), &file.path)?;
        let count = file.blocks.len() as u64;
        for (index, shuffled) in (0..count).zip(&file.blocks) {
            let number = if is_random { u64::from(*shuffled) } else { index };
            let offset = number * plan.block;
            let wanted = plan.block.min(file.size - offset);
            read_at(&opened, &mut buffer, offset, wanted)
                .with_context(|| format!("{:?}", file.path))?;
            done.bytes += wanted;
            done.operations += 1;
        }
    }
    ensure!(done.bytes == plan.bytes, "{} bytes were read of {}", done.bytes, plan.bytes);
    Ok(done)
}

/// Attributes of these files by their names.
pub fn stat(at: &Path, plan: &Plan, order: &[usize]) -> Result<Done> {
    let root = File::open(at)?;
    let mut done = Done { bytes: 0, operations: 0 };
    for file in plan.pick(order) {
        let stat = rustix::fs::statat(&root, &file.path, AtFlags::SYMLINK_NOFOLLOW)
            .with_context(|| format!("{:?}", file.path))?;
        ensure!(stat.st_size as u64 == file.size, "{:?}: size {}", file.path, stat.st_size);
        done.operations += 1;
    }
    Ok(done)
}

/// The largest file, in order.
pub fn sequential(at: &Path, plan: &Plan) -> Result<Done> {
    let root = File::open(at)?;
    let file = plan.files.get(plan.largest).context("no file")?;
    let bytes = read(root.as_fd(), &file.path, &mut vec![0; LARGE])?;
    ensure!(bytes == file.size, "{bytes} bytes were read of {}", file.size);
    Ok(Done { bytes, operations: bytes.div_ceil(LARGE as u64) })
}

/// Pages of the largest file, at random.
pub fn random(at: &Path, plan: &Plan) -> Result<Done> {
    let root = File::open(at)?;
    let file = plan.files.get(plan.largest).context("no file")?;
    let opened = open(root.as_fd(), &file.path)?;
    let mut buffer = vec![0; PAGE as usize];
    let mut done = Done { bytes: 0, operations: 0 };
    for offset in &plan.offsets {
        let wanted = PAGE.min(file.size - offset);
        read_at(&opened, &mut buffer, *offset, wanted)?;
        done.bytes += wanted;
        done.operations += 1;
        if done.operations.is_multiple_of(256) {
            interrupt::check()?;
        }
    }
    Ok(done)
}

fn open(root: BorrowedFd<'_>, path: &CString) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(root, path, flags, Mode::empty())
        .with_context(|| format!("cannot open {path:?}"))
}

/// Reads a file to its end and returns how many bytes it has.
fn read(root: BorrowedFd<'_>, path: &CString, buffer: &mut [u8]) -> Result<u64> {
    let file = open(root, path)?;
    let mut bytes = 0;
    loop {
        match rustix::io::read(&file, &mut *buffer) {
            Ok(0) => return Ok(bytes),
            Ok(count) => bytes += count as u64,
            Err(rustix::io::Errno::INTR) => interrupt::check()?,
            Err(error) => return Err(error).with_context(|| format!("cannot read {path:?}")),
        }
    }
}

/// One request, which must be answered in full.
fn read_at(file: &OwnedFd, buffer: &mut [u8], offset: u64, wanted: u64) -> Result<()> {
    let count = rustix::io::pread(file, &mut *buffer, offset)?;
    ensure!(count as u64 == wanted, "{count} bytes at {offset}, {wanted} should be");
    Ok(())
}

/// Paths of all regular files below, and the number of all names that are not
/// those of directories.
fn walk(root: BorrowedFd<'_>) -> Result<(Vec<CString>, u64)> {
    let (mut files, mut names) = (Vec::new(), 0);
    let mut todo = vec![Vec::new()];
    while let Some(path) = todo.pop() {
        interrupt::check()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = if path.is_empty() { &b"."[..] } else { &path };
        let directory = rustix::fs::openat(root, name, flags, Mode::empty())
            .with_context(|| format!("cannot open {}", String::from_utf8_lossy(name)))?;
        for entry in Dir::new(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let below =
                if path.is_empty() { name.to_vec() } else { [&path, &b"/"[..], name].concat() };
            match entry.file_type() {
                FileType::Directory => todo.push(below),
                file_type => {
                    names += 1;
                    if file_type == FileType::RegularFile {
                        files.push(CString::new(below)?);
                    }
                }
            }
        }
    }
    Ok((files, names))
}
