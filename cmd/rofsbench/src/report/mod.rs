//! Results as files: JSON, Markdown, plots.

mod charts;
pub mod compare;
mod figures;
mod markdown;
mod svg;
mod targets;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::results::Results;
use figures::Figures;

/// The system that all others are compared with.
pub const SUBJECT: &str = "microfs";

/// Writes `results.json`, `results.md` and the plots into a folder, and removes
/// plots that are no longer made.
pub fn write(results: &Results, folder: &Path) -> Result<()> {
    let write = || -> Result<()> {
        fs::create_dir_all(folder)?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "svg") {
                fs::remove_file(path)?;
            }
        }
        results.store(&folder.join("results.json"))?;
        let figures = Figures::new(results);
        let plots = charts::all(&figures);
        fs::write(folder.join("results.md"), markdown::page(&figures, &plots))?;
        for plot in &plots {
            fs::write(folder.join(&plot.file), &plot.svg)?;
        }
        Ok(())
    };
    write().with_context(|| format!("cannot write results into {}", folder.display()))
}

/// What one wants to see first.
pub fn summary(results: &Results) -> String {
    let figures = Figures::new(results);
    format!("{}\n{}", targets::markdown(&figures), markdown::trouble(results))
}
