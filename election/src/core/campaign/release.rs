//! Giving a seat back, in bounded time, and what comes after a term.

use std::time::Duration;

use callsign_store::{planted, time::Time};

use super::{CallId, CampaignSeat, Core, Effect, Kind, Listening, Lost, Release, ToldLeader};
use crate::{
    core::campaign::{OnLoss, Until, event::CampaignEventKind, status::Trouble},
    oracle::{Fault, Grant},
};

/// How often the cool-down doubles at most: then it is eight times as long.
const MOST_DOUBLINGS: u32 = 3;

/// A term that is given back. No role runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Releasing<F> {
    pub(super) grant: Grant<F>,
    why: Lost,
    /// Until when it would have been trusted.
    trusted: Until,
    /// How many tries were made.
    tried: usize,
    /// Whether one of them may have been carried out.
    is_uncertain: bool,
    since: Time,
    /// When the next try is made.
    pub(super) next_at: Time,
}

impl<F> Releasing<F> {
    pub(super) fn new(now: Time, grant: Grant<F>, trusted: Until, why: Lost) -> Self {
        Self { grant, why, trusted, tried: 0, is_uncertain: false, since: now, next_at: now }
    }
}

/// A term that was not given back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
    fault: Fault,
    /// Until when it would have been trusted.
    trusted: Until,
}

impl<F: Clone + PartialEq + 'static> Core<F> {
    pub(super) fn act_on_release(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Releasing(releasing) = &mut self.seat else { return };
        if self.call.is_some() || now < releasing.next_at {
            return;
        }
        let tries = &self.config.abdicate_tries;
        let end = releasing.since + self.config.abdicate_time();
        let Some(patience) = tries.get(releasing.tried).filter(|_| now < end) else {
            let fault = Fault::Fatal("it was not tried".to_owned());
            self.not_released(now, fault, out);
            return;
        };
        releasing.tried += 1;
        let (until, held) = ((now + *patience).min(end), releasing.grant.clone());
        let call = self.ask(Kind::Abdicate, now, until);
        out.push(if self.ends() {
            self.has_left = true;
            Effect::Leave { call, held: Some(held) }
        } else {
            Effect::Abdicate { call, held }
        });
    }

    pub(super) fn abdicated(
        &mut self,
        now: Time,
        id: CallId,
        answer: Result<bool, Fault>,
        out: &mut Vec<Effect<F>>,
    ) {
        if self.take(id).is_none() {
            return;
        }
        match answer {
            Ok(was_there) if matches!(self.seat, CampaignSeat::Leaving(_)) => self.left(now, was_there, out),
            Ok(was_there) => {
                self.release = if was_there { Release::Released } else { Release::WasGone };
                self.left = None;
                self.emit(now, CampaignEventKind::Resigned { was_there }, out);
                self.released(now, out);
            }
            Err(fault) => self.abdication_failed(now, fault, out),
        }
    }

    pub(super) fn abdication_failed(&mut self, now: Time, fault: Fault, out: &mut Vec<Effect<F>>) {
        if matches!(self.seat, CampaignSeat::Leaving(_)) {
            self.leaving_failed(now, fault, out);
            return;
        }
        let tries = &self.config.abdicate_tries;
        let CampaignSeat::Releasing(releasing) = &mut self.seat else { return };
        releasing.is_uncertain |= matches!(fault, Fault::Transient { maybe_committed: true, .. });
        let CampaignSeat::Releasing(releasing) = &self.seat else { return };
        let pause = self.backoff(u32::try_from(releasing.tried).unwrap_or(u32::MAX));
        let end = releasing.since + self.config.abdicate_time();
        let is_last = releasing.tried >= tries.len() || now + pause >= end;
        if is_last || matches!(fault, Fault::Fatal(_)) {
            self.not_released(now, fault, out);
            return;
        }
        let CampaignSeat::Releasing(releasing) = &mut self.seat else { return };
        releasing.next_at = now + pause;
    }

    fn not_released(&mut self, now: Time, fault: Fault, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Releasing(releasing) = &self.seat else { return };
        // A last try that failed for certain says nothing about those before it.
        let fault = match fault {
            Fault::Transient { cause, .. } | Fault::Fatal(cause) if releasing.is_uncertain => {
                Fault::Transient { maybe_committed: true, cause }
            }
            fault => fault,
        };
        self.left = Some(Left { fault: fault.clone(), trusted: releasing.trusted });
        self.trouble = Some(Trouble::NotReleased(fault.to_string()));
        self.emit(now, CampaignEventKind::ResignFailed { fault }, out);
        self.released(now, out);
    }

    fn released(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Releasing(releasing) = &self.seat else { return };
        let why = releasing.why;
        let is_forced = matches!(why, Lost::ResignRequested | Lost::RoleFailed);
        let goes_on = !self.is_stopping() && self.config.on_loss == OnLoss::Follow;
        if is_forced && goes_on && !self.config.cool_down.is_zero() {
            let call = self.ask(Kind::Rivals, now, now + self.config.timing.op_timeout);
            out.push(Effect::Rivals { call });
        } else {
            self.end_term(now, why, out);
        }
    }

    pub(super) fn rivals(
        &mut self,
        now: Time,
        id: CallId,
        answer: &Result<bool, Fault>,
        out: &mut Vec<Effect<F>>,
    ) {
        if self.take(id).is_some() {
            // In doubt, others go first.
            self.rivals_known(now, *answer != Ok(false), out);
        }
    }

    pub(super) fn rivals_known(&mut self, now: Time, others: bool, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Releasing(releasing) = &self.seat else { return };
        let why = releasing.why;
        if others {
            self.rest_until = now + self.cool_down(why);
        }
        self.end_term(now, why, out);
    }

    /// How long it lets others go first. After each further failure of the role for longer: where candidates are ranked, the
    /// next one leads only when this one was silent for so long that it does not count as alive any more.
    fn cool_down(&self, why: Lost) -> Duration {
        let failed = if why == Lost::RoleFailed { self.role_failures } else { 0 };
        self.config.cool_down.saturating_mul(1 << failed.saturating_sub(1).min(MOST_DOUBLINGS))
    }

    /// The term is over, and all that belonged to it.
    pub(super) fn end_term(&mut self, now: Time, why: Lost, out: &mut Vec<Effect<F>>) {
        // What it gave back itself, it does not take as news.
        let is_own = matches!(&self.seat, CampaignSeat::Releasing(_));
        self.seat = CampaignSeat::Vacant;
        self.revoked = None;
        if !planted!("campaign-request-outlives-its-term") {
            self.asked = None;
        }
        if self.ends() {
            self.leave(now, why, out);
            return;
        }
        self.release = Release::NotHeld;
        self.poll_later(now);
        self.listening = if is_own { Listening::Ignores } else { Listening::Open };
        self.told = None;
        self.follow(out);
    }

    /// What there is to say of the seat, now that it ends.
    pub(super) fn at_end(&self) -> Release {
        match (&self.release, &self.left) {
            (Release::NotHeld, Some(Left { fault, trusted })) => {
                // What was over before anybody asked it to end, nobody need wait for.
                let was_over = self.ends_since.is_some_and(|since| trusted.is_over(since));
                if self.unsettled.is_some() && was_over {
                    return Release::Unknown;
                }
                if was_over { Release::Expired(fault.clone()) } else { Release::Failed(fault.clone()) }
            }
            (Release::NotHeld, None) if self.unsettled.is_some() => Release::Unknown,
            (release, _) => release.clone(),
        }
    }

    /// Tells the role who leads, if that is news.
    pub(super) fn follow(&mut self, out: &mut Vec<Effect<F>>) {
        let told = ToldLeader(self.leader.clone());
        if self.told.as_ref() != Some(&told)
            && !self.is_stopping()
            && matches!(self.seat, CampaignSeat::Vacant)
        {
            self.told = Some(told);
            out.push(Effect::Follow { leader: self.leader.clone() });
        }
    }
}
