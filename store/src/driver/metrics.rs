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
    /// What only grows, in numbers, with these labels. For the crates of this workspace, as all that makes one.
    #[doc(hidden)]
    pub const fn counter(name: &'static str, labels: &'static [&'static str]) -> Self {
        Self { name, kind: Kind::Counter, unit: Unit::Count, labels, what: "" }
    }

    /// A state, as a number.
    #[doc(hidden)]
    pub const fn gauge(name: &'static str, labels: &'static [&'static str]) -> Self {
        Self { kind: Kind::Gauge, ..Self::counter(name, labels) }
    }

    /// A distribution.
    #[doc(hidden)]
    pub const fn histogram(name: &'static str, labels: &'static [&'static str], unit: Unit) -> Self {
        Self { kind: Kind::Histogram, unit, ..Self::counter(name, labels) }
    }

    /// The same in bytes.
    #[doc(hidden)]
    #[must_use]
    pub const fn bytes(self) -> Self {
        Self { unit: Unit::Bytes, ..self }
    }

    /// The same, and what it says.
    #[doc(hidden)]
    #[must_use]
    pub const fn of(self, what: &'static str) -> Self {
        Self { what, ..self }
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
