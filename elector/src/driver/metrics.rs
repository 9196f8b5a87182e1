//! What sessions count, through the [`metrics`] facade: nothing until the application installs a recorder, and then whatever
//! that makes of it.
//!
//! Drivers count, from the events and effects of their cores; a core knows nothing of it.
//!
//! [`describe`] tells the recorder units and meanings; [`METRICS`] is the same as a table.

use ::metrics::{Unit, counter, gauge, histogram};
use callsign_store::{
    CommitOutcome,
    metrics::{Metric, commit_outcome},
};

use crate::core::session::event::SessionEvent;

/// Everything that this crate counts.
pub const METRICS: &[Metric] = &[
    Metric::gauge("callsign_session_trusted", &[]).of("1 while this node may trust what it holds"),
    Metric::counter("callsign_session_beats_total", &[]).of("beats that the store took; each prolongs trust"),
    Metric::counter("callsign_session_commits_total", &["outcome"])
        .of("commits of the session: beats, and the closing of others'"),
    Metric::histogram("callsign_session_commit_seconds", &[], Unit::Seconds)
        .of("how long these commits took"),
    Metric::counter("callsign_session_events_total", &["event"]).of(
        "opened, lapsed (no beat in time), resumed, lost (closed by others), peer_closed, store_went_back \
             (it lost what it had acknowledged), lineage, ...",
    ),
];

/// Tells the recorder that is installed what everything here means. Call it once, after installing one.
pub fn describe() {
    METRICS.iter().for_each(Metric::describe);
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

/// The events by which somebody is alerted.
const ALERTING: [&str; 3] = ["lapsed", "lost", "store_went_back"];

/// A session begins. What alerts count is there from then on, as 0: `increase()` does not see a counter that appears with its first event.
pub(crate) fn session_begins() {
    for event in ALERTING {
        counter!("callsign_session_events_total", "event" => event).increment(0);
    }
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
