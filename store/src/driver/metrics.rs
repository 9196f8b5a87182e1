//! How metrics are described, and what several crates count alike, for the [`metrics`] facade.

use ::metrics::Unit;

use crate::CommitOutcome;

/// How a metric counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// A state.
    Gauge,
    /// A distribution.
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name. Stable.
    pub name: &'static str,
    /// How it counts.
    pub kind: Kind,
    /// In which unit.
    pub unit: Unit,
    /// The labels that it always has.
    pub labels: &'static [&'static str],
    /// What it says.
    pub what: &'static str,
}

impl Metric {
    /// A row of a table. For the crates of this workspace.
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        kind: Kind,
        unit: Unit,
        labels: &'static [&'static str],
        what: &'static str,
    ) -> Self {
        Self { name, kind, unit, labels, what }
    }

    /// Tells the recorder that is installed.
    pub fn describe(&self) {
        match self.kind {
            Kind::Counter => ::metrics::describe_counter!(self.name, self.unit, self.what),
            Kind::Gauge => ::metrics::describe_gauge!(self.name, self.unit, self.what),
            Kind::Histogram => ::metrics::describe_histogram!(self.name, self.unit, self.what),
        }
    }
}

/// What became of a commit, as a label.
pub fn commit_outcome(outcome: &CommitOutcome) -> &'static str {
    match outcome {
        CommitOutcome::Committed(_) => "committed",
        CommitOutcome::Conflict => "conflict",
        CommitOutcome::Unknown => "unknown",
        CommitOutcome::Unavailable(_) => "unavailable",
        CommitOutcome::TooLarge(_) => "too_large",
    }
}
