//! Checking layers and stacks: see [`reader::check`](crate::reader::check).

use rayon::ThreadPool;

pub use crate::reader::check::{
    CheckOptions, CheckReport, CodecCount, Finding, Problem, Progress, Silent, check_blob,
    check_image,
};

use crate::error::ReadError;
use crate::format::inode::InodeKind;
use crate::reader::Image;
use crate::stack::{LayerInode, Stack};

/// Checks every layer of a stack, then that every link to a lower layer
/// leads to something. At most [`CheckOptions::findings_max`] problems of a
/// layer are reported.
#[must_use]
pub fn check_stack(
    stack: &Stack,
    options: &CheckOptions,
    pool: &ThreadPool,
    progress: &dyn Progress,
) -> CheckReport {
    let mut report = CheckReport::default();
    for image in stack.layers() {
        let mut layer = check_image(image, options, pool, progress);
        // A layer that is not sound itself may send the look-up anywhere.
        if layer.is_sound() {
            links_below(stack, image, options, &mut layer);
        }
        report.add(layer);
    }
    report
}

fn links_below(stack: &Stack, image: &Image, options: &CheckOptions, report: &mut CheckReport) {
    let mut left = report.kinds.last().copied().unwrap_or(0);
    let layer = image.layer();
    let inodes = u32::try_from(image.superblock().inode_count()).unwrap_or(u32::MAX);
    for inode in 0..inodes {
        if left == 0 {
            return;
        }
        let error = match image.inode(inode) {
            Ok(found) if matches!(found.kind, InodeKind::LinkBelow(_)) => {
                left = left.saturating_sub(1);
                let at = LayerInode { layer, inode };
                stack.link_target(at).err()
            }
            Ok(_) => None,
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            if report.findings.len() >= options.findings_max.max(1) {
                report.is_cut = true;
                return;
            }
            report.findings.push(Finding { layer, problem: problem(error) });
        }
    }
}

fn problem(error: ReadError) -> Problem {
    match error {
        ReadError::Corrupt { cause, .. } => Problem::Broken(cause),
        other => Problem::Unreadable(other),
    }
}
