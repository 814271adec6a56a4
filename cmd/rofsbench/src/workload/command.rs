//! Whole commands, timed by hyperfine, which is called for one run at a time so
//! that the systems can take turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Pass;
use crate::child;
use crate::corpus::manifest::Manifest;
use crate::system::detect::{is_real_root, which};
use crate::system::mount::prime;

/// Long enough for the slowest peer.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Modules that a small service would use.
const IMPORTS: &str = "import argparse, asyncio, collections, dataclasses, decimal, email, hashlib, \
    http.client, json, logging, pathlib, re, sqlite3, ssl, subprocess, tarfile, tempfile, typing, \
    unittest, urllib.request, xml.dom.minidom, zipfile";

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    LsAll,
    Ls,
    LsContext,
    Find,
    FindFiles,
    Getfattr,
    Tar,
    Python,
    Runc,
}

/// Where commands find what they need beside the mount.
pub struct Bench {
    /// For files of a run.
    folder: PathBuf,
}

impl Bench {
    /// Prepares a folder.
    pub fn new(folder: &Path) -> Result<Self> {
        fs::create_dir(folder.join("empty"))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Why a command cannot be run on this corpus here, if so.
    pub fn obstacle(&self, tool: Tool, manifest: &Manifest) -> Option<String> {
        let program = match tool {
            Tool::Python if !manifest.has("usr/bin/python3") => {
                return Some("no python3 in it".to_owned());
            }
            Tool::Runc if !manifest.has("proc") || !manifest.has("usr/bin/true") => {
                return Some("no root filesystem".to_owned());
            }
            Tool::Runc if !is_real_root() => return Some("needs root".to_owned()),
            Tool::Getfattr => "getfattr",
            Tool::Runc => "runc",
            _ => "hyperfine",
        };
        ["hyperfine", program]
            .into_iter()
            .find(|name| which(name).is_none())
            .map(|name| format!("{name} is not installed"))
    }

    /// Reads the command's own files without touching the mount.
    pub fn prime(&self, tool: Tool) {
        let empty = self.folder.join("empty");
        let mut command = match tool {
            Tool::Python => Command::new("chroot"),
            Tool::Runc => Command::new("runc"),
            _ => {
                let words = words(tool, &empty);
                let mut command = Command::new(words.first().map_or("true", String::as_str));
                command.args(words.get(1..).unwrap_or_default());
                command
            }
        };
        if matches!(tool, Tool::Python | Tool::Runc) {
            command.arg("--version");
        }
        prime(&mut command);
        prime(Command::new("hyperfine").arg("--version"));
    }

    /// Runs the command once and returns hyperfine's figures.
    pub fn time(&self, tool: Tool, at: &Path) -> Result<Pass> {
        let words = if tool == Tool::Runc { self.container(at)? } else { words(tool, at) };
        let line: Vec<_> = words.iter().map(|word| quoted(word)).collect();
        let export = self.folder.join("hyperfine.json");
        let mut hyperfine = Command::new("hyperfine");
        // tar looks whether its output is /dev/null, and then reads nothing.
        let output = if tool == Tool::Tar { "pipe" } else { "null" };
        hyperfine.args(["--shell=none", "--runs=1", "--style=none", "--output", output]);
        if tool == Tool::Getfattr {
            // It says no when a driver refuses lists of attributes, after it has asked for all.
            hyperfine.arg("--ignore-failure");
        }
        hyperfine.arg("--export-json").arg(&export).arg(line.join(" "));
        let log = self.folder.join("hyperfine.log");
        child::run(&mut hyperfine, &log, PATIENCE)
            .with_context(|| format!("{} fails", words.join(" ")))?;
        let report: Report = serde_json::from_slice(&fs::read(&export)?)
            .context("hyperfine's report is not understood")?;
        let result = report.results.first().context("hyperfine reports nothing")?;
        Ok(Pass {
            wall: result.mean,
            client_cpu: result.user + result.system,
            bytes: 0,
            operations: 1,
        })
    }

    /// Writes an OCI bundle that runs `true` in the mount, and returns the
    /// command that does so.
    fn container(&self, at: &Path) -> Result<Vec<String>> {
        let bundle = self.folder.join("bundle");
        let config = bundle.join("config.json");
        if !config.exists() {
            fs::create_dir_all(&bundle)?;
            let mut spec = Command::new("runc");
            spec.arg("spec").arg("--bundle").arg(&bundle);
            child::run(&mut spec, &self.folder.join("runc.log"), PATIENCE)?;
        }
        let mut value: Value = serde_json::from_slice(&fs::read(&config)?)?;
        value["root"] = json!({ "path": at, "readonly": true });
        value["process"]["terminal"] = json!(false);
        value["process"]["args"] = json!(["/usr/bin/true"]);
        fs::write(&config, serde_json::to_vec(&value)?)?;
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let state = path(&self.folder.join("runc"));
        // The folder's name is nobody else's; containers share their groups' names.
        let id =
            format!("rofsbench-{}", path(Path::new(self.folder.file_name().unwrap_or_default())));
        let words = ["runc", "--root", &state, "run", "--bundle", &path(&bundle), &id];
        Ok(words.map(str::to_owned).to_vec())
    }
}

#[derive(Deserialize)]
struct Report {
    results: Vec<Times>,
}

/// Seconds.
#[derive(Deserialize)]
struct Times {
    mean: f64,
    user: f64,
    system: f64,
}

fn words(tool: Tool, at: &Path) -> Vec<String> {
    let at = at.to_string_lossy();
    let words: &[&str] = match tool {
        Tool::LsAll => &["ls", "-lAR", &at],
        Tool::Ls => &["ls", "-lR", &at],
        Tool::LsContext => &["ls", "-ZR", &at],
        Tool::Find => &["find", &at],
        Tool::FindFiles => &["find", &at, "-type", "f"],
        Tool::Getfattr => &["getfattr", "-R", "-d", "-m", "-", "-h", "--absolute-names", &at],
        Tool::Tar => &["tar", "--create", "--file=-", "--directory", &at, "."],
        Tool::Python => &["chroot", &at, "/usr/bin/python3", "-B", "-c", IMPORTS],
        Tool::Runc => &["runc", "--version"],
    };
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// One word of a command line.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
