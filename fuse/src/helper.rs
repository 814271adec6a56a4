//! The command line of a mount(8) helper: `mount.microfs SOURCE TARGET [-sfnv] [-N NS] [-o OPTIONS] [-t TYPE]`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use thiserror::Error;

use crate::options::{MountOptions, OptionError, Origin};

/// What mount(8) asks for.
#[derive(Debug)]
pub struct HelperCall {
    /// The first field of an fstab line, for the caller to interpret.
    pub source: OsString,
    /// Where to mount.
    pub target: PathBuf,
    /// How to mount; the name in the mount table is the source, unless `fsname=` says otherwise.
    pub options: MountOptions,
    /// Do everything but the mount itself (`-f`).
    pub fake: bool,
    /// Say what is done (`-v`).
    pub verbose: bool,
}

/// A command line that mount(8) would not write.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum HelperError {
    /// Source or target is missing, or there are more words than that.
    #[error("usage: mount.microfs OCI-DIR:TAG DIRECTORY [-sfnv] [-o OPTIONS]")]
    Usage,
    /// A flag that helpers do not have.
    #[error("unknown flag {:?}", String::from_utf8_lossy(.flag))]
    UnknownFlag {
        /// The argument it is in.
        flag: Vec<u8>,
    },
    /// An option after `-o`.
    #[error(transparent)]
    Option(#[from] OptionError),
}

impl HelperCall {
    /// Takes apart the arguments after the program's name.
    ///
    /// # Errors
    /// [`HelperError`]. With `-s` unknown options are passed over.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, HelperError> {
        let mut words = Vec::new();
        let mut lists = Vec::new();
        let (mut fake, mut verbose, mut sloppy) = (false, false, false);
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let Some(flags) = argument.as_bytes().strip_prefix(b"-").filter(|f| !f.is_empty())
            else {
                words.push(argument);
                continue;
            };
            for (index, flag) in flags.iter().enumerate() {
                match flag {
                    b'f' => fake = true,
                    b'v' => verbose = true,
                    b's' => sloppy = true,
                    b'n' => {}
                    b'o' | b't' | b'N' => {
                        let value = value(flags.get(index.saturating_add(1)..), &mut arguments)?;
                        if *flag == b'o' {
                            lists.push(value);
                        }
                        break;
                    }
                    _ => return Err(HelperError::UnknownFlag { flag: argument.into_vec() }),
                }
            }
        }
        let [source, target]: [OsString; 2] = words.try_into().map_err(|_| HelperError::Usage)?;
        let mut options = MountOptions { fs_name: Some(source.clone()), ..Default::default() };
        lists.iter().try_for_each(|list| apply(&mut options, list, sloppy))?;
        Ok(Self { source, target: target.into(), options, fake, verbose })
    }
}

/// A flag's value: the rest of its argument or, if that is empty, the next one.
fn value(
    rest: Option<&[u8]>,
    arguments: &mut impl Iterator<Item = OsString>,
) -> Result<OsString, HelperError> {
    match rest {
        Some(rest) if !rest.is_empty() => Ok(OsString::from_vec(rest.to_vec())),
        _ => arguments.next().ok_or(HelperError::Usage),
    }
}

fn apply(options: &mut MountOptions, list: &OsStr, sloppy: bool) -> Result<(), OptionError> {
    if !sloppy {
        return options.apply(list, Origin::MountHelper);
    }
    options.apply_known(list, Origin::MountHelper)
}

#[cfg(test)]
mod tests;
