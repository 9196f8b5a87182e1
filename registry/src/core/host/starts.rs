//! Names that are taken before there is an actor to hold them.
//!
//! ```text
//! --start--> asked --granted, trusted--> runs --its actor--> bound: asked, as a claim of that actor --granted--> held
//!   ^          | refused                  | fails, is too slow, or the session lapses: flagged, and given up
//!   |          v
//!   '--gone-- somebody else's: waited for, by name and token --held--> theirs
//! ```
//!
//! Promises: a start runs only while the name is its own, and at most one whose claim is not flagged; whatever a start yields after
//! its claim was flagged is stopped, and never bound.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use callsign_store::planted;

use super::{
    Answer, CallId, Claim, Client, Duration, Effect, Entry, GivenUp, Granted, Host, Kind, Meta, Name, Notice,
    Now, OnLapse, OnTake, Open, Position, Queued, RegisterError, Replica, Table, Time, Verdict, Wish, digest,
    duties::{Duty, Slice},
    meta,
    queued::ANSWERED_AT_ONCE,
};
use crate::{
    core::{
        input::{StartedAs, Yielded},
        message::MAX_REASON_BYTES,
    },
    error::NotStarted,
};

/// A request for a name for an actor that is yet to be started.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Starter {
    /// What messages the actor will take.
    pub(crate) kind: Kind,
    pub(crate) on_lapse: OnLapse,
    pub(crate) on_take: OnTake,
    /// What the actor will say of itself.
    pub(crate) meta: Option<Meta>,
    /// How long the start may take.
    pub(crate) limit: Duration,
    /// How long a request may be undecided.
    pub(crate) wait: Duration,
    /// Until when it is waited for the starts of others.
    pub(crate) until: Time,
}

/// A start that runs: a claim without an actor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Running {
    /// The call that its claim began with.
    claim: CallId,
    starter: Starter,
    /// It is too slow from then on.
    until: Time,
}

/// Somebody who waits for the start of another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Awaiting {
    caller: Client,
    token: Position,
    starter: Starter,
}

/// All starts of a host, and who waits for those of others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Starts {
    running: BTreeMap<Name, Running>,
    awaiting: BTreeMap<Name, Vec<Awaiting>>,
    /// How many wait, and how many bytes of metadata they and the running ones bring.
    awaited: usize,
    bytes: usize,
    /// Names whose start has ended in the log, to be looked at.
    due: BTreeSet<Name>,
    /// Those who are left of a name that was looked at in part. They come before all that is due.
    rest: Option<(Name, VecDeque<Awaiting>)>,
    /// More are to be looked at at once than were.
    has_more: bool,
}

impl Starts {
    fn run(&mut self, name: Name, running: Running) {
        self.bytes += meta::weight(running.starter.meta.as_ref());
        self.running.insert(name, running);
    }

    fn end(&mut self, name: &Name) -> Option<Running> {
        let running = self.running.remove(name)?;
        self.bytes -= meta::weight(running.starter.meta.as_ref());
        Some(running)
    }

    fn await_start(&mut self, name: Name, awaiting: Awaiting) {
        self.awaited += 1;
        self.bytes += meta::weight(awaiting.starter.meta.as_ref());
        self.awaiting.entry(name).or_default().push(awaiting);
    }

    /// Takes those who are to be looked at next, who wait for one name, and are at most so many.
    fn take_due(&mut self, most: usize) -> Option<(Name, Vec<Awaiting>)> {
        let (name, mut all) = if let Some(rest) = self.rest.take() {
            rest
        } else {
            let name = self.due.pop_first()?;
            let all = self.awaiting.remove(&name).unwrap_or_default();
            (name, all.into())
        };
        let taken: Vec<_> = all.drain(..most.min(all.len())).collect();
        self.awaited -= taken.len();
        self.bytes -= taken.iter().map(|one| meta::weight(one.starter.meta.as_ref())).sum::<usize>();
        self.rest = (!all.is_empty()).then(|| (name.clone(), all));
        Some((name, taken))
    }

    /// How many callers wait, for their own starts and for those of others.
    pub(super) fn count(&self) -> usize {
        self.running.len() + self.awaited
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The start of a name has ended in the log.
    pub(super) fn has_ended(&mut self, name: &Name) {
        if self.awaiting.contains_key(name) && !planted!("start-awaited-for-ever") {
            self.due.insert(name.clone());
        }
    }

    pub(super) fn is_due(&self) -> bool {
        !self.due.is_empty() || self.rest.is_some()
    }

    /// Whether the last look came to its end before all were looked at.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    /// Whether somebody waits for others.
    pub(super) fn is_awaiting(&self) -> bool {
        self.awaited > 0
    }

    /// Whether time has to pass for something to happen.
    pub(super) fn is_waiting(&self) -> bool {
        self.count() > 0
    }
}

/// As much of it as is kept.
pub(super) fn clip(mut reason: String) -> String {
    let fits = (0..=MAX_REASON_BYTES.min(reason.len())).rev().find(|at| reason.is_char_boundary(*at));
    reason.truncate(fits.unwrap_or(0));
    reason
}

/// Tells a caller that it starts nothing. Nothing more will be said of what it asked for.
pub(super) fn refuse_start(call: CallId, error: NotStarted, effects: &mut Vec<Effect>) {
    effects.push(Effect::Forget { claim: call });
    effects.push(Effect::Answer { call, answer: Answer::Started(Err(error)) });
}

fn theirs(call: CallId, entry: Entry, effects: &mut Vec<Effect>) {
    effects.push(Effect::Forget { claim: call });
    effects.push(Effect::Answer { call, answer: Answer::Started(Ok(StartedAs::Theirs(entry))) });
}

impl Host {
    pub(crate) fn start<T: Table>(
        &mut self,
        now: Now,
        caller: Client,
        name: Name,
        starter: Starter,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_busy() {
            return self.owes(Duty::Call(name, Queued::Start { caller, starter: Box::new(starter) }));
        }
        self.start_now(now, caller, name, starter, replica, effects);
    }

    pub(super) fn start_now<T: Table>(
        &mut self,
        now: Now,
        caller: Client,
        name: Name,
        starter: Starter,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let call = caller.call;
        let refused = if let Some(error) = self.refusal_of(&name) {
            Some(error)
        } else if self.is_trusted(now) {
            self.overload(starter.meta.as_ref()).map(|pending| RegisterError::Overloaded { pending })
        } else {
            Some(RegisterError::Lapsed)
        };
        if let Some(error) = refused {
            return refuse_start(call, error.into(), effects);
        }
        if self.is_asked(&name) {
            return self.queued.push(name, Queued::Start { caller, starter: Box::new(starter) });
        }
        // What this node holds while it is trusted nobody else can hold: no need to ask.
        if let Some(claim) = self.claims.get(&name) {
            let token = claim.position;
            if claim.actor.is_none() {
                return self.starts.await_start(name, Awaiting { caller, token, starter });
            }
            let row = replica.row(&name).filter(|row| row.position == token);
            let entry = row.map(|row| row.entry()).or_else(|| self.held_as(claim));
            if let Some(entry) = entry {
                return theirs(call, entry, effects);
            }
        }
        let (on_lapse, on_take) = (starter.on_lapse, starter.on_take);
        let wish = Wish::Register { actor: None, kind: starter.kind, meta: None };
        let (claim, caller, starter) = (Some(call), Some(caller), Some(Box::new(starter)));
        self.ask(Open { name, on_lapse, on_take, claim, caller, starter, ..Open::of(wish) });
    }

    /// The name is granted, and trusted: the start runs. Nobody begins what nobody waits for.
    pub(super) fn run_start(&mut self, now: Time, open: Open, token: Position, effects: &mut Vec<Effect>) {
        let Open { name, claim, starter, on_lapse, on_take, .. } = open;
        let (Some(claim), Some(starter), Some(session)) = (claim, starter, self.session.clone()) else {
            return;
        };
        if open.caller.is_none() {
            effects.push(Effect::Forget { claim });
            let reason = NotStarted::Abandoned.reason();
            return self.give_up(name, token, GivenUp::StartFailed { reason }, None);
        }
        let kind = starter.kind;
        let until = now + starter.limit;
        self.starts.run(name.clone(), Running { claim, starter: *starter, until });
        self.claim(
            name.clone(),
            Claim { id: claim, actor: None, kind, position: token, revision: token, on_lapse, on_take },
        );
        let granted = Granted { token, revision: token, session: session.number, claim };
        effects.push(Effect::Start { name, granted });
    }

    /// Somebody else has the name: it is held, or it is waited for.
    pub(super) fn start_refused<T: Table>(
        &mut self,
        now: Now,
        open: Open,
        holder: Entry,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let Open { name, claim: Some(call), caller, starter: Some(starter), .. } = open else { return };
        let Some(caller) = caller else { return effects.push(Effect::Forget { claim: call }) };
        let token = holder.token;
        if holder.is_starting() {
            self.look_at_start(now, name, Awaiting { caller, token, starter: *starter }, replica, effects);
        } else {
            let row = replica.row(&name).filter(|row| row.position == token && !row.is_starting());
            theirs(call, row.map_or(holder, |row| row.entry()), effects);
        }
    }

    fn look_at_start<T: Table>(
        &mut self,
        now: Now,
        name: Name,
        awaiting: Awaiting,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let token = awaiting.token;
        let is_own =
            self.claims.get(&name).is_some_and(|claim| claim.position == token && claim.actor.is_none());
        let row = replica.row(&name).filter(|row| row.position == token);
        match row {
            Some(row) if !row.is_starting() || planted!("starting-taken-for-held") => {
                theirs(awaiting.caller.call, row.entry(), effects);
            }
            // A replica without a base does not say that nobody holds a name.
            None if replica.is_based() && !is_own => {
                let Awaiting { caller, starter, .. } = awaiting;
                let caller =
                    Client { began: caller.began, ..Client::new(now.time, caller.call, starter.wait) };
                self.start(now, caller, name, starter, replica, effects);
            }
            _ => self.starts.await_start(name, awaiting),
        }
    }

    /// Looks at what is waited for, where it has changed, for as many callers as a step may answer.
    pub(super) fn look_at_starts<T: Table>(
        &mut self,
        now: Now,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let mut room = ANSWERED_AT_ONCE;
        while room > 0
            && !self.is_busy()
            && let Some((name, some)) = self.starts.take_due(room)
        {
            room -= some.len();
            for awaiting in some {
                self.look_at_start(now, name.clone(), awaiting, replica, effects);
            }
        }
        self.starts.has_more = room == 0 && self.starts.is_due();
    }

    /// Many names are freed, or the table is another one: all that is waited for is to be looked at, some names at a time.
    pub(crate) fn many_changed(&mut self) {
        if !planted!("place-of-the-dead-not-seen") {
            self.places.changed();
        }
        if self.starts.is_awaiting() && !planted!("start-awaited-of-the-dead") {
            self.owes(Duty::LookAtStarts(None));
        }
        if self.takes.count() > 0 && !planted!("taken-from-the-dead-missed") {
            self.owes(Duty::LookAtTakes(None));
        }
    }

    /// Has so many names looked at. Returns behind which, if there are more.
    pub(super) fn look_behind(&mut self, behind: Option<&Name>, slice: &mut Slice) -> Option<Name> {
        let begin = behind.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        let names = self.starts.awaiting.range::<Name, _>((begin, std::ops::Bound::Unbounded));
        let names: Vec<Name> = names.map(|(name, _)| name.clone()).take(slice.left()).collect();
        slice.took(names.len());
        let last = names.last().cloned();
        self.starts.due.extend(names);
        last.filter(|_| slice.is_over())
    }

    /// A start has ended: its actor is bound if the claim still stands, and stopped if not.
    pub(crate) fn on_start_ended(
        &mut self,
        now: Now,
        name: Name,
        claim: CallId,
        yielded: Yielded,
        effects: &mut Vec<Effect>,
    ) {
        let running = self.starts.running.get(&name).filter(|running| running.claim == claim);
        let actor = yielded.actor();
        let failed = match running {
            None => {
                if !planted!("late-start-not-stopped") {
                    effects.extend(actor.map(|actor| Effect::Stop { actor }));
                }
                return;
            }
            Some(_) if !self.is_trusted(now) && !planted!("bound-while-lapsed") => Some(NotStarted::Lost),
            Some(running) if now.time >= running.until => {
                Some(NotStarted::TooSlow { limit: running.starter.limit })
            }
            Some(running) => match yielded {
                Yielded::Actor { kind: Some(kind), .. } if kind == running.starter.kind => None,
                Yielded::Actor { .. } => Some(NotStarted::OtherMessages),
                Yielded::Ended => Some(NotStarted::Ended),
                Yielded::Foreign { node } => Some(NotStarted::NotLocal { node }),
                Yielded::Failed { reason } => Some(NotStarted::Failed { reason: clip(reason) }),
                Yielded::Panicked { reason } => Some(NotStarted::Panicked { reason: clip(reason) }),
                Yielded::Abandoned => Some(NotStarted::Abandoned),
            },
        };
        if let Some(error) = failed {
            self.fail_start(&name, error, effects);
            effects.extend(actor.map(|actor| Effect::Stop { actor }));
        } else if let Some(actor) = actor {
            self.bind(now, name, actor, effects);
        }
    }

    fn bind(&mut self, now: Now, name: Name, actor: u64, effects: &mut Vec<Effect>) {
        let Some(Running { claim: id, starter, .. }) = self.starts.end(&name) else { return };
        let Some(claim) = self.claims.get_mut(&name) else { return };
        claim.actor = Some(actor);
        let (position, on_lapse) = (claim.position, claim.on_lapse);
        if !self.by_actor.contains_key(&actor) && !planted!("started-not-watched") {
            effects.push(Effect::Watch { actor });
        }
        self.by_actor.entry(actor).or_default().insert(name.clone());
        let wish = Wish::Bind { position, actor, meta: starter.meta };
        let caller = Some(Client::new(now.time, id, starter.wait));
        self.ask(Open { name, on_lapse, claim: Some(id), caller, ..Open::of(wish) });
    }

    /// What a start yielded is bound, or the row is not there any more.
    pub(super) fn settle_bind(
        &mut self,
        now: Time,
        open: Open,
        (token, actor): (Position, u64),
        verdict: &Verdict,
        effects: &mut Vec<Effect>,
    ) {
        let claim = self.claims.get_mut(&open.name).filter(|claim| claim.position == token);
        let session = self.session.as_ref().map(|session| session.number);
        let answer = match (verdict, claim, session) {
            (Verdict::Granted { token, revision }, Some(claim), Some(session)) => {
                claim.revision = *revision;
                let (claim, token, revision) = (claim.clone(), *token, *revision);
                self.offers.holds(&open.name, &claim);
                self.tell_of_leaving(&claim, effects);
                Ok(StartedAs::Ours(Granted { token, revision, session, claim: claim.id }))
            }
            (_, claim, _) => {
                if claim.is_some() {
                    self.end_claim(&open.name, Some(Notice::Lost), effects);
                }
                if !open.is_orphan {
                    self.unwatch(actor, effects);
                }
                Err(match verdict {
                    _ if open.is_orphan => NotStarted::Ended,
                    // It was bound, and its claim has ended since.
                    Verdict::Granted { .. } => {
                        let waited = open.caller.map(|caller| now.since(caller.began)).unwrap_or_default();
                        RegisterError::Unknown { name: open.name.to_string(), waited }.into()
                    }
                    _ => NotStarted::Lost,
                })
            }
        };
        let is_orphan = answer.is_err() && matches!(verdict, Verdict::Granted { .. });
        if let Some(caller) = open.caller {
            effects.push(Effect::Answer { call: caller.call, answer: Answer::Started(answer) });
        }
        if is_orphan && !planted!("orphan-of-a-start-kept") {
            self.give_up(open.name, token, GivenUp::ActorEnded, None);
        }
    }

    /// A start has failed, or may not go on: its claim is flagged, and the name is given up.
    fn fail_start(&mut self, name: &Name, error: NotStarted, effects: &mut Vec<Effect>) {
        let reason = clip(error.reason());
        let Some(claim) = self.end_start(name, error, effects) else { return };
        self.give_up(name.clone(), claim.position, GivenUp::StartFailed { reason }, None);
    }

    /// Ends the claim of a start that runs. First the claim is flagged, then its caller is told.
    pub(super) fn end_start(
        &mut self,
        name: &Name,
        error: NotStarted,
        effects: &mut Vec<Effect>,
    ) -> Option<Claim> {
        let running = self.starts.end(name)?;
        let claim = self.claims.remove(name)?;
        self.claims_digest ^= digest(name, claim.position);
        if !planted!("lapsed-start-not-flagged") {
            effects.push(Effect::Flag { claim: claim.id });
        }
        refuse_start(running.claim, error, effects);
        Some(claim)
    }

    /// The session is not trusted, or is lost, or the log is: no start goes on. True: there are more than the slice let it end.
    pub(super) fn end_starts(
        &mut self,
        slice: &mut Slice,
        error: impl Fn(&Name) -> NotStarted,
        gives_up: bool,
        effects: &mut Vec<Effect>,
    ) -> bool {
        while !slice.is_over()
            && let Some(name) = self.starts.running.keys().next().cloned()
        {
            slice.took(1);
            if gives_up {
                self.fail_start(&name, error(&name), effects);
            } else {
                self.end_start(&name, error(&name), effects);
            }
        }
        !self.starts.running.is_empty()
    }

    /// Time: starts that are too slow, and who has waited long enough.
    pub(super) fn wake_starts(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if !self.starts.is_waiting() {
            return;
        }
        let slow = self.starts.running.iter().filter(|(_, running)| now >= running.until);
        let slow: Vec<_> = slow.map(|(name, running)| (name.clone(), running.starter.limit)).collect();
        for (name, limit) in slow {
            self.fail_start(&name, NotStarted::TooSlow { limit }, effects);
        }
        let mut over = Vec::new();
        // What is to be looked at may have been started by now.
        let is_due = |name: &Name| self.starts.due.contains(name);
        for (name, all) in self.starts.awaiting.iter_mut().filter(|(name, _)| !is_due(name)) {
            let is_over = |one: &mut Awaiting| now >= one.starter.until;
            over.extend(all.extract_if(.., is_over).map(|one| (name.clone(), one)));
        }
        self.starts.awaiting.retain(|_, all| !all.is_empty());
        for (name, Awaiting { caller, starter, token }) in over {
            self.starts.awaited -= 1;
            self.starts.bytes -= meta::weight(starter.meta.as_ref());
            let (name, waited) = (name.to_string(), now.since(caller.began));
            refuse_start(caller.call, NotStarted::StillStarting { name, token, waited }, effects);
        }
    }

    /// What a name of this node is held as, while its replica does not say so.
    pub(super) fn held_as(&self, claim: &Claim) -> Option<Entry> {
        let session = self.session.as_ref()?;
        Some(Entry {
            node: session.node.clone(),
            incarnation: session.incarnation,
            session: session.number,
            actor: claim.actor,
            kind: claim.kind,
            token: claim.position,
            revision: claim.revision,
            meta: None,
        })
    }
}

/// What whoever asked for a name is told: in the words of a registration, of a start, or of whoever takes one.
pub(super) fn not_registered(wish: &Wish, takes: bool, error: RegisterError) -> Answer {
    match wish {
        _ if takes => Answer::Taken(Err(error.into())),
        Wish::Register { actor: None, .. } | Wish::Bind { .. } => Answer::Started(Err(error.into())),
        _ => Answer::Registered(Err(error)),
    }
}

#[cfg(test)]
mod tests;
