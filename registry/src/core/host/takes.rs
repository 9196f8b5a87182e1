//! Names that actors of this node take from other actors: the side that gets them.
//!
//! ```text
//! --take--> behind --the replica is there--> asked --data--> has the data: the log decides
//!              |                               | refused, or the registration ended
//!              v                               v
//!            refused                         refused                 --transferred--> decided, as a registration that was granted
//! ```
//!
//! A take is a request with a number of its own, which the leader does not hear of by this host: so it is kept apart from the
//! requests that are, and it is not among those that are acknowledged.
//!
//! Promises: it says that it has the data only while it is open and its session is trusted, so that a name goes to nobody who does not
//! want it; it ends by the applied entry, by the holder's refusal, by any other end of the registration that it takes, or with its
//! session; a name that comes to nobody is given up.

mod disowned;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use callsign_store::planted;

use super::{
    Answer, Applied, Arc, CallId, Client, Duration, Effect, Event, GivenUp, Granted, Host, Kind, Message,
    Name, NodeName, Notice, Now, OnLapse, OnTake, Open, Position, Queued, RegisterError, Replica,
    RequestNumber, SessionId, Table, Time, Verdict, Wish,
    decided::Decided,
    duties::{Duty, Slice},
};
use crate::{
    core::{
        input::TakenAs,
        taking::{TakeRefusal, Taker, Taking},
    },
    error::TakeError,
};

pub(crate) use self::disowned::Disowned;

/// A holder that has not answered is asked again after so long. Copies are recognised.
const ASK_HOLDER_AGAIN: Duration = Duration::from_millis(500);

/// A wish for a name that another actor holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    /// The registration that is to end by it.
    pub(crate) token: Position,
    pub(crate) actor: u64,
    pub(crate) kind: Kind,
    pub(crate) on_lapse: OnLapse,
    pub(crate) on_take: OnTake,
}

/// One that is open.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Take {
    name: Name,
    wanted: Wanted,
    /// The call that asked. What is granted is its claim.
    claim: CallId,
    caller: Option<Client>,
    /// Who holds the registration. None: the replica is not there yet.
    holder: Option<Arc<SessionId>>,
    asked: Option<Time>,
    /// With the number of the consent.
    data: Option<(u64, Bytes)>,
    /// Its actor has ended, or does not want it any more.
    is_orphan: bool,
    /// Its actor lives, and does not want it any more.
    is_disowned: bool,
    /// What came of it is among what is decided.
    is_decided: bool,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Takes {
    by_number: BTreeMap<RequestNumber, Take>,
    by_name: BTreeMap<Name, RequestNumber>,
    /// Those that wait until the replica is at their token.
    behind: BTreeSet<(Position, RequestNumber)>,
    bytes: usize,
}

impl Takes {
    pub(super) fn count(&self) -> usize {
        self.by_number.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The call that one is for.
    pub(super) fn call_of(&self, number: RequestNumber) -> Option<CallId> {
        self.by_number.get(&number).map(|take| take.claim)
    }

    pub(super) fn is_taking(&self, name: &Name) -> bool {
        self.by_name.contains_key(name)
    }

    /// Whether this one has the data, and waits for the name.
    #[cfg(feature = "cores")]
    pub(super) fn has_data(&self, number: RequestNumber) -> bool {
        self.by_number.get(&number).is_some_and(|take| take.data.is_some())
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Name> {
        self.by_name.keys()
    }

    /// The actor of one has ended.
    pub(super) fn orphan(&mut self, number: RequestNumber) {
        if let Some(take) = self.by_number.get_mut(&number) {
            take.is_orphan = true;
        }
    }

    fn begin(&mut self, number: RequestNumber, take: Take) {
        self.by_name.insert(take.name.clone(), number);
        self.by_number.insert(number, take);
    }

    fn end(&mut self, number: RequestNumber) -> Option<Take> {
        let take = self.by_number.remove(&number)?;
        self.by_name.remove(&take.name);
        self.behind.remove(&(take.wanted.token, number));
        self.bytes -= take.data.as_ref().map_or(0, |(_, data)| data.len());
        Some(take)
    }

    /// The one of this name that is not decided.
    fn open_of(&self, name: &Name) -> Option<(RequestNumber, &Take)> {
        let number = self.by_name.get(name)?;
        self.by_number.get(number).filter(|take| !take.is_decided).map(|take| (*number, take))
    }
}

/// Tells a caller that it does not get a name. Nothing more will be said of what it asked for.
pub(super) fn refuse_take(call: CallId, error: TakeError, effects: &mut Vec<Effect>) {
    effects.push(Effect::Forget { claim: call });
    effects.push(Effect::Answer { call, answer: Answer::Taken(Err(error)) });
}

impl Host {
    pub(crate) fn take<T: Table>(
        &mut self,
        now: Now,
        caller: Client,
        name: Name,
        wanted: Wanted,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_busy() {
            return self.owes(Duty::Call(name, Queued::Take { caller, wanted }));
        }
        self.take_now(now, caller, name, wanted, replica, effects);
    }

    pub(super) fn take_now<T: Table>(
        &mut self,
        now: Now,
        caller: Client,
        name: Name,
        wanted: Wanted,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let call = caller.call;
        let refused = if let Some(ask) = &self.turned_away {
            Some(RegisterError::Draining { ask: ask.clone() })
        } else if self.is_trusted(now) {
            self.overload(None).map(|pending| RegisterError::Overloaded { pending })
        } else {
            Some(RegisterError::Lapsed)
        };
        if let Some(error) = refused {
            return refuse_take(call, error.into(), effects);
        }
        // One that is on its way from here is asked for all the same, and its holder says so.
        if self.by_name.contains_key(&name) || self.takes.is_taking(&name) {
            return self.queued.push(name, Queued::Take { caller, wanted });
        }
        let held = self.claims.get(&name).filter(|claim| claim.position == wanted.token);
        if let (Some(claim), Some(session)) = (held, &self.session)
            && claim.actor == Some(wanted.actor)
        {
            let granted = Granted {
                token: claim.position,
                revision: claim.revision,
                session: session.number,
                claim: claim.id,
            };
            effects.push(Effect::Same { claim: claim.id, again: call });
            let taken = TakenAs { granted, data: Bytes::new() };
            effects.push(Effect::Answer { call, answer: Answer::Taken(Ok(taken)) });
            return;
        }
        let actor = wanted.actor;
        if !self.by_actor.contains_key(&actor) {
            effects.push(Effect::Watch { actor });
        }
        let number = self.next_number;
        self.next_number = RequestNumber(number.0 + 1);
        self.asking.begins(&as_registration(&wanted), number);
        self.takes.behind.insert((wanted.token, number));
        let (holder, asked, data) = (None, None, None);
        let (is_orphan, is_disowned, is_decided) = (false, false, false);
        let take = Take {
            name,
            wanted,
            claim: call,
            caller: Some(caller),
            holder,
            asked,
            data,
            is_orphan,
            is_disowned,
            is_decided,
        };
        self.takes.begin(number, take);
        self.find_holders(now, replica, effects);
    }

    /// Asks the holders of registrations that the replica has reached.
    pub(super) fn find_holders<T: Table>(
        &mut self,
        now: Now,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        while self.is_synced
            && replica.is_based()
            && let Some((token, number)) = self.takes.behind.first().copied()
            && token <= replica.position()
        {
            self.takes.behind.remove(&(token, number));
            let Some(take) = self.takes.by_number.get_mut(&number) else { continue };
            match replica.row(&take.name).filter(|row| row.position == token) {
                Some(row) => {
                    take.holder = Some(row.session.clone());
                    self.ask_holder(now.time, number, effects);
                }
                // A registration that is not there now was never there, or is over: it will not come.
                None => self.taken_away(number),
            }
        }
    }

    fn ask_holder(&mut self, now: Time, number: RequestNumber, effects: &mut Vec<Effect>) {
        let Some(session) = self.session.clone() else { return };
        let Some(take) = self.takes.by_number.get_mut(&number) else { return };
        let Some(holder) = take.holder.clone() else { return };
        take.asked = Some(now);
        let Wanted { token, actor, kind, .. } = take.wanted;
        let (taker, name) = (Taker { session, number }, take.name.clone());
        let to = holder.node.clone();
        effects
            .push(Effect::send(to, Message::Take(Taking::Ask { taker, holder, name, token, actor, kind })));
    }

    /// The holder hands over its data.
    pub(super) fn on_handed(
        &mut self,
        now: Now,
        from: &NodeName,
        (taker, holder): (Taker, &SessionId),
        (consent, data): (u64, Bytes),
        effects: &mut Vec<Effect>,
    ) {
        if self.session.as_ref() != Some(&taker.session) {
            return;
        }
        let number = taker.number;
        let take = self.takes.by_number.get_mut(&number).filter(|take| !take.is_decided);
        let Some(take) = take.filter(|take| !take.is_orphan || take.data.is_some()) else {
            return effects.push(Effect::send(from.clone(), Message::Take(Taking::Over { taker })));
        };
        let is_trusted = self.session.as_ref().is_some_and(|session| now.trusted == Some(session.number));
        if take.holder.as_deref() != Some(holder) || !is_trusted || !self.is_synced {
            return;
        }
        if planted!("data-of-a-taker-not-kept") {
            let data = (consent, Bytes::new());
            take.data = Some(data);
            return effects
                .push(Effect::send(from.clone(), Message::Take(Taking::Received { taker, consent })));
        }
        self.takes.bytes += data.len();
        if let Some((_, former)) = take.data.replace((consent, data)) {
            self.takes.bytes -= former.len();
        }
        effects.push(Effect::send(from.clone(), Message::Take(Taking::Received { taker, consent })));
    }

    /// The holder says no, for good.
    pub(super) fn on_take_refused<T: Table>(
        &mut self,
        now: Now,
        (taker, holder): (&Taker, &SessionId),
        why: TakeRefusal,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if self.session.as_ref() != Some(&taker.session) {
            return;
        }
        let take = self.takes.by_number.get(&taker.number).filter(|take| !take.is_decided);
        let Some(take) = take.filter(|take| take.holder.as_deref() == Some(holder)) else { return };
        let name = take.name.clone();
        let error = if take.is_orphan {
            RegisterError::ActorEnded.into()
        } else {
            TakeError::Refused { name: name.to_string(), why }
        };
        self.fail_take(taker.number, error, effects);
        self.next_queued(now, &name, replica, effects);
    }

    /// One ends without a name.
    fn fail_take(&mut self, number: RequestNumber, error: TakeError, effects: &mut Vec<Effect>) {
        let Some(take) = self.takes.end(number) else { return };
        self.asking.ends(&as_registration(&take.wanted), number);
        self.unwatch(take.wanted.actor, effects);
        effects.push(Effect::Forget { claim: take.claim });
        if let Some(caller) = take.caller {
            effects.push(Effect::Answer { call: caller.call, answer: Answer::Taken(Err(error)) });
        }
    }

    /// What came of one is known, and is passed on when its time has come.
    fn decide_take(&mut self, number: RequestNumber, verdict: Verdict, position: Position) {
        let Some(take) = self.takes.by_number.get_mut(&number) else { return };
        take.is_decided = true;
        let (name, claim, wish) = (take.name.clone(), Some(take.claim), as_registration(&take.wanted));
        let Wanted { on_lapse, on_take, .. } = take.wanted;
        let (caller, is_orphan) = (take.caller, take.is_orphan);
        let (starter, sent) = (None, None);
        let open =
            Open { name, wish, on_lapse, on_take, claim, caller, starter, sent, is_orphan, takes: true };
        let open = Box::new(open);
        self.decided.insert(number, Decided { open, verdict, position });
    }

    /// The registration that one takes is over, and not by it.
    fn taken_away(&mut self, number: RequestNumber) {
        if let Some(take) = self.takes.by_number.get(&number) {
            self.takes.behind.remove(&(take.wanted.token, number));
        }
        if !planted!("take-waits-for-ever") {
            self.decide_take(number, Verdict::Gone, Position(0));
        }
    }

    /// What the log says of names that are taken, or were.
    pub(super) fn on_taken(&mut self, applied: &Applied, effects: &mut Vec<Effect>) {
        for (name, row) in &applied.taken {
            if self.session.as_deref() != Some(&*row.session) {
                continue;
            }
            let open = self.takes.open_of(name).filter(|(number, _)| *number == row.request);
            if open.is_some() && !self.is_synced {
                // It is looked at when this member is synced.
            } else if let Some((number, _)) = open {
                effects.push(Effect::Event(Event::Taken { name: name.clone(), token: row.position }));
                let (token, revision) = (row.position, row.revision());
                self.decide_take(number, Verdict::Granted { token, revision }, row.position);
            } else if !self.by_name.contains_key(name) {
                self.give_up(name.clone(), row.position, GivenUp::Unregistered, None);
            }
        }
        if !planted!("end-of-what-is-taken-missed") {
            for (name, token) in &applied.ended {
                let open = self.takes.open_of(name).filter(|(_, take)| take.wanted.token == *token);
                // It ended by coming here.
                let is_its = |(to, row): &(Name, crate::core::table::Row), number| {
                    to == name && self.session.as_ref().is_some_and(|session| row.is_of(session, number))
                };
                let open = open.filter(|(number, _)| !applied.taken.iter().any(|one| is_its(one, *number)));
                if let Some((number, _)) = open {
                    self.taken_away(number);
                }
            }
        }
    }

    /// Many names may have changed: has those that are taken looked at, behind one of them. Returns behind which, if there are more.
    pub(super) fn look_at_takes<T: Table>(
        &mut self,
        behind: Option<&Name>,
        slice: &mut Slice,
        replica: &Replica<T>,
    ) -> Option<Name> {
        if !self.is_synced {
            return None;
        }
        let begin = behind.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let part = self.takes.by_name.range::<Name, _>((begin, std::ops::Bound::Unbounded));
        let part: Vec<_> = part.map(|(name, number)| (name.clone(), *number)).take(slice.left()).collect();
        slice.took(part.len());
        let last = part.last().map(|(name, _)| name.clone());
        for (name, number) in part {
            let Some(take) = self.takes.by_number.get(&number).filter(|take| !take.is_decided) else {
                continue;
            };
            let Some(session) = self.session.as_ref().filter(|_| replica.is_based()) else { continue };
            match replica.row(&name) {
                Some(row) if row.is_of(session, number) => {
                    let (token, revision) = (row.position, row.revision());
                    self.decide_take(number, Verdict::Granted { token, revision }, row.position);
                }
                Some(row) if row.position == take.wanted.token => {}
                _ if replica.position() >= take.wanted.token => self.taken_away(number),
                _ => {}
            }
        }
        last.filter(|_| slice.is_over())
    }

    /// Passes on what one came to.
    pub(super) fn settle_take(
        &mut self,
        now: Time,
        number: RequestNumber,
        open: Open,
        verdict: &Verdict,
        effects: &mut Vec<Effect>,
    ) {
        let Some(take) = self.takes.end(number) else { return };
        let Some(session) = self.session.as_ref().map(|session| session.number) else { return };
        let (actor, kind) = (take.wanted.actor, take.wanted.kind);
        let name = open.name.to_string();
        let is_orphan = take.is_orphan;
        let answer = match *verdict {
            Verdict::Granted { token, revision } if !is_orphan => {
                let (id, on_lapse, on_take) = (take.claim, open.on_lapse, open.on_take);
                let claim = super::Claim {
                    id,
                    actor: Some(actor),
                    kind,
                    position: token,
                    revision,
                    on_lapse,
                    on_take,
                };
                self.tell_of_leaving(&claim, effects);
                // It came from an actor of this node, by a snapshot: nothing else has ended that claim.
                self.end_claim(&open.name, Some(Notice::Transferred), effects);
                self.claim(open.name, claim);
                let granted = Granted { token, revision, session, claim: id };
                let data = take.data.map(|(_, data)| data).unwrap_or_default();
                Ok(TakenAs { granted, data })
            }
            Verdict::Granted { token, .. } => {
                if take.is_disowned {
                    self.unwatch(actor, effects);
                }
                effects.push(Effect::Forget { claim: take.claim });
                if !planted!("orphan-of-a-take-kept") {
                    let why = if take.is_disowned { GivenUp::Unregistered } else { GivenUp::ActorEnded };
                    self.give_up(open.name, token, why, None);
                }
                Err(RegisterError::ActorEnded.into())
            }
            _ => {
                self.unwatch(actor, effects);
                effects.push(Effect::Forget { claim: take.claim });
                Err(match verdict {
                    _ if is_orphan => RegisterError::ActorEnded.into(),
                    Verdict::Gone => TakeError::Gone { name, token: take.wanted.token },
                    _ => {
                        let waited = open.caller.map(|caller| now.since(caller.began)).unwrap_or_default();
                        RegisterError::Unknown { name, waited }.into()
                    }
                })
            }
        };
        if let Some(caller) = open.caller {
            effects.push(Effect::Answer { call: caller.call, answer: Answer::Taken(answer) });
        }
    }

    /// Time: who waits no more, and who is asked again.
    pub(super) fn wake_takes<T: Table>(&mut self, now: Now, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        if self.takes.count() == 0 || self.is_busy() {
            return;
        }
        self.find_holders(now, replica, effects);
        let (mut again, mut over) = (Vec::new(), Vec::new());
        for (number, take) in self.takes.by_number.iter_mut().filter(|(_, take)| !take.is_decided) {
            if take.is_orphan && take.data.is_none() {
                // It never said that it has the data, so it gets no name.
                over.push((*number, take.name.clone(), RegisterError::ActorEnded.into()));
                continue;
            }
            let is_due = |at: Time| now.time.since(at) >= ASK_HOLDER_AGAIN;
            if take.asked.is_none_or(is_due) {
                again.push(*number);
            }
            let Some(caller) = take.caller.filter(|caller| now.time >= caller.deadline) else { continue };
            let (name, waited) = (take.name.to_string(), now.time.since(caller.began));
            if take.holder.is_none() {
                // Nothing was asked.
                let (at, wanted) = (replica.position(), take.wanted.token);
                over.push((*number, take.name.clone(), TakeError::Behind { name, at, wanted, waited }));
                continue;
            }
            // It goes on: only its caller does not wait for it any more.
            take.caller = None;
            let error = RegisterError::Unknown { name, waited }.into();
            effects.push(Effect::Answer { call: caller.call, answer: Answer::Taken(Err(error)) });
        }
        if self.is_trusted(now) && self.is_synced {
            for number in again {
                self.ask_holder(now.time, number, effects);
            }
        }
        for (number, name, error) in over {
            self.withdraw_take(number, error, effects);
            self.next_queued(now, &name, replica, effects);
        }
    }

    /// One that did not say that it has the data is wanted no more.
    fn withdraw_take(&mut self, number: RequestNumber, error: TakeError, effects: &mut Vec<Effect>) {
        let Some(take) = self.takes.by_number.get(&number) else { return };
        let (holder, session) = (take.holder.clone(), self.session.clone());
        if let (Some(holder), Some(session)) = (holder, session) {
            let message = Message::Take(Taking::Over { taker: Taker { session, number } });
            effects.push(Effect::send(holder.node.clone(), message));
        }
        self.fail_take(number, error, effects);
    }

    /// The session is lost: one of them ends. False: there is none.
    pub(super) fn lose_take(&mut self, effects: &mut Vec<Effect>) -> bool {
        let open = self.takes.by_number.iter().find(|(_, take)| !take.is_decided);
        let Some((number, name)) = open.map(|(number, take)| (*number, take.name.to_string())) else {
            return false;
        };
        self.fail_take(number, RegisterError::SessionLost { name }.into(), effects);
        true
    }

    /// The log by which one was decided is lost: another one says what becomes of it.
    pub(super) fn undecide_take(&mut self, number: RequestNumber, open: &Open) {
        let Some(take) = self.takes.by_number.get_mut(&number) else { return };
        take.is_decided = false;
        take.caller = open.caller;
    }

    /// What one came to is lost with its session.
    pub(super) fn forget_take(&mut self, number: RequestNumber) {
        self.takes.end(number);
    }
}

/// As what the host keeps it beside its registrations: the actor is watched, and found by its end.
fn as_registration(wanted: &Wanted) -> Wish {
    Wish::Register { actor: Some(wanted.actor), kind: wanted.kind, meta: None }
}

#[cfg(test)]
mod tests;
