//! How a member takes part.

use std::{fmt, sync::Arc, time::Duration};

use callsign_store::{
    clock::Clock,
    ids::{ElectionName, Incarnation, MemberId},
};

use crate::core::{
    campaign::{OnLoss, event::CampaignEvent},
    timing::Timing,
};

/// Sees each event, as it happens. Called by the campaign's own task: it must not block.
pub type Observer = Arc<dyn Fn(&CampaignEvent) + Send + Sync>;

/// How a member takes part in an election.
#[derive(Clone)]
#[non_exhaustive]
pub struct CampaignSettings {
    /// The election.
    pub election: ElectionName,
    /// Who takes part. Unique among the living: of two that share one, one is told `DuplicateIdentity`.
    pub member: MemberId,
    /// Drawn afresh by [`new`](Self::new). Never reuse one.
    pub incarnation: Incarnation,
    /// The durations.
    pub timing: Timing,
    /// The clock that trust is measured by. The boot-time clock, but in tests.
    pub clock: Clock,
    /// How long after the start the first claim is made. Default: 0.
    pub claim_delay: Duration,
    /// How long the member does not claim after it was asked to resign or its role failed, if another could lead.
    /// Default: one lease of [`Timing::default`], 10 s.
    ///
    /// It doubles with each further term that ends because the role failed, up to eight times this, until the role was
    /// active for a whole [`Timing::lease`] in one term. So the best candidate of [`Policy::ranked`](crate::Policy::ranked)
    /// whose role always fails is soon silent for longer than the
    /// [candidate timeout](crate::ElectionConfig::candidate_timeout), and the next one leads meanwhile. A cool-down that is
    /// shorter than an eighth of that timeout is too short for this.
    pub cool_down: Duration,
    /// How often a role may fail to take up a term before the term is given back. Default: 3.
    pub activate_attempts: u32,
    /// How long one such attempt may take. Default: 30 s.
    pub activate_timeout: Duration,
    /// How long each try to give back the seat may take. Default: 1 s, 2 s, 3 s.
    pub abdicate_tries: Vec<Duration>,
    /// What happens after a term. Default: follow.
    pub on_loss: OnLoss,
    /// Jitter and nonces are drawn from it. Drawn afresh by [`new`](Self::new).
    pub seed: u64,
    /// Who sees each event, besides `tracing`.
    pub observer: Option<Observer>,
}

impl CampaignSettings {
    /// The defaults, with a fresh incarnation and seed.
    pub fn new(election: ElectionName, member: MemberId) -> Self {
        Self {
            election,
            member,
            incarnation: Incarnation(rand::random()),
            timing: Timing::default(),
            clock: Clock::boot(),
            claim_delay: Duration::ZERO,
            cool_down: Timing::default().lease,
            activate_attempts: 3,
            activate_timeout: Duration::from_secs(30),
            abdicate_tries: [1, 2, 3].map(Duration::from_secs).to_vec(),
            on_loss: OnLoss::default(),
            seed: rand::random(),
            observer: None,
        }
    }

    /// The same with other durations, and a cool-down of one lease.
    #[must_use]
    pub fn with_timing(self, timing: Timing) -> Self {
        Self { timing, cool_down: timing.lease, ..self }
    }
}

impl fmt::Debug for CampaignSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CampaignSettings")
            .field("election", &self.election)
            .field("member", &self.member)
            .field("incarnation", &self.incarnation)
            .field("timing", &self.timing)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_is_set_up_by_default_takes_part_as_is_documented() {
        let s = Duration::from_secs;
        let new = || {
            CampaignSettings::new(ElectionName::new("e").expect("a name"), MemberId::new("a").expect("an id"))
        };
        let settings = new();
        assert_eq!((settings.claim_delay, settings.cool_down), (Duration::ZERO, s(10)));
        assert_eq!((settings.activate_attempts, settings.activate_timeout), (3, s(30)));
        assert_eq!((settings.abdicate_tries, settings.on_loss), (vec![s(1), s(2), s(3)], OnLoss::Follow));
        assert_ne!((settings.incarnation, settings.seed), (new().incarnation, new().seed));
        let longer = new().with_timing(Timing::for_lease(s(60)));
        assert_eq!((longer.timing, longer.cool_down), (Timing::for_lease(s(60)), s(60)));
    }
}
