//! Events, as `tracing` gets them.

use callsign_store::logged;

use crate::core::campaign::event::{CampaignEvent, CampaignEventKind};

/// Quiet for what happens all the time, louder for changes, a warning for what somebody should look at.
pub(super) fn trace(event: &CampaignEvent) {
    macro_rules! say {
        ($level:ident) => {
            logged!(
                $level,
                target: "callsign::election",
                event = event.what.name(),
                election = %event.election,
                member = %event.member,
                incarnation = event.incarnation.0,
                epoch = event.epoch.map(|epoch| epoch.0),
                ballot = event.ballot.map(|ballot| ballot.0),
                phase = %event.phase,
                leader = event.leader.as_ref().map(|leader| leader.as_str()),
                trust_left = ?event.trust_left,
                "{}", event.what
            )
        };
    }
    match event.what {
        _ if event.what.is_warning() => say!(warn),
        CampaignEventKind::Rejected { .. } | CampaignEventKind::Refreshed => say!(debug),
        _ => say!(info),
    }
}
