//! What concerns many of this node's own actors, or of those who wait, is done some names at a time, in order: what the session
//! becomes, a log that is lost, and that the node is about to leave.
//!
//! ```text
//! Lapsed --> Tell(Lapsed)    Resumed --> Tell(Resumed)    Opened        a call
//! lost:  End --> Refuse      log lost: End --> AskAgain    leaving: Tell(Draining) --> TurnAway
//! claims and log differ:     CompareRows --> CompareClaims
//! ActorEnded                 ahead of all others
//! ```
//!
//! While there are duties, no grant is passed on, nothing is asked of the leader, and what is called waits for its turn behind them. So
//! an actor is told of a lapse before it is told that it is over, and what is left of a session is done before the next one begins.
//!
//! Promises: a claim is flagged before its actor is told that it is lost, and both before whoever waits for the end of the duties is
//! told; whoever waits for an answer gets one.

use std::{
    collections::VecDeque,
    ops::Bound::{Excluded, Unbounded},
};

use callsign_store::planted;

use super::{
    Answer, Arc, Claim, Effect, Event, GivenUp, Host, Name, NotStarted, Notice, Now, OnLapse, Open, Queued,
    RegisterError, Replica, RequestNumber, SessionId, Table, Time, UnregisterError, UpdateError, Wish,
    calls::{not_held, refuse},
    digest,
    names::ActorNames,
    starts::{not_registered, refuse_start},
    takes::refuse_take,
};
use crate::core::group::MembershipName;

/// Where telling is: behind this actor, or behind this one of its names.
type ToldUpTo = Option<(u64, Option<Name>)>;

/// Something to do that may go over many names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Duty {
    Opened(SessionId),
    Lapsed(SessionId),
    Resumed(SessionId),
    /// No start goes on.
    EndStarts,
    /// Each actor with a claim is told.
    Tell {
        notice: Notice,
        told: ToldUpTo,
    },
    /// The claims end, and their actors are told that they are lost. Of the session, or of the log that had them.
    End {
        is_of_log: bool,
    },
    /// Those who wait hear that the session is lost.
    Refuse {
        at: Time,
    },
    /// What a log that is lost decided is asked again.
    AskAgain,
    /// What was asked for and not sent yet is refused: behind this name of those that wait for another, then behind this number.
    TurnAwayQueued(Option<Name>),
    TurnAwayUnsent(RequestNumber),
    /// Callers that wait for the start of another are told what became of it: those of names behind this one.
    LookAtStarts(Option<Name>),
    /// The same, of names that are taken from others.
    LookAtTakes(Option<Name>),
    /// Claims and log are compared: rows from a place on, then claims behind a name.
    CompareRows {
        from: usize,
    },
    CompareClaims {
        behind: Option<Name>,
    },
    /// The claims of an actor that has ended end, and are given up. What it still asks for is once that is decided: behind this number.
    ActorEnded {
        actor: u64,
        behind: RequestNumber,
    },
    /// A call, in its turn.
    Call(Name, Queued),
    /// The calls that have waited for a name, which is not asked for any more.
    CallQueued(Name),
}

/// What is left of a slice.
pub(super) struct Slice {
    names: usize,
    left: usize,
}

impl Slice {
    pub(super) fn of(names: usize) -> Self {
        Self { names, left: names }
    }

    pub(super) fn left(&self) -> usize {
        self.left
    }

    pub(super) fn took(&mut self, names: usize) {
        self.left = self.left.saturating_sub(names);
    }

    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }
}

/// All of them, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Duties {
    queue: VecDeque<Duty>,
    /// How many of them are calls, and how many bytes of metadata these bring.
    calls: usize,
    bytes: usize,
}

impl Duties {
    fn push(&mut self, duty: Duty) {
        self.calls += usize::from(duty.is_call());
        self.bytes += duty.bytes();
        self.queue.push_back(duty);
    }

    fn pop(&mut self) -> Option<Duty> {
        let duty = self.queue.pop_front()?;
        self.calls -= usize::from(duty.is_call());
        self.bytes -= duty.bytes();
        Some(duty)
    }

    /// How many calls wait among them.
    pub(super) fn calls(&self) -> usize {
        self.calls
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl Duty {
    fn is_call(&self) -> bool {
        matches!(self, Self::Call(..))
    }

    fn bytes(&self) -> usize {
        if let Self::Call(_, call) = self { call.bytes() } else { 0 }
    }
}

impl Host {
    pub(super) fn owes(&mut self, duty: Duty) {
        self.duties.push(duty);
    }

    /// Before everything that is owed already. Not for calls.
    pub(super) fn owes_first(&mut self, duty: Duty) {
        self.duties.queue.push_front(duty);
    }

    /// As somebody would who thinks that what comes next replaces what is under way.
    pub(super) fn forget_duties(&mut self) {
        self.duties = Duties::default();
    }

    /// Whether there is something to [`proceed`](Self::proceed) with.
    pub(crate) fn is_busy(&self) -> bool {
        !self.duties.is_empty()
    }

    /// Goes on with what is owed, over so many names.
    pub(crate) fn proceed<T: Table>(
        &mut self,
        now: Now,
        names: usize,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let mut slice = Slice::of(names);
        while !slice.is_over()
            && let Some(duty) = self.duties.pop()
        {
            if let Some(rest) = self.perform(now, duty, &mut slice, replica, effects) {
                self.owes_first(rest);
            }
        }
    }

    /// Does of a duty what the slice lets it. Returns the rest of it.
    fn perform<T: Table>(
        &mut self,
        now: Now,
        duty: Duty,
        slice: &mut Slice,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) -> Option<Duty> {
        match duty {
            Duty::Opened(session) => {
                self.session = Some(Arc::new(session));
                self.is_lapsed &= planted!("second-lapse-tells-nobody");
                None
            }
            Duty::Lapsed(session) => {
                self.adopt(session);
                let is_first = !std::mem::replace(&mut self.is_lapsed, true);
                is_first.then_some(Duty::Tell { notice: Notice::Lapsed, told: None })
            }
            Duty::Resumed(session) => {
                self.adopt(session);
                let was_lapsed = std::mem::replace(&mut self.is_lapsed, false);
                was_lapsed.then_some(Duty::Tell { notice: Notice::Resumed, told: None })
            }
            Duty::EndStarts => {
                let is_rest = self.end_starts(slice, |_| NotStarted::Lost, true, effects);
                is_rest.then_some(Duty::EndStarts)
            }
            Duty::LookAtStarts(behind) => {
                let last = self.look_behind(behind.as_ref(), slice)?;
                Some(Duty::LookAtStarts(Some(last)))
            }
            Duty::LookAtTakes(behind) => {
                let last = self.look_at_takes(behind.as_ref(), slice, replica)?;
                Some(Duty::LookAtTakes(Some(last)))
            }
            Duty::Tell { notice, told } => self.tell(notice, told, slice, effects),
            Duty::End { is_of_log } => self.end(is_of_log, slice, effects),
            Duty::Refuse { at } => self.refuse_waiting(at, slice, effects),
            Duty::AskAgain => self.ask_again(slice),
            Duty::TurnAwayQueued(behind) => Some(self.turn_away_queued(behind.as_ref(), slice, effects)),
            Duty::TurnAwayUnsent(behind) => self.turn_away_unsent(now, behind, slice, replica, effects),
            Duty::CompareRows { from } => Some(self.compare_rows(from, slice, replica, effects)),
            Duty::CompareClaims { behind } => self.compare_claims(behind.as_ref(), slice, replica, effects),
            Duty::ActorEnded { actor, behind } => self.end_actor(actor, behind, slice, effects),
            Duty::Call(name, call) => {
                slice.took(1);
                self.call_now(now, name, call, replica, effects);
                None
            }
            Duty::CallQueued(name) => {
                while !slice.is_over() && !self.is_asked(&name) {
                    slice.took(1);
                    let call = self.queued.pop(&name)?;
                    self.call_now(now, name.clone(), call, replica, effects);
                }
                (!self.is_asked(&name) && self.queued.is_waiting(&name)).then_some(Duty::CallQueued(name))
            }
        }
    }

    /// Tells each actor with a claim, by the listeners of its claims; and stops it, if the notice is one of those that stop and
    /// one of its claims says so: what a claim asked for is done whatever another one asked for. An actor with more names than a slice
    /// has is told in parts.
    fn tell(
        &self,
        notice: Notice,
        mut told: ToldUpTo,
        slice: &mut Slice,
        effects: &mut Vec<Effect>,
    ) -> Option<Duty> {
        let stops = matches!(notice, Notice::Lapsed | Notice::Lost);
        while !slice.is_over() {
            let next = match &told {
                None => self.by_actor.iter().next(),
                Some((actor, Some(_))) => self.by_actor.range(actor..).next(),
                Some((actor, None)) => self.by_actor.range((Excluded(actor), Unbounded)).next(),
            };
            let (actor, names) = next?;
            let behind = match &told {
                Some((same, Some(name))) if same == actor => Some(name),
                _ => None,
            };
            if behind.is_none() && names.len() > slice.left && names.len() <= slice.names {
                // All of it, in the next one.
                slice.took(slice.left);
                break;
            }
            let part: Vec<&Name> = names.behind(behind).take(slice.left).collect();
            slice.took(part.len().max(1));
            let claims = || part.iter().filter_map(|name| self.claims.get(*name));
            say(*actor, claims, notice, stops, effects);
            let last = part.last().copied().filter(|name| Some(*name) != names.last());
            told = Some((*actor, last.cloned()));
        }
        Some(Duty::Tell { notice, told })
    }

    /// Ends claims, actor by actor: they are flagged, and their actors are stopped or told.
    fn end(&mut self, is_of_log: bool, slice: &mut Slice, effects: &mut Vec<Effect>) -> Option<Duty> {
        if !is_of_log {
            self.session = None;
        }
        let lost = |name: &Name| {
            let of_session = || RegisterError::SessionLost { name: name.to_string() }.into();
            if is_of_log { NotStarted::Lost } else { of_session() }
        };
        if self.end_starts(slice, lost, false, effects) {
            return Some(Duty::End { is_of_log });
        }
        let mut ended: Vec<(u64, Vec<(Name, Claim)>)> = Vec::new();
        while !slice.is_over()
            && let Some(mut entry) = self.by_actor.first_entry()
        {
            let (actor, all) = (*entry.key(), entry.get_mut());
            let names: Vec<Name> = all.iter().take(slice.left).cloned().collect();
            if names.len() == all.len() {
                entry.remove();
            } else {
                for name in &names {
                    all.remove(name);
                }
            }
            slice.took(names.len().max(1));
            let claims = names.into_iter().filter_map(|name| {
                if planted!("lost-session-keeps-claims") && !is_of_log {
                    return self.claims.get(&name).cloned().map(|claim| (name, claim));
                }
                let claim = self.claims.remove(&name)?;
                let is_asked = self.gives.forget(&name);
                self.offers.forget(&name, is_asked);
                self.claims_digest ^= digest(&name, claim.position);
                Some((name, claim))
            });
            ended.push((actor, claims.collect()));
        }
        let of_log_unflagged = is_of_log && planted!("lost-claim-not-flagged");
        let of_session_unflagged = !is_of_log && planted!("session-end-not-flagged");
        let all = || ended.iter().flat_map(|(_, claims)| claims);
        if !of_log_unflagged && !of_session_unflagged {
            effects.extend(all().map(|(_, claim)| Effect::Flag { claim: claim.id }));
        }
        for (actor, claims) in &ended {
            say(*actor, || claims.iter().map(|(_, claim)| claim), Notice::Lost, true, effects);
        }
        for (actor, _) in &ended {
            self.unwatch(*actor, effects);
        }
        effects.extend(all().map(|(_, claim)| Effect::Forget { claim: claim.id }));
        if is_of_log {
            effects.extend(all().map(|(name, _)| Effect::Event(Event::ClaimLost { name: name.clone() })));
        }
        let is_rest = !self.by_actor.is_empty() && !planted!("second-slice-of-a-loss-forgotten");
        is_rest.then_some(Duty::End { is_of_log })
    }

    fn end_actor(
        &mut self,
        actor: u64,
        behind: RequestNumber,
        slice: &mut Slice,
        effects: &mut Vec<Effect>,
    ) -> Option<Duty> {
        let outlives =
            |name: &Name| MembershipName::of(name).is_some() && planted!("membership-outlives-its-actor");
        let names = self.by_actor.get(&actor).into_iter().flat_map(ActorNames::iter);
        let names: Vec<Name> = names.filter(|name| !outlives(name)).take(slice.left).cloned().collect();
        let mut is_done = names.is_empty();
        slice.took(names.len());
        for name in names {
            let Some(claim) = self.end_claim(&name, None, effects) else { continue };
            match self.by_name.get(&name) {
                None => self.give_up(name, claim.position, GivenUp::ActorEnded, None),
                // It is given up once that is decided.
                Some(number) => self.orphan(*number),
            }
        }
        if self.by_actor.contains_key(&actor) && planted!("second-slice-of-an-end-forgotten") {
            return None;
        }
        let asked: Vec<_> = self.asking.numbers_of(actor, behind).take(slice.left).collect();
        slice.took(asked.len());
        is_done &= asked.is_empty();
        let behind = asked.last().copied().unwrap_or(behind);
        for number in asked {
            self.orphan(number);
        }
        // The next slice finds out whether there is more.
        (!is_done && slice.is_over()).then_some(Duty::ActorEnded { actor, behind })
    }

    fn refuse_waiting(&mut self, at: Time, slice: &mut Slice, effects: &mut Vec<Effect>) -> Option<Duty> {
        if planted!("foreign-session-verdict") {
            self.next_number = RequestNumber(1);
        }
        while !slice.is_over() {
            slice.took(1);
            if let Some((number, open)) = self.undecided.pop_first().or_else(|| self.decided.pop()) {
                self.refuse_open(at, number, &open, effects);
                continue;
            }
            if self.lose_take(effects) {
                continue;
            }
            let (name, call) = self.queued.pop_any()?;
            match call {
                Queued::Register { .. }
                | Queued::Join { .. }
                | Queued::Start { .. }
                | Queued::Take { .. } => {
                    let error = RegisterError::SessionLost { name: name.to_string() };
                    refuse_queued(&call, error, effects);
                }
                Queued::Unregister { caller, .. } | Queued::Disown { caller, .. } => {
                    let answer = not_held(&name, None);
                    effects.push(Effect::Answer { call: caller.call, answer });
                }
                Queued::Update { caller, .. } => {
                    let answer = Answer::Updated(Err(UpdateError::SessionLost { name: name.to_string() }));
                    effects.push(Effect::Answer { call: caller.call, answer });
                }
            }
        }
        Some(Duty::Refuse { at })
    }

    fn refuse_open(&mut self, at: Time, number: RequestNumber, open: &Open, effects: &mut Vec<Effect>) {
        self.outbox.remove(&number);
        self.asking.ends(&open.wish, number);
        if open.takes {
            self.forget_take(number);
        } else if !planted!("lost-session-leaves-names-asked") {
            self.by_name.remove(&open.name);
        }
        if let Some(actor) = open.wish.actor() {
            self.unwatch(actor, effects);
        }
        effects.extend(open.claim.map(|claim| Effect::Forget { claim }));
        let Some(caller) = open.caller else { return };
        let name = open.name.to_string();
        let answer = match open.wish {
            Wish::Register { .. } | Wish::Bind { .. } => {
                not_registered(&open.wish, open.takes, RegisterError::SessionLost { name })
            }
            // Nobody waits for it here.
            Wish::Transfer { .. } => return,
            // The end of the session frees it, and that is not in the log yet.
            Wish::Unregister { .. } => {
                Answer::Unregistered(Err(UnregisterError::Pending { name, waited: at.since(caller.began) }))
            }
            Wish::Update { .. } => Answer::Updated(Err(UpdateError::SessionLost { name })),
        };
        effects.push(Effect::Answer { call: caller.call, answer });
    }

    fn ask_again(&mut self, slice: &mut Slice) -> Option<Duty> {
        while !slice.is_over() {
            let (number, open) = self.decided.pop()?;
            slice.took(1);
            if open.takes {
                // The log says anew what becomes of it.
                self.undecide_take(number, &open);
                continue;
            }
            self.asking.ends(&open.wish, number);
            self.ask(*open);
        }
        Some(Duty::AskAgain)
    }

    fn turn_away_queued(
        &mut self,
        behind: Option<&Name>,
        slice: &mut Slice,
        effects: &mut Vec<Effect>,
    ) -> Duty {
        let ask = self.turned_away.clone().unwrap_or_default();
        let (callers, last) = self.queued.take_registers(behind, slice.left);
        slice.took(if last.is_some() { slice.left } else { callers.len() });
        for call in callers {
            refuse_queued(&call, RegisterError::Draining { ask: ask.clone() }, effects);
        }
        last.map_or(Duty::TurnAwayUnsent(RequestNumber(0)), |last| Duty::TurnAwayQueued(Some(last)))
    }

    fn turn_away_unsent<T: Table>(
        &mut self,
        now: Now,
        behind: RequestNumber,
        slice: &mut Slice,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) -> Option<Duty> {
        let next = self.undecided.range_mut((Excluded(behind), Unbounded)).take(slice.left);
        let (mut last, mut unsent, mut count) = (behind, Vec::new(), 0);
        for (number, open) in next {
            (last, count) = (*number, count + 1);
            if open.sent.is_none() && matches!(open.wish, Wish::Register { .. }) {
                unsent.push((*number, open.caller.take(), open.wish.clone()));
            }
        }
        let is_rest = count == slice.left;
        slice.took(count);
        for (number, caller, wish) in unsent {
            if let Some(caller) = caller {
                let ask = self.turned_away.clone().unwrap_or_default();
                let answer = not_registered(&wish, false, RegisterError::Draining { ask });
                effects.push(Effect::Answer { call: caller.call, answer });
            }
            self.withdraw(now, number, replica, effects);
        }
        is_rest.then_some(Duty::TurnAwayUnsent(last))
    }
}

/// Tells somebody who waits for another call that the name is not asked for.
fn refuse_queued(call: &Queued, error: RegisterError, effects: &mut Vec<Effect>) {
    let id = call.caller().call;
    match call {
        Queued::Start { .. } => refuse_start(id, error.into(), effects),
        Queued::Take { .. } => refuse_take(id, error.into(), effects),
        _ => refuse(id, error, effects),
    }
}

/// Tells an actor by the listeners of these claims of it, and stops it if one of them says so.
fn say<'a, I: Iterator<Item = &'a Claim>>(
    actor: u64,
    claims: impl Fn() -> I,
    notice: Notice,
    stops: bool,
    effects: &mut Vec<Effect>,
) {
    let told: Vec<_> = claims().filter(|c| c.on_lapse == OnLapse::Suspend).map(|c| c.id).collect();
    if !told.is_empty() {
        effects.push(Effect::Notify { actor, claims: told, notice });
    }
    if stops && claims().any(|claim| claim.on_lapse == OnLapse::Stop) {
        effects.push(Effect::Stop { actor });
    }
}

#[cfg(test)]
mod tests;
