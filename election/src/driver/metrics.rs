//! What campaigns count, through the [`metrics`] facade: nothing until the application installs a recorder, and then whatever
//! that makes of it.
//!
//! Drivers count, from the events and effects of their cores; a core knows nothing of it. Labels are bounded: the elections
//! in which this process takes part, and words of this crate. Never who leads.
//!
//! [`describe_elections`] tells the recorder units and meanings; [`METRICS`] is the same as a table.

use ::metrics::{SharedString, Unit, counter, gauge, histogram};
use callsign_store::{ids::ElectionName, metrics::Metric};

use crate::{
    core::campaign::{
        Transition,
        event::{CampaignEvent, CampaignEventKind},
    },
    oracle::{Fault, Verdict},
    role::Lost,
};

/// Everything that this crate counts.
pub const METRICS: &[Metric] = &[
    Metric::gauge("callsign_election_leader", &["election"]).of("1 while this member may act as leader"),
    Metric::gauge("callsign_election_epoch", &["election"]).of("the epoch of this member's last term"),
    Metric::counter("callsign_election_transitions_total", &["election", "to"])
        .of("changes that subscribers were told: to leading, to following"),
    Metric::counter("callsign_election_lost_total", &["election", "why"])
        .of("terms that ended for this member, by why; trust_lapsed: no answer came in time"),
    Metric::counter("callsign_election_calls_total", &["election", "call", "outcome"])
        .of("claims and refreshes (granted, denied, failed, unknown, abandoned) and abdications and leaves \
             (given_back, was_gone, ...)"),
    Metric::histogram("callsign_election_call_seconds", &["election", "call"], Unit::Seconds)
        .of("how long the oracle took to answer"),
    Metric::counter("callsign_election_events_total", &["election", "event"])
        .of("events of the campaign, its role, and the election if it is in a store; by their names \
             in the log"),
];

/// Tells the recorder that is installed what everything here means. Call it once, after installing one.
pub fn describe_elections() {
    METRICS.iter().for_each(Metric::describe);
}

/// Why terms end that somebody is alerted of.
const TRUST_LAPSED: &str = "trust_lapsed";

/// A campaign's.
#[derive(Clone, Debug)]
pub(crate) struct OfElection(SharedString);

impl OfElection {
    /// The terms that end for want of an answer are counted from then on, from 0: `increase()` does not see a counter that appears with
    /// its first event.
    pub(crate) fn new(election: &ElectionName) -> Self {
        let election = SharedString::from(election.to_string());
        counter!("callsign_election_lost_total", "election" => election.clone(), "why" => TRUST_LAPSED)
            .increment(0);
        Self(election)
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

    pub(crate) fn event(&self, event: &CampaignEvent) {
        let name = event.what.name();
        counter!("callsign_election_events_total", "election" => self.0.clone(), "event" => name)
            .increment(1);
        match &event.what {
            CampaignEventKind::Claimed => {
                if let Some(epoch) = event.epoch {
                    gauge!("callsign_election_epoch", "election" => self.0.clone()).set(exact(epoch.0));
                }
            }
            CampaignEventKind::Lost { why } => {
                let why = match why {
                    Lost::Denied => "denied",
                    Lost::TrustLapsed => TRUST_LAPSED,
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

#[cfg(test)]
mod tests;
