//! Trees with many files, which are for mounting and not for reading.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::interrupt;

/// Files of one directory.
const SHARE: u64 = 1000;

/// Adds so many small files to a tree, in directories of 1,000 files. `part`
/// tells one addition from another.
pub fn add_files(root: &Path, part: u32, count: u64) -> Result<()> {
    add(root, part, count, |number| format!("file {number} of part {part}\n").repeat(8))
}

/// A tree of so many empty files.
pub fn add_empty(root: &Path, count: u64) -> Result<()> {
    add(root, 0, count, |_| String::new())
}

fn add(root: &Path, part: u32, count: u64, content: impl Fn(u64) -> String) -> Result<()> {
    let mut folder = root.to_owned();
    for number in 0..count {
        if number % SHARE == 0 {
            interrupt::check()?;
            folder = root.join(format!("part{part}-{:05}", number / SHARE));
            fs::create_dir(&folder)?;
        }
        fs::write(folder.join(format!("file-{number:07}")), content(number))?;
    }
    Ok(())
}
