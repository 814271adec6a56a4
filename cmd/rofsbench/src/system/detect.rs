//! Which systems there are: the directory, microfs, and every peer that is
//! installed or that `--tool` names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Builder, Family, Format, System, version};
use crate::child;
use crate::cli::{Options, Tool};
use crate::results::Remark;

/// All systems that can be measured here, and why others cannot.
pub fn systems(options: &Options) -> Result<(Vec<System>, Vec<Remark>)> {
    let mut found = Found::new(options);
    found.add("directory", Family::Directory, None, None, "the source, bound".to_owned());
    found.microfs()?;
    found.squashfs()?;
    found.erofs()?;
    found.puzzlefs();
    let Found { mut systems, mut skipped, .. } = found;
    for name in &options.systems {
        let is_known = systems.iter().any(|system| system.name == *name);
        if !is_known && !skipped.iter().any(|skip| skip.what == *name) {
            let known: Vec<_> = systems.iter().map(|system| system.name.as_str()).collect();
            bail!("--system {name}: there are {}", known.join(", "));
        }
    }
    if !options.systems.is_empty() {
        systems.retain(|system| options.systems.contains(&system.name));
        skipped.retain(|skip| options.systems.contains(&skip.what));
    }
    for (name, words) in &options.mount_args {
        let system = systems.iter_mut().find(|system| system.name == *name);
        let system = system.with_context(|| format!("--mount-args {name}: not measured"))?;
        system.arguments = words.split_whitespace().map(OsString::from).collect();
    }
    Ok((systems, skipped))
}

/// The program of this name in PATH.
pub fn which(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}

struct Found<'a> {
    options: &'a Options,
    is_root: bool,
    kernel: String,
    systems: Vec<System>,
    skipped: Vec<Remark>,
}

impl<'a> Found<'a> {
    fn new(options: &'a Options) -> Self {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        Self {
            options,
            is_root: is_real_root(),
            kernel: format!("Linux {release}"),
            systems: Vec::new(),
            skipped: Vec::new(),
        }
    }

    fn add(
        &mut self,
        name: impl Into<String>,
        family: Family,
        builder: Option<Builder>,
        server: Option<PathBuf>,
        version: String,
    ) {
        self.systems.push(System {
            name: name.into(),
            family,
            builder,
            server,
            version,
            arguments: Vec::new(),
            is_slow: matches!(family, Family::Squashfuse | Family::Puzzlefs),
        });
    }

    fn skip(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.skipped.push(Remark { what: what.into(), why: why.into() });
    }

    /// Tools of a program that the user named; the first is unlabelled if there
    /// is one.
    fn named(&self, program: &str) -> Vec<Tool> {
        let mut tools: Vec<_> =
            self.options.tools.iter().filter(|tool| tool.program == program).cloned().collect();
        tools.sort_by_key(|tool| tool.label.is_some());
        tools
    }

    /// As [`Self::named`], with what is installed when no unlabelled one is named.
    fn tools(&self, program: &str) -> Vec<Tool> {
        let mut tools = self.named(program);
        if tools.first().is_none_or(|tool| tool.label.is_some())
            && let Some(path) = which(program)
        {
            tools.insert(0, Tool { program: program.to_owned(), label: None, path });
        }
        tools
    }

    fn microfs(&mut self) -> Result<()> {
        let mut tools = self.named("microfs");
        if tools.first().is_none_or(|tool| tool.label.is_some()) {
            let path = own_microfs().or_else(|| which("microfs"));
            let path = path.context("no program microfs: build it, or name it by --tool")?;
            tools.insert(0, Tool { program: "microfs".to_owned(), label: None, path });
        }
        for tool in tools {
            let builder = builder(Format::Microfs, &tool.path);
            let version = builder.version.clone();
            self.add(tool.name(), Family::Microfs, Some(builder), Some(tool.path), version);
        }
        Ok(())
    }

    fn squashfs(&mut self) -> Result<()> {
        let Some(tool) = self.tools("mksquashfs").into_iter().next() else {
            for name in ["squashfuse", "squashfuse_ll", "squashfs"] {
                self.skip(name, "no mksquashfs");
            }
            return Ok(());
        };
        let builder = builder(Format::Squashfs, &tool.path);
        for (name, family) in
            [("squashfuse", Family::Squashfuse), ("squashfuse_ll", Family::SquashfuseLl)]
        {
            let tools = self.tools(name);
            if tools.is_empty() {
                self.skip(name, "not installed");
            }
            for tool in tools {
                let version = version::of(&tool.path);
                self.add(tool.name(), family, Some(builder.clone()), Some(tool.path), version);
            }
        }
        if self.has_driver("squashfs", "squashfs") {
            let version = format!("{} on a loop device", self.kernel);
            self.add("squashfs", Family::Squashfs, Some(builder), None, version);
        }
        Ok(())
    }

    fn erofs(&mut self) -> Result<()> {
        let makers = self.tools("mkfs.erofs");
        if makers.is_empty() {
            self.skip("erofs-lz4hc", "no mkfs.erofs");
            return Ok(());
        }
        let mut formats = Vec::new();
        for tool in &makers {
            let help = child::output(Command::new(&tool.path).arg("--help"));
            let has_zstd = help.contains("zstd");
            // A labelled one is there for zstd; lz4hc is what all have.
            if tool.label.is_none() || !has_zstd {
                formats.push((tool.label.clone(), builder(Format::ErofsLz4, &tool.path)));
            }
            if has_zstd {
                formats.push((tool.label.clone(), builder(Format::ErofsZstd, &tool.path)));
            }
        }
        let servers = self.tools("erofsfuse");
        if servers.is_empty() {
            self.skip("erofsfuse", "not installed");
        }
        if self.has_driver("erofs-lz4hc", "erofs") {
            for (label, builder) in formats.clone() {
                let version = format!("{} on a loop device", self.kernel);
                let name = labelled(builder.format.name(), label.as_deref());
                self.add(name, Family::Erofs, Some(builder), None, version);
            }
        }
        for tool in servers {
            // Of the images that can be had, one made by tools of the same label, then zstd.
            let builder = formats.iter().max_by_key(|(label, builder)| {
                (*label == tool.label, builder.format == Format::ErofsZstd)
            });
            let version = version::of(&tool.path);
            let builder = builder.map(|(_, builder)| builder.clone());
            self.add(tool.name(), Family::Erofsfuse, builder, Some(tool.path), version);
        }
        Ok(())
    }

    fn puzzlefs(&mut self) {
        for tool in self.named("puzzlefs") {
            let builder = builder(Format::Puzzlefs, &tool.path);
            let version = builder.version.clone();
            self.add(tool.name(), Family::Puzzlefs, Some(builder), Some(tool.path), version);
        }
    }

    fn has_driver(&mut self, name: &str, driver: &str) -> bool {
        if !self.is_root {
            self.skip(name, "only root mounts it");
            return false;
        }
        // Loads the module where it is one; what counts is what the kernel then says.
        child::output(Command::new("modprobe").args(["-q", driver]));
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let has = known.split_whitespace().any(|word| word == driver);
        if !has {
            self.skip(name, "the kernel has no driver for it");
        }
        has
    }
}

/// Whether this is root of the machine and not of a user namespace.
pub fn is_real_root() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let numbers: Vec<_> = map.split_whitespace().collect();
    rustix::process::geteuid().is_root() && numbers == ["0", "0", "4294967295"]
}

fn builder(format: Format, program: &Path) -> Builder {
    Builder { format, program: program.to_owned(), version: version::of(program) }
}

/// The program that was built beside this one.
fn own_microfs() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    Some(own.with_file_name("microfs")).filter(|path| path.is_file())
}

fn labelled(name: &str, label: Option<&str>) -> String {
    label.map_or_else(|| name.to_owned(), |label| format!("{name}@{label}"))
}

impl Tool {
    /// `PROGRAM` or `PROGRAM@LABEL`.
    pub fn name(&self) -> String {
        labelled(&self.program, self.label.as_deref())
    }
}
