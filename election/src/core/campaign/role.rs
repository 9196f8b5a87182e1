//! The role: it takes up the term, and stops before the seat is given back.

use std::time::Duration;

use callsign_store::{planted, time::Time};

use super::{CampaignSeat, Core, Effect, Listening, Lost, Release, Releasing, RunId, Transition, Until};
use crate::{
    core::campaign::{OnLoss, event::CampaignEventKind, status::Trouble},
    oracle::Grant,
    role::Abort,
};

/// Aborting does not wait for anything: a role that needs longer than this is stuck.
const LEAST_TO_ABORT: Duration = Duration::from_millis(100);

/// A term that is trusted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Held<F> {
    pub(super) grant: Grant<F>,
    pub(super) until: Until,
    /// None: not by timer.
    pub(super) refresh_at: Option<Time>,
    /// From when the last grant is counted.
    pub(super) anchor: Time,
    /// How long an answer is awaited.
    pub(super) patience: Duration,
    pub(super) work: Work,
    pub(super) tidying: Tidying,
}

/// When the oracle is asked to tidy up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Tidying {
    /// Not before the first refresh: a term that is short leaves it to the next.
    NotYet,
    /// Then, at the earliest.
    At(Time),
    /// Not in this term: there is nothing to tidy.
    Never,
}

impl Tidying {
    /// The term goes on.
    pub(super) fn may_begin(&mut self, now: Time) {
        if *self == Self::NotYet {
            *self = Self::At(now);
        }
    }
}

/// How far the role is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// It will be asked at that time to take up the term. `run`: its last attempt, which has failed. If the term was
    /// granted just now, that is one of a former term: then it is asked in the same step, and nothing can come between.
    Waiting { at: Time, attempt: u32, run: RunId },
    /// It is taking it up.
    Activating { run: RunId, attempt: u32, since: Time, until: Time },
    /// It is active.
    Active { run: RunId, since: Time },
}

/// A term that is over, and a role that is stopping.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Ending<F> {
    pub(super) why: Lost,
    /// The last grant of the term.
    pub(super) grant: Grant<F>,
    /// What to give back after it, and until when that would have been trusted.
    pub(super) give_back: Option<(Grant<F>, Until)>,
    run: RunId,
    since: Time,
    /// It is aborted then. If it is being aborted: it is stuck then.
    pub(super) until: Time,
    pub(super) aborting: bool,
}

impl<F: Clone + PartialEq + 'static> Core<F> {
    pub(super) fn act_on_role(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        let ends = self.ends();
        match &mut self.seat {
            CampaignSeat::Held(held) => match held.work {
                Work::Waiting { at, attempt, .. } if at <= now => {
                    self.runs += 1;
                    let (run, until) = (RunId(self.runs), now + self.config.activate_timeout);
                    held.work = Work::Activating { run, attempt, since: now, until };
                    let grant = held.grant.clone();
                    self.emit(now, CampaignEventKind::RoleActivating { attempt }, out);
                    out.push(Effect::Activate { run, grant });
                }
                Work::Activating { run, until, .. } if until <= now => {
                    out.push(Effect::Abort { run });
                    self.activated(now, run, Err(Abort("it took too long".to_owned())), out);
                }
                _ => {}
            },
            CampaignSeat::Ending(ending) if !ending.aborting && ending.until <= now => {
                ending.aborting = true;
                ending.until = now + self.config.timing.stop_budget.max(LEAST_TO_ABORT);
                out.push(Effect::Abort { run: ending.run });
            }
            // It blocks its thread, and may still work: the seat is not given back, and the end is not waited for.
            CampaignSeat::Ending(ending) if ends && ending.until <= now => {
                let why = ending.why;
                self.release = Release::RoleStuck;
                self.finish(why, out);
            }
            _ => {}
        }
    }

    pub(super) fn activated(
        &mut self,
        now: Time,
        id: RunId,
        answer: Result<(), Abort>,
        out: &mut Vec<Effect<F>>,
    ) {
        let CampaignSeat::Held(held) = &mut self.seat else { return };
        let Work::Activating { run, attempt, since, .. } = held.work else { return };
        if run != id {
            return;
        }
        match answer {
            Ok(()) => {
                held.work = Work::Active { run, since: now };
                let grant = held.grant.clone();
                self.emit(now, CampaignEventKind::RoleActive { took: now.since(since) }, out);
                self.publish(Transition::Leading(grant), out);
            }
            Err(Abort(reason)) => {
                let pause = self.backoff(attempt);
                let CampaignSeat::Held(held) = &mut self.seat else { return };
                held.work = Work::Waiting { at: now + pause, attempt: attempt + 1, run };
                self.trouble = Some(Trouble::Role(reason.clone()));
                self.emit(now, CampaignEventKind::RoleActivateFailed { attempt, reason }, out);
                if attempt >= self.config.activate_attempts {
                    self.lose(now, Lost::RoleFailed, true, out);
                }
            }
        }
    }

    pub(super) fn role_exited(&mut self, now: Time, id: RunId, reason: String, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Held(held) = &self.seat else { return };
        if matches!(held.work, Work::Active { run, .. } if run == id) {
            self.trouble = Some(Trouble::Role(reason.clone()));
            self.emit(now, CampaignEventKind::RoleExited { reason }, out);
            self.lose(now, Lost::RoleFailed, true, out);
        }
    }

    /// The term that is held is over for this member: lapse, tell, stop the role.
    pub(super) fn lose(&mut self, now: Time, why: Lost, give_back: bool, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Held(held) = &self.seat else { return };
        let give_back = give_back.then(|| (held.grant.clone(), held.until));
        self.lose_for(now, why, give_back, out);
    }

    /// The same, and another term is to be given back afterwards, or none.
    pub(super) fn lose_for(
        &mut self,
        now: Time,
        why: Lost,
        give_back: Option<(Grant<F>, Until)>,
        out: &mut Vec<Effect<F>>,
    ) {
        let CampaignSeat::Held(held) = std::mem::replace(&mut self.seat, CampaignSeat::Vacant) else {
            return;
        };
        // What it was about to learn of that term does not matter any more.
        self.abandon(out);
        self.unsettled = None;
        self.listening = Listening::Open;
        self.lost = Some(why);
        self.count_role_failures(now, held.work, why);
        if self.config.on_loss == OnLoss::Stop {
            self.ends_since.get_or_insert(now);
        }
        if self.leader.as_ref() == Some(&held.grant.term) {
            self.leader = None;
        }
        let budget = self.budget(now, held.until);
        let (Work::Waiting { run, .. } | Work::Activating { run, .. } | Work::Active { run, .. }) = held.work;
        let grant = held.grant;
        let until = now + budget;
        self.seat =
            CampaignSeat::Ending(Ending { why, grant, give_back, run, since: now, until, aborting: false });
        out.push(Effect::Lapse);
        self.emit(now, CampaignEventKind::Lost { why }, out);
        if self.leading {
            self.publish(Transition::Following(self.leader.clone()), out);
        }
        self.emit(now, CampaignEventKind::RoleStopping { why, budget }, out);
        out.push(Effect::Deactivate { run, why, budget });
        if planted!("campaign-release-before-stop") {
            self.role_stopped(now, run, out);
        }
    }

    /// A role that was active for a lease is sound: what failed before does not count any more.
    fn count_role_failures(&mut self, now: Time, work: Work, why: Lost) {
        if matches!(work, Work::Active { since, .. } if now.since(since) >= self.config.timing.lease) {
            self.role_failures = 0;
        }
        if why == Lost::RoleFailed {
            self.role_failures = self.role_failures.saturating_add(1);
        }
    }

    /// How long the role has: the stop budget, but not beyond what was set apart for it before the lease ends.
    fn budget(&self, now: Time, until: Until) -> Duration {
        let budget = self.config.timing.stop_budget;
        match until {
            Until::At(at) => budget.min((at + budget).since(now)),
            Until::Revoked => budget,
        }
    }

    pub(super) fn role_stopped(&mut self, now: Time, id: RunId, out: &mut Vec<Effect<F>>) {
        // If it is being aborted, that is what ends it.
        if let CampaignSeat::Ending(ending) = &self.seat
            && ending.run == id
            && !ending.aborting
        {
            self.emit(now, CampaignEventKind::RoleStopped { took: now.since(ending.since) }, out);
            self.role_ended(now, out);
        }
    }

    pub(super) fn role_aborted(&mut self, now: Time, id: RunId, out: &mut Vec<Effect<F>>) {
        if let CampaignSeat::Ending(ending) = &self.seat
            && ending.run == id
            && ending.aborting
        {
            self.emit(now, CampaignEventKind::RoleAborted { took: now.since(ending.since) }, out);
            self.role_ended(now, out);
        }
    }

    /// Only now the seat may be another's.
    fn role_ended(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        let CampaignSeat::Ending(ending) = std::mem::replace(&mut self.seat, CampaignSeat::Vacant) else {
            return;
        };
        match ending.give_back {
            Some((grant, trusted)) => {
                self.seat = CampaignSeat::Releasing(Releasing::new(now, grant, trusted, ending.why));
            }
            None => self.end_term(now, ending.why, out),
        }
    }
}
