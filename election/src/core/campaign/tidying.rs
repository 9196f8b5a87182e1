//! Tidying up for others: asked while a term is held, and only while nothing else is to be asked.
//!
//! It is for economy alone. So whatever is due ends it, a refresh before all, and what becomes of it changes nothing about trust.

use std::time::Duration;

use callsign_store::{planted, time::Time};

use super::{CallId, CampaignSeat, Core, Effect, Held, Kind, role::Tidying};
use crate::{core::campaign::event::CampaignEventKind, oracle::Fault};

impl<F: Clone + PartialEq + 'static> Core<F> {
    pub(super) fn is_tidying(&self) -> bool {
        self.call.as_ref().is_some_and(|call| call.kind == Kind::Tidy)
    }

    /// When to ask for it, if nothing else is to be asked then. Not after a refresh that failed: all there is goes into the next.
    pub(super) fn tidy_at(&self, held: &Held<F>) -> Option<Time> {
        match held.tidying {
            Tidying::At(at) if self.failures == 0 => Some(at),
            _ => None,
        }
    }

    pub(super) fn tidy(&mut self, now: Time, until: Time, out: &mut Vec<Effect<F>>) {
        let call = self.ask(Kind::Tidy, now, until);
        out.push(Effect::Tidy { call });
    }

    /// Ends it if anything else is to be asked. It is asked for again after that.
    pub(super) fn end_tidying(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Held(held) = &self.seat else { return };
        let is_due = held.refresh_at.is_some_and(|at| at <= now) || self.infos > 0;
        if is_due && self.is_tidying() && !planted!("campaign-sweep-instead-of-refresh") {
            self.abandon(out);
        }
    }

    pub(super) fn tidied(
        &mut self,
        now: Time,
        id: CallId,
        answer: Result<Option<Duration>, Fault>,
        out: &mut Vec<Effect<F>>,
    ) {
        if self.take(id).is_none() {
            return;
        }
        match answer {
            Ok(again) => {
                let CampaignSeat::Held(held) = &mut self.seat else { return };
                held.tidying = again.map_or(Tidying::Never, |after| Tidying::At(now + after));
            }
            Err(fault) => self.tidying_failed(now, fault, out),
        }
    }

    /// Asked for again, after a while.
    pub(super) fn tidying_failed(&mut self, now: Time, fault: Fault, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Held(held) = &mut self.seat else { return };
        held.tidying = Tidying::At(now + self.config.timing.backoff_max);
        self.emit(now, CampaignEventKind::TidyFailed { fault }, out);
    }
}
