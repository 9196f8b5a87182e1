//! What is measured again and again during a run, and how much each may grow.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::Serialize;

use super::flat::{Finding, Judged, Rule};

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Memory of a process that is its own.
    Anonymous,
    /// All memory of a process.
    Resident,
    /// Files and sockets that a process has open.
    Files,
    /// Threads of a process.
    Threads,
    /// Bytes of the store's files.
    StoreBytes,
    /// Rows of the store, but for those below.
    Rows,
    /// Batches in the logs.
    LogRows,
    /// Records of sessions and authors that are more than one for each node name, rows of candidates that are more than one for each node
    /// that is there or was killed, and files of lives that are more than one for each process. So many may be kept for a while.
    Leftovers,
    /// How long half of the registrations took, at most.
    P50,
    /// How long 99.9 of 100 registrations took, at most.
    P999,
}

/// In what it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Bytes,
    Pieces,
    Milliseconds,
}

const MIB: f64 = 1_048_576.0;

impl What {
    /// How much more there may be at the end. Allocators, write-ahead logs, links that are being made and threads that wait for
    /// work come and go: that is what is allowed beside the factor. With a factor of 2.2 or more, what grows as time does would never
    /// be noticed: so many times is the middle of the last third behind that of the first one.
    fn rule(self) -> Rule {
        let (factor, beside, least) = match self {
            Self::Anonymous => (1.1, 8.0 * MIB, 3),
            Self::Resident => (1.1, 12.0 * MIB, 3),
            Self::Files => (1.0, 16.0, 3),
            Self::Threads => (1.0, 12.0, 3),
            Self::StoreBytes => (1.25, 8.0 * MIB, 3),
            Self::Rows => (1.0, 24.0, 3),
            Self::LogRows => (1.5, 1000.0, 3),
            Self::Leftovers => (1.0, 0.0, 3),
            Self::P50 => (1.5, 25.0, 5),
            Self::P999 => (1.5, 250.0, 5),
        };
        Rule { factor, beside, least }
    }

    /// Whether it depends on what else the machine does.
    fn is_time(self) -> bool {
        self.unit() == Unit::Milliseconds
    }

    fn unit(self) -> Unit {
        match self {
            Self::Anonymous | Self::Resident | Self::StoreBytes => Unit::Bytes,
            Self::P50 | Self::P999 => Unit::Milliseconds,
            _ => Unit::Pieces,
        }
    }

    /// A value of it, for people.
    pub fn shown(self, value: f64) -> String {
        match self.unit() {
            Unit::Bytes => format!("{:.1} MiB", value / MIB),
            Unit::Pieces => format!("{value:.0}"),
            Unit::Milliseconds => format!("{value:.1} ms"),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "memory of its own",
            Self::Resident => "memory in all",
            Self::Files => "open files and sockets",
            Self::Threads => "threads",
            Self::StoreBytes => "bytes of the files",
            Self::Rows => "rows, without logs and sessions",
            Self::LogRows => "batches in the logs",
            Self::Leftovers => "leftovers of nodes",
            Self::P50 => "p50",
            Self::P999 => "p99.9",
        })
    }
}

/// Whose a quantity is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// A node's that runs all the time.
    Node(String),
    /// The nodes' that come and go, each at the same age.
    Young,
    /// The store's.
    Store,
    /// Registrations, in windows of time.
    Registrations,
}

impl fmt::Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name}"),
            Self::Young => f.write_str("nodes that have just come"),
            Self::Store => f.write_str("the store"),
            Self::Registrations => f.write_str("registrations"),
        }
    }
}

/// What became of a quantity.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Whose.
    pub of: String,
    /// What.
    pub what: What,
    /// How many values there are.
    pub values: usize,
    /// What they came to.
    #[serde(flatten)]
    pub judged: Judged,
    /// Whether the run depends on it.
    pub counts: bool,
}

impl Row {
    /// How many times that of the first third the last third is.
    pub fn ratio(&self) -> Option<f64> {
        let (first, last) = (self.judged.first?, self.judged.last?);
        (first > 0.0).then(|| last / first)
    }

    /// What is wrong.
    pub fn breach(&self) -> Option<String> {
        let Self { of, what, judged, .. } = self;
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| what.shown(value));
        match judged.finding {
            _ if !self.counts => None,
            Finding::Flat => None,
            Finding::Grew => Some(format!(
                "grew: {of}: {what}: from {} to {}, {} at most",
                shown(judged.first),
                shown(judged.last),
                shown(judged.allowed)
            )),
            Finding::TooFew => Some(format!("never exercised: {of}: {what}: too few values to tell")),
        }
    }
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub struct Measures(BTreeMap<(Of, What), Vec<(Duration, f64)>>);

impl Measures {
    /// A value, with the time from the begin of the run.
    pub fn add(&mut self, of: Of, what: What, at: Duration, value: f64) {
        self.0.entry((of, what)).or_default().push((at, value));
    }

    /// The last value.
    pub fn last(&self, of: &Of, what: What) -> Option<f64> {
        self.0.get(&(of.clone(), what))?.last().map(|(_, value)| *value)
    }

    /// What became of each, in a run that lasted so long. Times count in a long run only: in a short one, a busy machine decides.
    /// Of young nodes there may be too few to tell.
    pub fn judge(&self, run: Duration, is_long: bool) -> Vec<Row> {
        let row = |((of, what), values): (&(Of, What), &Vec<_>)| {
            let judged = what.rule().judge(values, run);
            let may_be_few = *of == Of::Young && judged.finding == Finding::TooFew;
            let counts = !may_be_few && (is_long || !what.is_time());
            Row { of: of.to_string(), what: *what, values: values.len(), judged, counts }
        };
        self.0.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests;
