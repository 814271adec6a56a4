//! What a check found.

use std::fmt;

use super::report::CheckReport;
use crate::error::ReadError;
use crate::format::{FormatError, Place, Rule};

/// Something that is not as it must be.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Number of the layer, the lowest being 0.
    pub layer: u32,
    /// What.
    pub problem: Problem,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::Broken(cause) => write!(f, "layer {}: {cause}", self.layer),
            Problem::Unreadable(error) => write!(f, "{error}"),
        }
    }
}

/// What is wrong.
#[derive(Debug, Clone)]
pub enum Problem {
    /// A rule is broken.
    Broken(FormatError),
    /// Something cannot be read: an error of the source, a codec that this
    /// version does not have, a limit, a link that leads nowhere.
    Unreadable(ReadError),
}

impl Problem {
    /// The broken rule, if it is one.
    #[must_use]
    pub fn rule(&self) -> Option<Rule> {
        match self {
            Self::Broken(cause) => Some(cause.rule),
            Self::Unreadable(_) => None,
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Broken(a), Self::Broken(b)) => a == b,
            (Self::Unreadable(a), Self::Unreadable(b)) => is_same_error(a, b),
            _ => false,
        }
    }
}

/// Whether two errors have one cause, as far as can be told.
fn is_same_error(a: &ReadError, b: &ReadError) -> bool {
    match (a, b) {
        (ReadError::Codec { block: a, .. }, ReadError::Codec { block: b, .. }) => a == b,
        (ReadError::Io { cause: a, .. }, ReadError::Io { cause: b, .. }) => a.kind() == b.kind(),
        (ReadError::Limit { what: a, .. }, ReadError::Limit { what: b, .. }) => a == b,
        _ => false,
    }
}

/// Collects findings, each once, up to a number.
#[derive(Debug)]
pub(crate) struct Findings {
    layer: u32,
    max: usize,
    list: Vec<Finding>,
    more: bool,
}

impl Findings {
    pub(crate) fn new(layer: u32, max: usize) -> Self {
        Self { layer, max: max.max(1), list: Vec::new(), more: false }
    }

    /// Whether the check should end.
    pub(crate) fn is_full(&self) -> bool {
        self.more
    }

    /// Notes a broken rule.
    pub(crate) fn broken(&mut self, rule: Rule, place: Place) {
        self.note(Problem::Broken(FormatError::new(rule, place)));
    }

    /// Notes why something cannot be read.
    pub(crate) fn error(&mut self, error: ReadError) {
        self.note(match error {
            ReadError::Corrupt { cause, .. } => Problem::Broken(cause),
            other => Problem::Unreadable(other),
        });
    }

    fn note(&mut self, problem: Problem) {
        if self.list.iter().any(|finding| finding.problem.is_same(&problem)) {
            return;
        }
        if self.list.len() < self.max {
            self.list.push(Finding { layer: self.layer, problem });
        } else {
            self.more = true;
        }
    }

    /// Hands everything over.
    pub(crate) fn end(self, report: &mut CheckReport) {
        report.findings.extend(self.list);
        report.is_cut |= self.more;
    }
}
