//! The last that a campaign asks: that nothing of it is left with the oracle.
//!
//! Where a term is to be given back at the end, one question does both (`release`). Otherwise this is asked when there is no term:
//! it followed, or its term was lost. A role that could not be stopped may still work, so that nothing is asked then.
//!
//! It is for economy, since the leader sweeps what is left. So it takes no longer than the first try to give a seat back.

use callsign_store::{planted, time::Time};

use super::{CampaignSeat, Core, Effect, Kind, Lifecycle, Lost, OnLoss, Release};
use crate::{core::campaign::event::CampaignEventKind, oracle::Fault};

/// A campaign without a term that leaves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Leaving {
    /// Why it ends.
    why: Lost,
    /// How many tries were made.
    tried: u32,
    /// When it has ended at the latest.
    end: Time,
    /// When the next try is made.
    pub(super) next_at: Time,
}

impl<F: Clone + PartialEq + 'static> Core<F> {
    /// Whether it ends when its term is over, or without one at once.
    pub(super) fn ends(&self) -> bool {
        self.is_stopping() || (self.config.on_loss == OnLoss::Stop && self.lost.is_some())
    }

    /// It has no term, and ends: it leaves, if it has not asked for that with its last term.
    pub(super) fn leave(&mut self, now: Time, why: Lost, out: &mut Vec<Effect<F>>) {
        if self.has_left || planted!("campaign-leaves-its-row") {
            self.finish(why, out);
            return;
        }
        let tries = &self.config.abdicate_tries;
        // A last claim has taken some of the time of all tries.
        let is_late = self.lifecycle == Lifecycle::StopsSoon;
        let since = self.ends_since.filter(|_| is_late).unwrap_or(now);
        let most = since + self.config.abdicate_time();
        let end = most.min(now + tries.first().copied().unwrap_or_default());
        self.seat = CampaignSeat::Leaving(Leaving { why, tried: 0, end, next_at: now });
        self.act_on_leaving(now, out);
    }

    pub(super) fn act_on_leaving(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Leaving(leaving) = &mut self.seat else { return };
        if self.call.is_some() || now < leaving.next_at {
            return;
        }
        let (why, end) = (leaving.why, leaving.end);
        if now >= end {
            self.finish(why, out);
            return;
        }
        leaving.tried += 1;
        let call = self.ask(Kind::Abdicate, now, end);
        out.push(Effect::Leave { call, held: None });
    }

    /// It has left. Whether a term of it was there, which it did not know to have, or could not give back before.
    pub(super) fn left(&mut self, now: Time, was_there: bool, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Leaving(leaving) = &self.seat else { return };
        let why = leaving.why;
        if was_there {
            self.release = Release::Released;
            self.emit(now, CampaignEventKind::Resigned { was_there }, out);
        }
        self.finish(why, out);
    }

    pub(super) fn leaving_failed(&mut self, now: Time, fault: Fault, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Leaving(leaving) = &self.seat else { return };
        let why = leaving.why;
        let pause = self.backoff(leaving.tried);
        if now + pause >= leaving.end || matches!(fault, Fault::Fatal(_)) {
            self.emit(now, CampaignEventKind::LeaveFailed { fault }, out);
            self.finish(why, out);
            return;
        }
        let CampaignSeat::Leaving(leaving) = &mut self.seat else { return };
        leaving.next_at = now + pause;
    }
}
