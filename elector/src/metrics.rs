//! What sessions and campaigns count, through the [`metrics`] facade: nothing until the application installs a
//! recorder, and then whatever that makes of it.
//!
//! Drivers count, from the events and effects of their cores; a core knows nothing of it. Labels are bounded: the elections
//! in which this process takes part, and words of this crate. Never who leads, nor a name that somebody registered.
//!
//! [`describe`] tells the recorder units and meanings; [`METRICS`] is the same as a table.

use ::metrics::{SharedString, Unit, counter, gauge, histogram};

use crate::{
    election::{
        campaign::{
            event::{Event, What},
            subscribers::Transition,
        },
        oracle::{Fault, Verdict},
        role::Lost,
    },
    ids::ElectionName,
    session::event::SessionEvent,
    store::CommitOutcome,
};

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

/// Everything that this crate counts.
pub const METRICS: &[Metric] = {
    use Kind::{Counter, Gauge, Histogram};
    use Unit::{Count, Seconds};
    &[
        Metric::new(
            "callsign_election_leader",
            Gauge,
            Count,
            &["election"],
            "1 while this member may act as leader",
        ),
        Metric::new(
            "callsign_election_epoch",
            Gauge,
            Count,
            &["election"],
            "the epoch of this member's last term",
        ),
        Metric::new(
            "callsign_election_transitions_total",
            Counter,
            Count,
            &["election", "to"],
            "changes that subscribers were told: to leading, to following",
        ),
        Metric::new(
            "callsign_election_lost_total",
            Counter,
            Count,
            &["election", "why"],
            "terms that ended for this member, by why; trust_lapsed: nothing was heard in time",
        ),
        Metric::new(
            "callsign_election_calls_total",
            Counter,
            Count,
            &["election", "call", "outcome"],
            "claims and refreshes (granted, denied, failed, unknown, abandoned) and abdications (given_back, was_gone, ...)",
        ),
        Metric::new(
            "callsign_election_call_seconds",
            Histogram,
            Seconds,
            &["election", "call"],
            "how long the oracle took to answer",
        ),
        Metric::new(
            "callsign_election_events_total",
            Counter,
            Count,
            &["election", "event"],
            "events of the campaign, its role, and the election if it is in a store; by their names in the log",
        ),
        Metric::new(
            "callsign_session_trusted",
            Gauge,
            Count,
            &[],
            "1 while this node may trust what it holds",
        ),
        Metric::new(
            "callsign_session_beats_total",
            Counter,
            Count,
            &[],
            "beats that the store took; each prolongs trust",
        ),
        Metric::new(
            "callsign_session_commits_total",
            Counter,
            Count,
            &["outcome"],
            "commits of the session: beats, and the closing of others'",
        ),
        Metric::new(
            "callsign_session_commit_seconds",
            Histogram,
            Seconds,
            &[],
            "how long these commits took",
        ),
        Metric::new(
            "callsign_session_events_total",
            Counter,
            Count,
            &["event"],
            "opened, lapsed (no beat in time), resumed, lost (closed by others), peer_closed, store_went_back (it lost \
             what it had acknowledged), lineage, ...",
        ),
    ]
};

/// Tells the recorder that is installed what everything here means. Call it once, after installing one.
pub fn describe() {
    METRICS.iter().for_each(Metric::describe);
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

/// A campaign's.
#[derive(Clone, Debug)]
pub(crate) struct OfElection(SharedString);

impl OfElection {
    pub(crate) fn new(election: &ElectionName) -> Self {
        Self(SharedString::from(election.to_string()))
    }

    fn set_leader(&self, leads: bool) {
        gauge!("callsign_election_leader", "election" => self.0.clone()).set(f64::from(u8::from(leads)));
    }

    /// The handle has lapsed.
    pub(crate) fn lapsed(&self) {
        self.set_leader(false);
    }

    pub(crate) fn published<F>(&self, transition: &Transition<F>) {
        let to = match transition {
            Transition::Leading(_) => "leading",
            Transition::Following(_) => "following",
        };
        self.set_leader(to == "leading");
        counter!("callsign_election_transitions_total", "election" => self.0.clone(), "to" => to)
            .increment(1);
    }

    pub(crate) fn event(&self, event: &Event) {
        let name = event.what.name();
        counter!("callsign_election_events_total", "election" => self.0.clone(), "event" => name)
            .increment(1);
        match &event.what {
            What::Claimed => {
                if let Some(epoch) = event.epoch {
                    gauge!("callsign_election_epoch", "election" => self.0.clone()).set(exact(epoch.0));
                }
            }
            What::Lost { why } => {
                let why = match why {
                    Lost::Denied => "denied",
                    Lost::TrustLapsed => "trust_lapsed",
                    Lost::ResignRequested => "resign_requested",
                    Lost::Shutdown => "shutdown",
                    Lost::RoleFailed => "role_failed",
                };
                counter!("callsign_election_lost_total", "election" => self.0.clone(), "why" => why)
                    .increment(1);
            }
            _ => {}
        }
    }

    /// A call of the oracle ended, or was given up.
    pub(crate) fn called(&self, call: &'static str, outcome: &'static str, took: std::time::Duration) {
        counter!("callsign_election_calls_total",
            "election" => self.0.clone(), "call" => call, "outcome" => outcome)
        .increment(1);
        histogram!("callsign_election_call_seconds", "election" => self.0.clone(), "call" => call)
            .record(took);
    }
}

/// Something was done to an election in a store.
pub(crate) fn authority_event(election: &str, name: &'static str) {
    counter!("callsign_election_events_total", "election" => election.to_owned(), "event" => name)
        .increment(1);
}

/// An answer, as a label.
pub(crate) fn verdict<F>(answer: &Result<Verdict<F>, Fault>) -> &'static str {
    match answer {
        Ok(Verdict::Granted(_)) => "granted",
        Ok(Verdict::Denied(_)) => "denied",
        Err(fault) => self::fault(fault),
    }
}

/// The same of an abdication.
pub(crate) fn abdication(answer: &Result<bool, Fault>) -> &'static str {
    match answer {
        Ok(true) => "given_back",
        Ok(false) => "was_gone",
        Err(fault) => self::fault(fault),
    }
}

fn fault(fault: &Fault) -> &'static str {
    match fault {
        Fault::Transient { maybe_committed: true, .. } => "unknown",
        Fault::Transient { .. } | Fault::Fatal(_) => "failed",
    }
}

/// Counters of the store that are above 2^53 would be shown rounded.
#[allow(clippy::cast_precision_loss)]
fn exact(number: u64) -> f64 {
    number as f64
}

pub(crate) fn session_trusted() {
    gauge!("callsign_session_trusted").set(1.0);
    counter!("callsign_session_beats_total").increment(1);
}

pub(crate) fn session_lapsed() {
    gauge!("callsign_session_trusted").set(0.0);
}

pub(crate) fn session_commit(outcome: &CommitOutcome, took: std::time::Duration) {
    counter!("callsign_session_commits_total", "outcome" => commit_outcome(outcome)).increment(1);
    histogram!("callsign_session_commit_seconds").record(took);
}

pub(crate) fn session_event(event: &SessionEvent) {
    let name = match event {
        SessionEvent::Opened { .. } => "opened",
        SessionEvent::Lapsed { .. } => "lapsed",
        SessionEvent::Resumed { .. } => "resumed",
        SessionEvent::Lost { .. } => "lost",
        SessionEvent::StoreWentBack { .. } => "store_went_back",
        SessionEvent::Lineage { .. } => "lineage",
        SessionEvent::NameInUse { .. } => "name_in_use",
        SessionEvent::PeerClosed(_) => "peer_closed",
        SessionEvent::Unreadable { .. } => "unreadable",
        SessionEvent::PeerUnreadable { .. } => "peer_unreadable",
        SessionEvent::Left => "left",
        SessionEvent::Failed(_) => "failed",
    };
    counter!("callsign_session_events_total", "event" => name).increment(1);
}

#[cfg(test)]
mod tests;
