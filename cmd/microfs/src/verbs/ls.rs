//! `microfs ls`

use std::ffi::OsString;
use std::io::Write;
use std::ops::ControlFlow;

use clap::Args;
use microfs::FileType;
use microfs::stack::{Attr, NodeNum, Stack, StackOptions};

use super::path::find;
use crate::exit::Outcome;
use crate::image;
use crate::options::PlatformArgs;
use crate::output;

/// List files of an image, as `ls -lR` would
#[derive(Debug, Args)]
pub struct LsArgs {
    /// OCI-DIR TAG or OCI-DIR:TAG, then paths in the image, starting with /
    #[arg(required = true, num_args = 1.., value_names = ["OCI-DIR[:TAG]", "PATH"])]
    words: Vec<OsString>,
    /// Names only
    #[arg(long, short = '1')]
    names: bool,
    /// Do not go into sub-directories
    #[arg(long, short)]
    directory: bool,
    #[command(flatten)]
    platform: PlatformArgs,
}

/// Prints the listing.
pub fn run(args: &LsArgs) -> anyhow::Result<Outcome> {
    let (reference, paths) = image::split_paths(&args.words)?;
    let opened = image::open(&reference, &args.platform.request(), &StackOptions::default())?;
    let mut out = output::stdout();
    let whole = [OsString::from("/")];
    let paths = if paths.is_empty() { &whole } else { paths };
    for path in paths {
        let (node, path) = find(&opened.stack, path, false)?;
        let listing = Listing { stack: &opened.stack, args };
        listing.print(&mut out, node, path)?;
    }
    out.flush()?;
    Ok(Outcome::Done)
}

struct Listing<'a> {
    stack: &'a Stack,
    args: &'a LsArgs,
}

impl Listing<'_> {
    /// Prints an object and, unless told otherwise, what is below it; without
    /// recursion, so that no depth is too deep.
    fn print(&self, out: &mut impl Write, node: NodeNum, path: Vec<u8>) -> anyhow::Result<()> {
        let mut pending = vec![(node, path)];
        let mut depth = 0u32;
        while let Some((node, path)) = pending.pop() {
            let attr = self.stack.attr(node)?;
            self.line(out, &attr, &path)?;
            let enter = !self.args.directory || depth == 0;
            depth = depth.saturating_add(1);
            if attr.file_type != FileType::Directory || !enter {
                continue;
            }
            let mark = pending.len();
            self.stack.read_dir(node, 0, &mut |entry| {
                let mut child = path.clone();
                if !child.ends_with(b"/") {
                    child.push(b'/');
                }
                child.extend_from_slice(entry.name);
                pending.push((entry.node, child));
                ControlFlow::Continue(())
            })?;
            if let Some(children) = pending.get_mut(mark..) {
                children.reverse();
            }
        }
        Ok(())
    }

    fn line(&self, out: &mut impl Write, attr: &Attr, path: &[u8]) -> anyhow::Result<()> {
        let name = output::printable(path);
        if self.args.names {
            return Ok(writeln!(out, "{name}")?);
        }
        let size = match attr.file_type {
            FileType::CharDevice | FileType::BlockDevice => {
                format!("{},{}", attr.device.major, attr.device.minor)
            }
            FileType::Directory => "-".to_owned(),
            _ => attr.size.to_string(),
        };
        write!(
            out,
            "{} {:>3} {:>5} {:>5} {:>12} {}.{:09} {name}",
            mode_text(attr),
            attr.links,
            attr.uid,
            attr.gid,
            size,
            attr.mtime.seconds,
            attr.mtime.nanoseconds,
        )?;
        if attr.file_type == FileType::Symlink {
            let target = self.stack.read_link(attr.node)?;
            write!(out, " -> {}", output::printable(&target))?;
        }
        Ok(writeln!(out)?)
    }
}

/// Type and permissions in ten characters, as `ls -l` shows them.
fn mode_text(attr: &Attr) -> String {
    let kind = match attr.file_type {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::CharDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
    };
    let mut text = String::from(kind);
    let mode = attr.permissions;
    let special = [(0o4000, 's'), (0o2000, 's'), (0o1000, 't')];
    for (shift, (bit, letter)) in [6u16, 3, 0].into_iter().zip(special) {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & bit != 0, bits & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}
