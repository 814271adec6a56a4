//! Progress bars: on a terminal only.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use microfs::scan::ScanProgress;
use microfs::writer::Progress;

/// A bar on standard error, or nothing.
#[derive(Debug, Clone)]
pub struct Bar(ProgressBar);

impl Bar {
    /// A spinner that counts things whose number is not known.
    pub fn counting(what: &'static str, quiet: bool) -> Self {
        let bar = Self::make(None, quiet);
        let template = format!("{{spinner}} {what} {{human_pos}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.0.set_style(style);
        }
        bar
    }

    /// A bar of bytes with rate and time left.
    pub fn bytes(what: &'static str, total: u64, quiet: bool) -> Self {
        let bar = Self::make(Some(total), quiet);
        let template = format!(
            "{what} {{wide_bar}} {{binary_bytes}}/{{binary_total_bytes}} {{binary_bytes_per_sec}} {{eta}}"
        );
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.0.set_style(style);
        }
        bar
    }

    fn make(total: Option<u64>, quiet: bool) -> Self {
        let visible = !quiet && std::io::stderr().is_terminal();
        let target =
            if visible { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(total, target);
        if visible {
            bar.enable_steady_tick(Duration::from_millis(100));
        }
        Self(bar)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn bytes(&self, more: u64) {
        self.0.inc(more);
    }
}

impl ScanProgress for Bar {
    fn entries(&self, entries: u64) -> ControlFlow<()> {
        self.0.set_position(entries);
        ControlFlow::Continue(())
    }
}

impl microfs::extract::Progress for Bar {
    fn object(&self) {}

    fn bytes(&self, more: u64) {
        self.0.inc(more);
    }
}

impl microfs::export::Progress for Bar {
    fn bytes(&self, more: u64) {
        self.0.inc(more);
    }
}

impl microfs::reader::check::Progress for Bar {
    fn bytes(&self, more: u64) {
        self.0.inc(more);
    }
}
