//! Asking the oracle: one call at a time, each with an end, and what its answers and silences mean.

use std::time::Duration;

use callsign_store::{ids::Nonce, planted, time::Time};

use super::{CallId, CampaignSeat, Core, Effect, Input, Lifecycle, Listening};
use crate::{
    core::campaign::{event::CampaignEventKind, status::Trouble},
    oracle::{Attempt, Denial, Fault, Reaction, Refusal, Verdict},
    role::Lost,
};

/// What the oracle is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Claim,
    Refresh,
    Abdicate,
    Rivals,
    Inform,
    Tidy,
}

/// A call in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call {
    pub(super) id: CallId,
    pub(super) kind: Kind,
    /// From when a grant that it brings is counted: before its attempt was first sent.
    pub(super) anchor: Time,
    /// How long it is waited for.
    pub(super) until: Time,
    attempt: Attempt,
}

/// An attempt whose outcome is not known: it is made again, with the same nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unsettled {
    attempt: Attempt,
    /// When it was first sent. It may have been carried out then, and its grant be as old.
    first_sent: Time,
}

impl<F: Clone + PartialEq + 'static> Core<F> {
    fn open(&mut self, kind: Kind, anchor: Time, until: Time, attempt: Attempt) -> CallId {
        self.calls += 1;
        let id = CallId(self.calls);
        self.call = Some(Call { id, kind, anchor, until, attempt });
        id
    }

    /// A call that is no attempt.
    pub(super) fn ask(&mut self, kind: Kind, now: Time, until: Time) -> CallId {
        self.open(kind, now, until, Attempt { nonce: Nonce(0) })
    }

    /// The attempt to make now: the one whose outcome is not known, or a fresh one.
    fn attempt(&mut self, now: Time) -> (Attempt, Time) {
        match self.unsettled {
            Some(Unsettled { attempt, first_sent }) => (attempt, first_sent),
            None => (Attempt { nonce: Nonce(self.draw.draw()) }, now),
        }
    }

    pub(super) fn claim(&mut self, now: Time, patience: Duration, out: &mut Vec<Effect<F>>) {
        let (attempt, anchor) = self.attempt(now);
        self.listening = Listening::Open;
        let call = self.open(Kind::Claim, anchor, now + patience, attempt);
        out.push(Effect::Claim { call, attempt });
    }

    /// When to claim, if nothing comes between.
    pub(super) fn claim_at(&self) -> Option<Time> {
        self.poll_at.map(|at| at.max(self.rest_until))
    }

    pub(super) fn act_as_follower(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        if self.call.is_some() {
            return;
        }
        if self.claim_at().is_some_and(|at| at <= now) {
            self.claim(now, self.config.timing.op_timeout, out);
        } else if self.infos > 0 {
            self.inform(now, now + self.config.timing.op_timeout, out);
        }
    }

    pub(super) fn act_as_leader(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        self.end_tidying(now, out);
        let CampaignSeat::Held(held) = &self.seat else { return };
        if self.call.is_some() {
            return;
        }
        let (patience, left) = (held.patience, held.until.left(now));
        if held.refresh_at.is_some_and(|at| at <= now) {
            let held = held.grant.clone();
            let (attempt, anchor) = self.attempt(now);
            self.listening = Listening::Open;
            let call = self.open(Kind::Refresh, anchor, now + patience.min(left), attempt);
            out.push(Effect::Refresh { call, attempt, held });
        } else if self.infos > 0 {
            // Half, so that a refresh that becomes due meanwhile has time left.
            self.inform(now, now + (patience / 2).min(left), out);
        } else if self.tidy_at(held).is_some_and(|at| at <= now) {
            self.tidy(now, now + patience.min(left), out);
        }
    }

    fn inform(&mut self, now: Time, until: Time, out: &mut Vec<Effect<F>>) {
        self.infos -= 1;
        let call = self.ask(Kind::Inform, now, until);
        out.push(Effect::Inform { call });
    }

    /// Takes the call that this answers; none if it was given up.
    pub(super) fn take(&mut self, id: CallId) -> Option<Call> {
        self.call.take_if(|call| call.id == id)
    }

    /// Whatever is in flight is not waited for any more.
    pub(super) fn abandon(&mut self, out: &mut Vec<Effect<F>>) -> Option<Call> {
        let call = self.call.take()?;
        out.push(Effect::Abandon { call: call.id });
        Some(call)
    }

    /// A call that was waited for long enough has no outcome; unless its answer is what just came.
    pub(super) fn expire_call(&mut self, now: Time, input: &Input<F>, out: &mut Vec<Effect<F>>) {
        let late = self.call.as_ref().is_some_and(|call| call.until <= now && input.call() != Some(call.id));
        let Some(call) = late.then(|| self.abandon(out)).flatten() else { return };
        let fault =
            Fault::Transient { maybe_committed: true, cause: "there was no answer in time".to_owned() };
        match call.kind {
            Kind::Claim | Kind::Refresh => self.attempt_failed(now, &call, fault, out),
            Kind::Inform => self.inform_failed(now, fault, out),
            Kind::Abdicate => self.abdication_failed(now, fault, out),
            Kind::Rivals => self.rivals_known(now, true, out),
            Kind::Tidy => self.tidying_failed(now, fault, out),
        }
    }

    pub(super) fn answered(
        &mut self,
        now: Time,
        id: CallId,
        answer: Result<Verdict<F>, Fault>,
        out: &mut Vec<Effect<F>>,
    ) {
        let Some(call) = self.take(id) else { return };
        let answer = match answer {
            Ok(Verdict::Denied(denial)) if planted!("campaign-denied-as-fault") => {
                Err(Fault::Transient { maybe_committed: false, cause: format!("denied: {:?}", denial.why) })
            }
            Err(Fault::Transient { .. }) if planted!("campaign-fault-as-denied") => {
                Ok(Verdict::Denied(Denial { why: Refusal::Held, leader: None, retry_in: None }))
            }
            answer => answer,
        };
        match answer {
            Ok(verdict) => {
                self.settle();
                self.verdict(now, call.kind, call.anchor, verdict, out);
            }
            Err(fault) => self.attempt_failed(now, &call, fault, out),
        }
    }

    /// The outcome of the last attempt is known.
    fn settle(&mut self) {
        self.unsettled = None;
        self.failures = 0;
        self.trouble = None;
    }

    pub(super) fn reacted(
        &mut self,
        now: Time,
        id: CallId,
        reaction: Result<Reaction<F>, Fault>,
        out: &mut Vec<Effect<F>>,
    ) {
        let Some(call) = self.take(id) else { return };
        match reaction {
            Ok(Reaction::Ignore) => {}
            Ok(Reaction::Poll) => self.wake(now),
            Ok(Reaction::Verdict(verdict)) => {
                // A denial from outside does not say what became of an attempt; a grant makes it pointless.
                if matches!(verdict, Verdict::Granted(_)) {
                    self.settle();
                }
                self.verdict(now, call.kind, call.anchor, verdict, out);
            }
            Err(fault) => self.inform_failed(now, fault, out),
        }
    }

    fn inform_failed(&mut self, now: Time, fault: Fault, out: &mut Vec<Effect<F>>) {
        self.trouble = Some(Trouble::Fault(fault.clone()));
        self.emit(now, CampaignEventKind::of(fault), out);
    }

    fn verdict(
        &mut self,
        now: Time,
        kind: Kind,
        anchor: Time,
        verdict: Verdict<F>,
        out: &mut Vec<Effect<F>>,
    ) {
        match verdict {
            Verdict::Granted(grant) if matches!(self.seat, CampaignSeat::Held(_)) => {
                self.refreshed(now, grant, anchor, out);
            }
            Verdict::Granted(grant) => self.granted(now, grant, anchor, out),
            Verdict::Denied(denial) => self.denied(now, kind, denial, out),
        }
    }

    fn denied(&mut self, now: Time, kind: Kind, denial: Denial, out: &mut Vec<Effect<F>>) {
        let Denial { why, leader, retry_in } = denial;
        let is_held = matches!(self.seat, CampaignSeat::Held(_));
        if is_held || kind == Kind::Claim {
            self.retry_in = retry_in;
            self.revoked = None;
            if !planted!("campaign-request-outlives-its-term") {
                self.asked = None;
            }
        }
        self.leader = leader;
        // Where another has it, there is nothing to give back.
        let is_mine = !matches!(why, Refusal::Held | Refusal::TermOver | Refusal::DuplicateIdentity);
        if !is_mine {
            self.left = None;
        }
        if !matches!(why, Refusal::Held | Refusal::TooEarly | Refusal::TermOver) {
            self.trouble = Some(Trouble::Refused(why.clone()));
        }
        let is_duplicate = why == Refusal::DuplicateIdentity;
        if is_held {
            if is_duplicate {
                self.emit(now, CampaignEventKind::DuplicateIdentity, out);
            }
            self.lose(now, Lost::Denied, is_mine, out);
            return;
        }
        let rejected = CampaignEventKind::Rejected { why };
        let what = if is_duplicate { CampaignEventKind::DuplicateIdentity } else { rejected };
        self.emit(now, what, out);
        self.follow(out);
        if kind == Kind::Claim {
            let is_woken = self.listening == Listening::Signalled;
            self.poll_later(now);
            if is_woken {
                self.wake(now);
            }
        }
    }

    /// The next poll, counted from now.
    pub(super) fn poll_later(&mut self, now: Time) {
        let timing = &self.config.timing;
        let (poll, jitter) = (self.retry_in.take().unwrap_or(timing.poll), timing.jitter);
        self.listening = Listening::Open;
        self.poll_at = Some(now + poll + self.draw.below(jitter));
        if planted!("campaign-notification-without-polling") {
            self.poll_at = None;
        }
    }

    fn attempt_failed(&mut self, now: Time, call: &Call, fault: Fault, out: &mut Vec<Effect<F>>) {
        self.failures = self.failures.saturating_add(1);
        // An attempt stays unsettled although it fails for certain the second time: the first may have been carried out.
        if matches!(fault, Fault::Transient { maybe_committed: true, .. }) {
            self.unsettled = Some(Unsettled { attempt: call.attempt, first_sent: call.anchor });
        }
        let pause = match fault {
            Fault::Transient { .. } => self.backoff(self.failures),
            Fault::Fatal(_) => self.config.timing.backoff_max,
        };
        self.trouble = Some(Trouble::Fault(fault.clone()));
        self.emit(now, CampaignEventKind::of(fault), out);
        self.listening = Listening::Open;
        if let CampaignSeat::Held(held) = &mut self.seat {
            // Several tries in what is left, the last close to its end.
            let pause = pause.min(held.until.left(now) / 4).max(self.config.timing.backoff);
            held.refresh_at = Some(now + pause);
        } else {
            let jitter = self.draw.below(pause / 4);
            self.poll_at = Some(now + pause + jitter);
        }
    }

    /// What to do about the calls in flight now that the campaign shall end.
    pub(super) fn hurry(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        let patience = self.config.abdicate_tries.first().copied().unwrap_or_default();
        match &mut self.call {
            // It may bring a seat that can be given back.
            Some(call) if call.kind == Kind::Claim => {
                call.until = call.until.min(now + patience);
                self.lifecycle = Lifecycle::StopsSoon;
            }
            Some(call) if call.kind == Kind::Inform => drop(self.abandon(out)),
            Some(call) if call.kind == Kind::Rivals => {
                self.abandon(out);
                self.rivals_known(now, true, out);
            }
            _ => {}
        }
    }

    /// The campaign ends, and has no seat that it knows of. If it may have one, it asks once more.
    pub(super) fn act_at_end(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        if self.call.is_some() {
            return;
        }
        if self.unsettled.is_some() && self.lifecycle == Lifecycle::Stops {
            self.lifecycle = Lifecycle::StopsSoon;
            let patience = self.config.abdicate_tries.first().copied().unwrap_or_default();
            self.claim(now, patience, out);
        } else {
            self.leave(now, Lost::Shutdown, out);
        }
    }
}
