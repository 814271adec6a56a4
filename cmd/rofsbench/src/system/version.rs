//! Which version a program is.

use std::path::Path;
use std::process::Command;

use crate::child;

/// What a program says of itself, and the Debian package it comes from.
pub fn of(program: &Path) -> String {
    let own = ["--version", "-V", "-version", "--help"].iter().find_map(|option| {
        let said = child::output(Command::new(program).arg(option));
        said.lines().find(|line| is_version(line)).map(|line| line.trim().to_owned())
    });
    let own = own.unwrap_or_else(|| "version unknown".to_owned());
    match package(program) {
        Some(package) => format!("{own} (Debian {package})"),
        None => own,
    }
}

/// A line such as `mksquashfs version 4.5.1 (2022/03/17)`: one word, perhaps some
/// more, then a number with a dot, all of it short.
fn is_version(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let starts_with_name = words.next().is_some_and(|word| word.starts_with(char::is_alphabetic));
    let is_number = |word: &str| {
        let digits = word.trim_start_matches('v');
        digits.starts_with(|first: char| first.is_ascii_digit()) && digits.contains('.')
    };
    // FUSE libraries print their own version, too.
    starts_with_name && !line.starts_with("FUSE") && words.take(3).any(is_number)
}

fn package(program: &Path) -> Option<String> {
    let path = std::fs::canonicalize(program).ok()?;
    let found = child::output(Command::new("dpkg-query").arg("--search").arg(path));
    let name = found.lines().find_map(|line| line.split_once(": /")).map(|(name, _)| name)?;
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat", "${Package} ${Version}", name]);
    let plain = name.split(':').next()?;
    Some(child::output(&mut query)).filter(|text| text.starts_with(plain))
}

#[cfg(test)]
mod tests {
    use super::is_version;

    #[test]
    fn version_lines_are_told_from_others() {
        for line in [
            "microfs 0.1.0",
            "squashfuse 0.1.104 (c) 2012 Dave Vasilevsky",
            "mksquashfs version 4.5.1 (2022/03/17)",
            "mkfs.erofs 1.5",
            "mkfs.erofs (erofs-utils) 1.8.3",
            "puzzlefs v0.2.0",
        ] {
            assert!(is_version(line), "{line}");
        }
        for line in [
            "",
            "FUSE library version 3.14.0",
            "mkfs.erofs: invalid option -- 'V'",
            "  -b 1.5",
            "Usage: squashfuse [options] ARCHIVE MOUNTPOINT",
        ] {
            assert!(!is_version(line), "{line}");
        }
    }
}
