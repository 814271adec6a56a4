//! Trees made from a seed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};

use super::cached;
use crate::cli::Options;
use crate::interrupt;
use crate::random::Random;

/// What is part of each key; changes when the same options make another tree.
const GENERATION: u32 = 1;

const WORDS: [&[u8]; 12] = [
    b"layer ", b"block ", b"inode ", b"the ", b"of ", b"tree\n", b"0x00 ", b"extent ", b"return ",
    b"int ", b"    ", b"= ",
];

/// A pseudo-random tree: so many files, so many bytes. One file has a quarter of
/// the bytes, the sizes of the others are spread evenly over their logarithms.
/// Three files of four are text, the others do not compress.
pub fn random(options: &Options) -> Result<PathBuf> {
    let (seed, files, budget) = (options.seed, options.files(), options.budget());
    let key = format!("random-{GENERATION}-r{seed}-n{files}-B{budget}");
    cached(&options.work, &key, |root| {
        let mut random = Random::named(seed, "tree");
        let directories = directories(root, files / 12, &mut random)?;
        let parts = split(budget - budget / 4, files.saturating_sub(1), &mut random);
        let sizes = std::iter::once(budget / 4).chain(parts);
        let mut before: Option<PathBuf> = None;
        for (number, size) in sizes.enumerate() {
            interrupt::check()?;
            let folder = &directories[random.index(directories.len())];
            let path = folder.join(name(number, &mut random));
            // The large file is half text, so that decompression is part of reading it.
            let fill = match (number, random.below(4)) {
                (0, _) => Fill::Both,
                (_, 0) => Fill::Noise,
                _ => Fill::Text,
            };
            write(&path, size, fill, &mut random)?;
            match (random.below(100), &before) {
                (0, Some(before)) => fs::hard_link(before, path.with_extension("hard"))?,
                (1..=5, Some(before)) => {
                    let target = before.file_name().unwrap_or_default();
                    std::os::unix::fs::symlink(target, path.with_extension("link"))?;
                }
                _ => {}
            }
            before = Some(path);
        }
        settle(root)
    })
}

/// Files as of a camera: none compresses, one has a quarter of the bytes.
pub fn media(options: &Options) -> Result<PathBuf> {
    let (seed, budget) = (options.seed, options.media_size());
    let key = format!("media-{GENERATION}-r{seed}-B{budget}");
    cached(&options.work, &key, |root| {
        let mut random = Random::named(seed, "media");
        let directories = directories(root, 4, &mut random)?;
        write(&root.join("film.mp4"), budget / 4, Fill::Noise, &mut random)?;
        let count = (budget / (4 << 20)).max(8);
        let share = (budget - budget / 4) / count;
        for number in 0..count {
            interrupt::check()?;
            let folder = &directories[random.index(directories.len())];
            let size = share / 2 + random.below(share);
            write(&folder.join(format!("{number:05}.jpg")), size, Fill::Noise, &mut random)?;
        }
        settle(root)
    })
}

/// Gives everything below one time, so that a tree made again is the same.
fn settle(path: &Path) -> Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        fs::read_dir(path)?.try_for_each(|entry| settle(&entry?.path()))?;
    }
    let time = Timespec { tv_sec: 1_500_000_000, tv_nsec: 0 };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// The root and so many directories below it, at most 8 deep.
fn directories(root: &Path, count: u64, random: &mut Random) -> Result<Vec<PathBuf>> {
    let mut all = vec![(root.to_owned(), 0u32)];
    for number in 0..count {
        let (parent, depth) = all[random.index(all.len())].clone();
        let (parent, depth) = if depth < 8 { (parent, depth) } else { (root.to_owned(), 0) };
        let path = parent.join(format!("{}.d", name(number as usize, random)));
        fs::create_dir(&path)?;
        all.push((path, depth + 1));
    }
    Ok(all.into_iter().map(|(path, _)| path).collect())
}

/// A name that no other number gets. Its length is beta-distributed: the middle
/// one of three uniform numbers, up to 40.
fn name(number: usize, random: &mut Random) -> String {
    let mut lengths = [random.below(40), random.below(40), random.below(40)];
    lengths.sort_unstable();
    let letters = (0..lengths[1]).map(|_| char::from(b'a' + random.below(26) as u8));
    letters.chain(format!("{number:x}").chars()).collect()
}

/// Splits a budget into so many parts whose sum is exactly the budget.
fn split(budget: u64, parts: u64, random: &mut Random) -> Vec<u64> {
    let weights: Vec<f64> = (0..parts).map(|_| (random.fraction() * 12.0).exp2()).collect();
    let total: f64 = weights.iter().sum();
    let (mut sum, mut given) = (0.0, 0);
    let mut sizes: Vec<u64> = weights
        .iter()
        .map(|weight| {
            sum += weight;
            let upto = (sum / total * budget as f64) as u64;
            let size = upto.min(budget).saturating_sub(given);
            given += size;
            size
        })
        .collect();
    if let Some(last) = sizes.last_mut() {
        *last += budget - given;
    }
    sizes
}

#[derive(Clone, Copy)]
enum Fill {
    Text,
    Noise,
    /// Text and noise by turns, 64 KiB each.
    Both,
}

fn write(path: &Path, size: u64, fill: Fill, random: &mut Random) -> Result<()> {
    let mut file = File::create_new(path)?;
    let mut buffer = Vec::with_capacity(1 << 16);
    let (mut left, mut turn) = (size, 0u32);
    while left > 0 {
        let length = left.min(1 << 16) as usize;
        let is_text = match fill {
            Fill::Text => true,
            Fill::Noise => false,
            Fill::Both => turn.is_multiple_of(2),
        };
        buffer.clear();
        if is_text {
            while buffer.len() < length {
                buffer.extend_from_slice(WORDS[random.index(WORDS.len())]);
            }
            buffer.truncate(length);
        } else {
            buffer.resize(length, 0);
            random.fill(&mut buffer);
        }
        file.write_all(&buffer)?;
        left -= length as u64;
        turn += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Random, split};

    #[test]
    fn a_budget_is_spent_exactly() {
        for (budget, parts) in [(0, 3), (1, 1), (1000, 7), (117_440_512, 4999)] {
            let sizes = split(budget, parts, &mut Random::new(1));
            assert_eq!(sizes.len() as u64, parts);
            assert_eq!(sizes.iter().sum::<u64>(), budget);
        }
    }
}
