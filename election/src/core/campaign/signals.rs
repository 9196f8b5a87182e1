//! What comes unasked: it brings the next question forward, or asks the leader to go.

use callsign_store::{ids::Epoch, planted, time::Time};

use super::{Asked, CampaignSeat, Core, Effect, Kind, Listening, Lost};
use crate::oracle::Signal;

impl<F: Clone + PartialEq + 'static> Core<F> {
    pub(super) fn signal(&mut self, now: Time, signal: Signal, out: &mut Vec<Effect<F>>) {
        match signal {
            // The seat changed because this member left it.
            Signal::Wakeup if self.listening == Listening::Ignores => {}
            Signal::Wakeup => self.wake(now),
            Signal::ResignRequested { epoch } => self.resign_requested(now, epoch, out),
            Signal::Revoked { epoch } => self.revoked(now, epoch, out),
        }
    }

    /// The next question comes soon. One bit: however often, it comes once.
    pub(super) fn wake(&mut self, now: Time) {
        let timing = &self.config.timing;
        let (spread, op, gap) = (timing.spread, timing.backoff, timing.refresh / 4);
        if self.call.as_ref().is_some_and(|call| matches!(call.kind, Kind::Claim | Kind::Refresh)) {
            self.listening = Listening::Signalled;
            return;
        }
        if self.listening == Listening::Signalled {
            return;
        }
        // After failures not at once: whoever is down is not helped by more questions.
        let pause = if self.failures > 0 { op } else { std::time::Duration::ZERO };
        let soon = now + pause + self.draw.below(spread);
        match &mut self.seat {
            CampaignSeat::Vacant => {
                if let Some(poll_at) = &mut self.poll_at {
                    self.listening = Listening::Signalled;
                    *poll_at = soon.min(*poll_at);
                } else if planted!("campaign-notification-without-polling") {
                    self.poll_at = Some(soon);
                }
            }
            CampaignSeat::Held(held) => {
                self.listening = Listening::Signalled;
                // Its own refreshes may be what wakes it: not more often than some times as often as it would.
                let soon = soon.max(held.anchor + gap);
                held.refresh_at = Some(held.refresh_at.map_or(soon, |at| at.min(soon)));
            }
            CampaignSeat::Ending(_) | CampaignSeat::Releasing(_) | CampaignSeat::Leaving(_) => {}
        }
    }

    fn resign_requested(&mut self, now: Time, epoch: Option<Epoch>, out: &mut Vec<Effect<F>>) {
        match &self.seat {
            CampaignSeat::Held(held) if epoch.is_none_or(|epoch| epoch == held.grant.term.epoch) => {
                self.lose(now, Lost::ResignRequested, true, out);
                if planted!("campaign-request-outlives-its-term") {
                    self.asked = Some(Asked(epoch));
                }
            }
            // The grant that it is about may still be on its way here.
            CampaignSeat::Vacant if epoch.is_some() && self.is_claiming() => self.asked = Some(Asked(epoch)),
            _ if planted!("campaign-request-outlives-its-term") => self.asked = Some(Asked(epoch)),
            _ => {}
        }
    }

    fn revoked(&mut self, now: Time, epoch: Epoch, out: &mut Vec<Effect<F>>) {
        match &self.seat {
            CampaignSeat::Held(held) if held.grant.term.epoch == epoch => {
                self.lose(now, Lost::Denied, false, out);
            }
            CampaignSeat::Vacant if self.is_claiming() => self.revoked = Some(epoch),
            CampaignSeat::Vacant => self.wake(now),
            _ => {}
        }
    }

    /// Whether a seat may have been granted to it that it does not know of.
    fn is_claiming(&self) -> bool {
        self.unsettled.is_some() || self.call.as_ref().is_some_and(|call| call.kind == Kind::Claim)
    }
}
