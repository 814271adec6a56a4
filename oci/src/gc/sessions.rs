//! Which builders are alive, and what the dead ones left.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;

use oci_spec::image::Digest;

use super::{GcOptions, GcReport, remove_left_over};
use crate::dir::Dir;
use crate::error::OciError;
use crate::layout::{Layout, PRIVATE};
use crate::lock::Lock;
use crate::session::{LEASE, SESSIONS};
use crate::verified::parse_digest;

/// The sessions of a layout at one moment.
pub(super) struct Survey {
    parent: Option<Dir>,
    stale: Vec<OsString>,
    pub(super) live: u64,
    pub(super) leased: HashSet<Digest>,
}

/// The caller holds the layout's lock alone: no session begins and no lease
/// grows meanwhile, but sessions may end.
pub(super) fn survey(layout: &Layout) -> Result<Survey, OciError> {
    let parent = match layout.root().dir(PRIVATE)? {
        Some(private) => private.dir(SESSIONS)?,
        None => None,
    };
    let mut survey = Survey { parent, stale: Vec::new(), live: 0, leased: HashSet::new() };
    let Some(parent) = &survey.parent else { return Ok(survey) };
    for name in parent.names()? {
        let Some(text) = name.to_str() else { continue };
        let Some(dir) = parent.dir(text)? else { continue };
        let path = dir.path().join(LEASE);
        let Some(file) = dir.file(LEASE)? else {
            survey.stale.push(name);
            continue;
        };
        let mut lines = String::new();
        (&file).read_to_string(&mut lines).map_err(OciError::io("read", &path))?;
        if Lock::attempt(file, &path)?.is_some() {
            survey.stale.push(name);
            continue;
        }
        survey.live = survey.live.saturating_add(1);
        // A builder killed in the middle of a line is not live.
        survey.leased.extend(lines.lines().filter_map(|line| parse_digest(line).ok()));
    }
    Ok(survey)
}

impl Survey {
    pub(super) fn remove_stale(
        &self,
        options: &GcOptions,
        report: &mut GcReport,
    ) -> Result<(), OciError> {
        let Some(parent) = &self.parent else { return Ok(()) };
        for name in &self.stale {
            let Some(dir) = name.to_str().map(|text| parent.dir(text)).transpose()?.flatten()
            else {
                continue;
            };
            for file in dir.names()? {
                if file != LEASE {
                    remove_left_over(&dir, &file, options, report)?;
                }
            }
            if !options.dry_run {
                dir.unlink(OsStr::new(LEASE))?;
                parent.remove_dir(name)?;
            }
        }
        Ok(())
    }
}
