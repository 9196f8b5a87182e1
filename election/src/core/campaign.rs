//! The rules of a campaign, as a pure value: `step(now, input) -> effects`.
//!
//! The nine rules, and where they are:
//!
//! 1. Time is taken before an attempt is sent; trust is counted from there. A grant that comes too late is given back
//!    (`calls`, `grants`).
//! 2. `Leading` is published only after the role is active, and while trusted (`role`).
//! 3. At a loss: lapse, publish, stop the role or abort it, give back that term (`role`, `release`).
//! 4. `Denied` is immediate; a fault is retried, with the same nonce if it may have been carried out (`calls`).
//! 5. Never two calls in flight; each is bounded by what is left of trust (`calls`).
//! 6. Polling never stops; signals only bring it forward (`signals`).
//! 7. Own resignations do not wake; after a forced one others go first (`signals`, `release`).
//! 8. Subscribers: the driver's part, from the transitions that are published here.
//! 9. The clock is an input.
//!
//! And two for the sake of economy: it tidies up only while nothing else is to be asked (`tidying`), and at the end it leaves
//! nothing behind, if it can (`leaving`).

mod calls;
pub mod event;
mod grants;
mod leaving;
mod release;
mod role;
mod signals;
pub mod status;
mod tidying;
mod words;

use std::{any::Any, time::Duration};

use callsign_store::{
    ids::{Ballot, Epoch},
    random::SplitMix64,
    time::Time,
};

pub use self::words::{CallId, CoreConfig, Effect, End, Input, OnLoss, Release, RunId, Transition, Until};
use self::{
    calls::{Call, Kind, Unsettled},
    leaving::Leaving,
    release::{Left, Releasing},
    role::{Ending, Held, Work},
};
use crate::{
    core::{
        campaign::{
            event::{CampaignEvent, CampaignEventKind},
            status::{CampaignStatus, Phase, Trouble},
        },
        term::{Fence, Term},
        timing::TimingError,
    },
    oracle::Grant,
    role::Lost,
};

/// What a campaign has of the seat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum CampaignSeat<F> {
    /// Nothing.
    Vacant,
    /// A term, trusted.
    Held(Held<F>),
    /// A term that is over for it, and a role that is stopping.
    Ending(Ending<F>),
    /// A term that is given back: no role runs.
    Releasing(Releasing<F>),
    /// Nothing any more: it ends, and asks that nothing of it is left.
    Leaving(Leaving),
}

/// One member's campaign.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Core<F> {
    config: CoreConfig,
    draw: SplitMix64,
    seat: CampaignSeat<F>,
    /// What the oracle is busy with.
    call: Option<Call>,
    calls: u64,
    runs: u64,
    /// An attempt that may have been carried out.
    unsettled: Option<Unsettled>,
    /// How many attempts failed in a row.
    failures: u32,
    /// How many terms ended because the role failed, since it was active for a whole lease.
    role_failures: u32,
    /// When to claim next; never, before the start.
    poll_at: Option<Time>,
    /// Not to claim before.
    rest_until: Time,
    /// What the last denial said about when to ask again.
    retry_in: Option<Duration>,
    listening: Listening,
    /// A request to resign, or news that it is over, about a term whose grant is still on its way.
    asked: Option<Asked>,
    revoked: Option<Epoch>,
    /// How many messages wait for the oracle, in the driver.
    infos: usize,
    leader: Option<Term>,
    /// What the role was told last about who leads.
    told: Option<ToldLeader>,
    leading: bool,
    lost: Option<Lost>,
    trouble: Option<Trouble>,
    lifecycle: Lifecycle,
    /// When it was to end, since it was.
    ends_since: Option<Time>,
    /// The last term, if it was not given back.
    left: Option<Left>,
    release: Release,
    /// Whether it has asked that nothing of it is left, with its last term.
    has_left: bool,
}

/// How it takes signals: as one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Listening {
    /// The next one brings the next question forward.
    Open,
    /// One did; or came while a question was in flight, and will.
    Signalled,
    /// The last change of the seat was this member's own: signals are about that, until the next poll.
    Ignores,
}

/// Whether it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lifecycle {
    Runs,
    Stops,
    /// And has made its last claim, to learn whether it has a seat to give back.
    StopsSoon,
    Over,
}

/// A request to resign: of this epoch, or of any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Asked(Option<Epoch>);

/// Who leads, as the role was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ToldLeader(Option<Term>);

impl<F: Clone + PartialEq + 'static> Core<F> {
    /// A campaign that has not started. Fails if no seat can be kept with its timing.
    pub fn new(config: CoreConfig) -> Result<Self, TimingError> {
        config.timing.validate()?;
        Ok(Self {
            draw: SplitMix64::new(config.seed),
            config,
            seat: CampaignSeat::Vacant,
            call: None,
            calls: 0,
            runs: 0,
            unsettled: None,
            failures: 0,
            role_failures: 0,
            poll_at: None,
            rest_until: Time::ZERO,
            retry_in: None,
            listening: Listening::Open,
            asked: None,
            revoked: None,
            infos: 0,
            leader: None,
            told: None,
            leading: false,
            lost: None,
            trouble: None,
            lifecycle: Lifecycle::Runs,
            ends_since: None,
            left: None,
            release: Release::NotHeld,
            has_left: false,
        })
    }

    /// Takes an input at this time, and says what has to be done, in order.
    pub fn step(&mut self, now: Time, input: Input<F>, out: &mut Vec<Effect<F>>) {
        if self.is_over() {
            return;
        }
        self.expire(now, &input, out);
        match input {
            Input::Start => {
                self.rest_until = now + self.config.claim_delay;
                self.poll_at = Some(self.rest_until);
            }
            Input::Wake => {}
            Input::Answered { call, answer } => self.answered(now, call, answer, out),
            Input::Reacted { call, reaction } => self.reacted(now, call, reaction, out),
            Input::Abdicated { call, answer } => self.abdicated(now, call, answer, out),
            Input::Rivals { call, answer } => self.rivals(now, call, &answer, out),
            Input::Tidied { call, answer } => self.tidied(now, call, answer, out),
            Input::Info => self.infos += 1,
            Input::Signal(signal) => self.signal(now, signal, out),
            Input::Activated { run, answer } => self.activated(now, run, answer, out),
            Input::Stopped { run } => self.role_stopped(now, run, out),
            Input::Aborted { run } => self.role_aborted(now, run, out),
            Input::Exited { run, reason } => self.role_exited(now, run, reason, out),
            Input::Stop => self.stop(now, out),
        }
        if !self.is_over() {
            self.act(now, out);
        }
    }

    /// When it has to be told the time, by [`Input::Wake`], if nothing else comes before.
    pub fn wake_at(&self) -> Option<Time> {
        if self.is_over() {
            return None;
        }
        let call = self.call.as_ref().map(|call| call.until);
        let idle = self.call.is_none();
        // What is asked only while nothing is due ends when something is.
        let yields = self.is_tidying();
        let seat = match &self.seat {
            CampaignSeat::Vacant => idle.then_some(self.claim_at()).flatten(),
            CampaignSeat::Held(held) => {
                let trust = match held.until {
                    Until::At(at) => Some(at),
                    Until::Revoked => None,
                };
                let work = match held.work {
                    Work::Waiting { at, .. } => Some(at),
                    Work::Activating { until, .. } => Some(until),
                    Work::Active { .. } => None,
                };
                let refresh = if idle || yields { held.refresh_at } else { None };
                let tidy = if idle { self.tidy_at(held) } else { None };
                [trust, work, refresh, tidy].into_iter().flatten().min()
            }
            CampaignSeat::Ending(ending) => (!ending.aborting || self.ends()).then_some(ending.until),
            CampaignSeat::Releasing(releasing) => idle.then_some(releasing.next_at),
            CampaignSeat::Leaving(leaving) => idle.then_some(leaving.next_at),
        };
        [call, seat].into_iter().flatten().min()
    }

    /// What it does.
    pub fn phase(&self) -> Phase {
        match &self.seat {
            _ if self.is_over() => Phase::Over,
            CampaignSeat::Vacant => Phase::Following,
            CampaignSeat::Held(Held { work: Work::Active { .. }, .. }) => Phase::Leading,
            CampaignSeat::Held(_) => Phase::Activating,
            CampaignSeat::Ending(_) => Phase::Stopping,
            CampaignSeat::Releasing(_) => Phase::Releasing,
            CampaignSeat::Leaving(_) => Phase::Leaving,
        }
    }

    /// A look at it.
    pub fn status(&self, now: Time) -> CampaignStatus<F> {
        let grant = match &self.seat {
            CampaignSeat::Held(Held { grant, .. }) | CampaignSeat::Ending(Ending { grant, .. }) => {
                Some(grant.clone())
            }
            CampaignSeat::Vacant | CampaignSeat::Releasing(_) | CampaignSeat::Leaving(_) => None,
        };
        CampaignStatus {
            phase: self.phase(),
            grant,
            trust_left: self.trust_left(now),
            leader: self.leader.clone(),
            lost: self.lost,
            trouble: self.trouble.clone(),
        }
    }

    /// Until when it leads, if it does.
    pub fn until(&self) -> Option<Until> {
        match &self.seat {
            CampaignSeat::Held(held) => Some(held.until),
            _ => None,
        }
    }

    /// Whether the campaign has ended.
    pub fn is_over(&self) -> bool {
        self.lifecycle == Lifecycle::Over
    }

    fn is_stopping(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Stops | Lifecycle::StopsSoon)
    }

    fn trust_left(&self, now: Time) -> Duration {
        self.until().map_or(Duration::ZERO, |until| until.left(now))
    }

    /// What is over by now, before anything else is looked at.
    fn expire(&mut self, now: Time, input: &Input<F>, out: &mut Vec<Effect<F>>) {
        if self.until().is_some_and(|until| until.is_over(now)) {
            self.lose(now, Lost::TrustLapsed, true, out);
        }
        self.expire_call(now, input, out);
    }

    /// What is due by now.
    fn act(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        self.act_on_role(now, out);
        match &self.seat {
            _ if self.is_over() => {}
            CampaignSeat::Vacant if self.is_stopping() => self.act_at_end(now, out),
            CampaignSeat::Vacant => self.act_as_follower(now, out),
            CampaignSeat::Held(_) => self.act_as_leader(now, out),
            CampaignSeat::Ending(_) => {}
            CampaignSeat::Releasing(_) => self.act_on_release(now, out),
            CampaignSeat::Leaving(_) => self.act_on_leaving(now, out),
        }
    }

    fn stop(&mut self, now: Time, out: &mut Vec<Effect<F>>) {
        if self.lifecycle == Lifecycle::Runs {
            self.lifecycle = Lifecycle::Stops;
        }
        self.ends_since.get_or_insert(now);
        if matches!(self.seat, CampaignSeat::Held(_)) {
            self.lose(now, Lost::Shutdown, true, out);
        }
        self.hurry(now, out);
    }

    fn finish(&mut self, why: Lost, out: &mut Vec<Effect<F>>) {
        self.lifecycle = Lifecycle::Over;
        self.abandon(out);
        let release = self.at_end();
        out.push(Effect::End(End { why, release }));
    }

    fn publish(&mut self, transition: Transition<F>, out: &mut Vec<Effect<F>>) {
        self.leading = matches!(transition, Transition::Leading(_));
        out.push(Effect::Publish(transition));
    }

    fn emit(&self, now: Time, what: CampaignEventKind, out: &mut Vec<Effect<F>>) {
        let grant = match &self.seat {
            CampaignSeat::Vacant | CampaignSeat::Leaving(_) => None,
            CampaignSeat::Held(Held { grant, .. }) | CampaignSeat::Ending(Ending { grant, .. }) => {
                Some(grant)
            }
            CampaignSeat::Releasing(releasing) => Some(&releasing.grant),
        };
        out.push(Effect::Emit(Box::new(CampaignEvent {
            election: self.config.election.clone(),
            member: self.config.member.clone(),
            incarnation: self.config.incarnation,
            epoch: grant.map(|grant| grant.term.epoch),
            ballot: grant.and_then(ballot),
            phase: self.phase(),
            leader: self.leader.as_ref().map(|term| term.leader.clone()),
            trust_left: self.trust_left(now),
            what,
        })));
    }

    /// Double the first pause for each failure but the first, and at most the longest.
    fn backoff(&self, failures: u32) -> Duration {
        let doubled = self.config.timing.backoff.saturating_mul(1 << failures.saturating_sub(1).min(16));
        doubled.min(self.config.timing.backoff_max)
    }
}

/// The ballot, of grants that have one.
fn ballot<F: 'static>(grant: &Grant<F>) -> Option<Ballot> {
    (&grant.fence as &dyn Any).downcast_ref::<Fence>().map(|fence| fence.ballot)
}

#[cfg(test)]
mod tests;
