//! Tells people and metrics what operations did to an election.

use callsign_store::keys::ElectionKeys;

use crate::{core::lease::event::LeaseEvent, driver::metrics};

/// Tells `tracing`, and what counts: quiet for what happens all the time.
pub(super) fn report(keys: &ElectionKeys, events: &[LeaseEvent]) {
    for event in events {
        macro_rules! say {
            ($level:ident) => {
                tracing::$level!(
                    target: "callsign::election",
                    event = event.what.name(),
                    election = keys.election(),
                    member = event.member.as_ref().map(|member| member.as_str()),
                    incarnation = event.incarnation.map(|incarnation| incarnation.0),
                    epoch = event.epoch.map(|epoch| epoch.0),
                    ballot = event.ballot.map(|ballot| ballot.0),
                    leader = event.leader.as_ref().map(|leader| leader.as_str()),
                    "{event}"
                )
            };
        }
        if event.what.is_idle() {
            say!(debug);
        } else {
            say!(info);
        }
        metrics::authority_event(keys.election(), event.what.name());
    }
}
