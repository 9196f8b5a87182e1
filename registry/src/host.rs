//! The host: the names that this node's own actors hold, and what they ask for.
//!
//! A name goes from *asked* (a request with a number, at most one undecided per name) over *decided* (the verdict is
//! here, the replica or the session's trust is not) to *claimed*. A claim is this node's own record; it never puts a
//! row back into the log, and it ends before the name is given up.
//!
//! Promises: exactly one verdict per request; a grant is passed on only in the session that asked, while that is
//! trusted, and when the own replica has it (P1, P4); an actor that ends is unregistered, also when its verdict is
//! still to come.

mod away;
mod verdicts;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use callsign_elector::{
    Time,
    ids::{Epoch, NodeName, Position, SessionId},
};
use callsign_planted::planted;
use callsign_transport::Kind;

use crate::{
    entry::Entry,
    error::{Elsewhere, RegisterError, UnregisterError},
    input::{Answer, CallId, Effect, Event, Notice, Now, OnLapse},
    message::{Message, Request, Verdict, Wish},
    name::Name,
    replica::{Applied, Replica, digest},
    table::{RequestNumber, Row, Table},
};

/// A request without a verdict is sent again after so long, in case the leader forgot it. Copies are recognised.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// How many requests may be undecided, or wait for one that is. More are refused at once.
const MAX_UNDECIDED: usize = 100_000;

/// How long claims and the log may differ before it is looked into: what is on the way makes them differ.
const DIFFER_FOR: Duration = Duration::from_secs(1);

/// A name that an actor of this node holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    pub(crate) actor: u64,
    pub(crate) kind: Kind,
    pub(crate) position: Position,
    on_lapse: OnLapse,
}

/// A client that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Caller {
    call: CallId,
    began: Time,
    deadline: Time,
}

/// An undecided request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Open {
    name: Name,
    wish: Wish,
    on_lapse: OnLapse,
    caller: Option<Caller>,
    /// The epoch whose leader was asked last, and when.
    sent: Option<(Epoch, Time)>,
    /// Its actor ended: what is granted is given up.
    is_orphan: bool,
}

/// A verdict whose time has not come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Decided {
    number: RequestNumber,
    open: Open,
    verdict: Verdict,
    position: Position,
}

/// A call that waits for another one on the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Queued {
    Register { caller: Caller, actor: u64, kind: Kind, on_lapse: OnLapse },
    Unregister { caller: Caller },
}

/// What a host needs to know of its surroundings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Surroundings<'a> {
    /// The epoch and its leader, if it can be reached from here.
    pub(crate) leader: Option<(Epoch, &'a NodeName)>,
    /// Whether this member's row says that it is synced.
    pub(crate) is_synced: bool,
    /// Whether somebody leads, reachable or not.
    pub(crate) has_leader: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    session: Option<Arc<SessionId>>,
    claims: BTreeMap<Name, Claim>,
    claims_digest: u64,
    by_actor: BTreeMap<u64, BTreeSet<Name>>,
    undecided: BTreeMap<RequestNumber, Open>,
    decided: Vec<Decided>,
    by_name: BTreeMap<Name, RequestNumber>,
    queued: BTreeMap<Name, VecDeque<Queued>>,
    next_number: RequestNumber,
    outbox: BTreeSet<RequestNumber>,
    is_lapsed: bool,
    differ_since: Option<Time>,
    /// Set when the node is about to leave: who is to be asked for new names.
    turned_away: Option<Vec<Elsewhere>>,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self {
            session: None,
            claims: BTreeMap::new(),
            claims_digest: 0,
            by_actor: BTreeMap::new(),
            undecided: BTreeMap::new(),
            decided: Vec::new(),
            by_name: BTreeMap::new(),
            queued: BTreeMap::new(),
            next_number: RequestNumber(1),
            outbox: BTreeSet::new(),
            is_lapsed: false,
            differ_since: None,
            turned_away: None,
        }
    }

    pub(crate) fn claims(&self) -> &BTreeMap<Name, Claim> {
        &self.claims
    }

    /// Differs whenever the claims do.
    #[cfg(feature = "cores")]
    pub(crate) fn claims_digest(&self) -> u64 {
        self.claims_digest
    }

    #[cfg(any(test, feature = "cores"))]
    pub(crate) fn session(&self) -> Option<&SessionId> {
        self.session.as_deref()
    }

    fn is_trusted(&self, now: Now) -> bool {
        self.session.as_ref().is_some_and(|session| now.trusted == Some(session.number))
    }

    // ---- the session

    pub(crate) fn on_session_opened(&mut self, session: SessionId) {
        self.session = Some(Arc::new(session));
        self.is_lapsed = false;
    }

    pub(crate) fn on_session_lapsed(&mut self, effects: &mut Vec<Effect>) {
        if std::mem::replace(&mut self.is_lapsed, true) {
            return;
        }
        for (actor, on_lapse) in self.actors() {
            effects.push(match on_lapse {
                OnLapse::Stop => Effect::Stop { actor },
                OnLapse::Suspend => Effect::Notify { actor, notice: Notice::Lapsed },
            });
        }
    }

    pub(crate) fn on_session_resumed(&mut self, effects: &mut Vec<Effect>) {
        if !std::mem::replace(&mut self.is_lapsed, false) {
            return;
        }
        for (actor, on_lapse) in self.actors() {
            if on_lapse == OnLapse::Suspend {
                effects.push(Effect::Notify { actor, notice: Notice::Resumed });
            }
        }
    }

    pub(crate) fn on_session_lost(&mut self, now: Time, effects: &mut Vec<Effect>) {
        for (actor, on_lapse) in self.actors() {
            effects.push(match on_lapse {
                OnLapse::Stop => Effect::Stop { actor },
                OnLapse::Suspend => Effect::Notify { actor, notice: Notice::Lost },
            });
        }
        let mut watched: BTreeSet<u64> = std::mem::take(&mut self.by_actor).into_keys().collect();
        let asking = self.undecided.values().chain(self.decided.iter().map(|d| &d.open));
        watched.extend(asking.filter_map(|open| match open.wish {
            Wish::Register { actor, .. } => Some(actor),
            Wish::Unregister { .. } => None,
        }));
        effects.extend(watched.into_iter().map(|actor| Effect::Unwatch { actor }));
        if !planted!("lost-session-keeps-claims") {
            self.claims.clear();
            self.claims_digest = 0;
        }
        if planted!("foreign-session-verdict") {
            self.next_number = RequestNumber(1);
        }
        self.by_name.clear();
        self.outbox.clear();
        self.session = None;
        let undecided = std::mem::take(&mut self.undecided).into_values();
        let decided = std::mem::take(&mut self.decided).into_iter().map(|d| d.open);
        for open in undecided.chain(decided) {
            let Some(caller) = open.caller else { continue };
            let name = open.name.to_string();
            let answer = match open.wish {
                Wish::Register { .. } => Answer::Registered(Err(RegisterError::SessionLost { name })),
                // The end of the session frees it, and that is not in the log yet.
                Wish::Unregister { .. } => Answer::Unregistered(Err(UnregisterError::Pending {
                    name,
                    waited: now.since(caller.began),
                })),
            };
            effects.push(Effect::Answer { call: caller.call, answer });
        }
        for (name, queued) in std::mem::take(&mut self.queued) {
            for call in queued {
                let (caller, answer) = match call {
                    Queued::Register { caller, .. } => (
                        caller,
                        Answer::Registered(Err(RegisterError::SessionLost { name: name.to_string() })),
                    ),
                    Queued::Unregister { caller } => (caller, not_held(&name, None)),
                };
                effects.push(Effect::Answer { call: caller.call, answer });
            }
        }
    }

    /// Each actor with a claim, and the milder of its wishes: an actor that wants to be told is told.
    fn actors(&self) -> BTreeMap<u64, OnLapse> {
        let mut actors = BTreeMap::new();
        for claim in self.claims.values() {
            let on_lapse = actors.entry(claim.actor).or_insert(claim.on_lapse);
            if claim.on_lapse == OnLapse::Suspend {
                *on_lapse = OnLapse::Suspend;
            }
        }
        actors
    }

    // ---- calls

    #[allow(clippy::too_many_arguments)] // a call is what it is
    pub(crate) fn register(
        &mut self,
        now: Now,
        call: CallId,
        wait: Duration,
        name: Name,
        actor: u64,
        kind: Kind,
        on_lapse: OnLapse,
        effects: &mut Vec<Effect>,
    ) {
        let caller = Caller { call, began: now.time, deadline: now.time + wait };
        self.begin_register(now, caller, name, actor, kind, on_lapse, effects);
    }

    #[allow(clippy::too_many_arguments)]
    fn begin_register(
        &mut self,
        now: Now,
        caller: Caller,
        name: Name,
        actor: u64,
        kind: Kind,
        on_lapse: OnLapse,
        effects: &mut Vec<Effect>,
    ) {
        let mut refuse = |error| {
            effects.push(Effect::Answer { call: caller.call, answer: Answer::Registered(Err(error)) });
        };
        if let Some(error) = self.refusal_of(&name) {
            return refuse(error);
        }
        let Some(session) = self.session.clone().filter(|_| self.is_trusted(now)) else {
            return refuse(RegisterError::Lapsed);
        };
        let pending = self.undecided.len() + self.decided.len() + self.waiting_calls();
        if pending >= MAX_UNDECIDED {
            return refuse(RegisterError::Overloaded { pending });
        }
        if self.by_name.contains_key(&name) {
            let queued = Queued::Register { caller, actor, kind, on_lapse };
            self.queued.entry(name).or_default().push_back(queued);
            return;
        }
        // What this node holds while it is trusted nobody else can hold: no need to ask.
        if let Some(claim) = self.claims.get(&name) {
            let answer = if claim.actor == actor && claim.kind == kind {
                Ok((claim.position, session.number))
            } else {
                let holder = Entry {
                    node: session.node.clone(),
                    incarnation: session.incarnation,
                    session: session.number,
                    actor: claim.actor,
                    kind: claim.kind,
                    token: claim.position,
                };
                Err(RegisterError::Taken { name: name.to_string(), holder })
            };
            effects.push(Effect::Answer { call: caller.call, answer: Answer::Registered(answer) });
            return;
        }
        if !self.by_actor.contains_key(&actor) {
            effects.push(Effect::Watch { actor });
        }
        let open = Open {
            name,
            wish: Wish::Register { actor, kind },
            on_lapse,
            caller: Some(caller),
            sent: None,
            is_orphan: false,
        };
        self.ask(open);
    }

    /// How many calls wait for another one on the same name.
    fn waiting_calls(&self) -> usize {
        self.queued.values().map(VecDeque::len).sum()
    }

    pub(crate) fn unregister<T: Table>(
        &mut self,
        now: Now,
        call: CallId,
        wait: Duration,
        name: Name,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let caller = Caller { call, began: now.time, deadline: now.time + wait };
        self.begin_unregister(caller, name, replica, effects);
    }

    fn begin_unregister<T: Table>(
        &mut self,
        caller: Caller,
        name: Name,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if self.by_name.contains_key(&name) {
            self.queued.entry(name).or_default().push_back(Queued::Unregister { caller });
            return;
        }
        let claim = if planted!("claim-outlives-unregister") {
            self.claims.get(&name).cloned()
        } else {
            self.drop_claim(&name, effects)
        };
        let Some(claim) = claim else {
            let answer = not_held(&name, replica.table().row(&name).as_ref());
            effects.push(Effect::Answer { call: caller.call, answer });
            return;
        };
        self.give_up(name, claim.position, Some(caller));
    }

    /// Asks the leader to free a name whose claim is dropped already.
    fn give_up(&mut self, name: Name, position: Position, caller: Option<Caller>) {
        let wish = Wish::Unregister { position };
        self.ask(Open { name, wish, on_lapse: OnLapse::Stop, caller, sent: None, is_orphan: false });
    }

    fn ask(&mut self, open: Open) {
        let number = self.next_number;
        self.next_number = RequestNumber(number.0 + 1);
        self.by_name.insert(open.name.clone(), number);
        self.outbox.insert(number);
        self.undecided.insert(number, open);
    }

    fn claim(&mut self, name: Name, claim: Claim) {
        self.claims_digest ^= digest(&name, claim.position);
        self.by_actor.entry(claim.actor).or_default().insert(name.clone());
        self.claims.insert(name, claim);
    }

    fn drop_claim(&mut self, name: &Name, effects: &mut Vec<Effect>) -> Option<Claim> {
        let claim = self.claims.remove(name)?;
        self.claims_digest ^= digest(name, claim.position);
        if let Some(names) = self.by_actor.get_mut(&claim.actor) {
            names.remove(name);
            if names.is_empty() {
                self.by_actor.remove(&claim.actor);
                self.unwatch(claim.actor, effects);
            }
        }
        Some(claim)
    }

    /// Stops watching an actor, unless it holds or asks for another name.
    fn unwatch(&self, actor: u64, effects: &mut Vec<Effect>) {
        if !self.by_actor.contains_key(&actor) && !self.is_asking_for(actor) {
            effects.push(Effect::Unwatch { actor });
        }
    }

    pub(crate) fn on_actor_ended(&mut self, actor: u64, effects: &mut Vec<Effect>) {
        let names: Vec<Name> = self.by_actor.get(&actor).into_iter().flatten().cloned().collect();
        for name in names {
            let Some(claim) = self.drop_claim(&name, effects) else { continue };
            // Another request on a claimed name is an unregister already.
            if !self.by_name.contains_key(&name) {
                self.give_up(name, claim.position, None);
            }
        }
        let of_actor = |open: &&mut Open| matches!(open.wish, Wish::Register { actor: a, .. } if a == actor);
        let decided = self.decided.iter_mut().map(|d| &mut d.open);
        for open in self.undecided.values_mut().chain(decided).filter(of_actor) {
            open.is_orphan = !planted!("actor-end-forgotten");
        }
    }

    // ---- what the log says

    /// Rows of this node that the log freed: a claim on one is lost.
    pub(crate) fn on_applied(&mut self, applied: &Applied, effects: &mut Vec<Effect>) {
        for (name, row) in &applied.own_freed {
            let is_ours = self.session.as_deref() == Some(&*row.session);
            if is_ours && self.claims.get(name).is_some_and(|claim| claim.position == row.position) {
                self.lose(name, effects);
            }
        }
    }

    fn lose(&mut self, name: &Name, effects: &mut Vec<Effect>) {
        let Some(claim) = self.claims.get(name) else { return };
        if planted!("claim-puts-row-back") {
            if !self.by_name.contains_key(name) {
                let wish = Wish::Register { actor: claim.actor, kind: claim.kind };
                let (name, on_lapse) = (name.clone(), claim.on_lapse);
                self.ask(Open { name, wish, on_lapse, caller: None, sent: None, is_orphan: false });
            }
            return;
        }
        // Before it is dropped: who is not watched any more is not told.
        effects.push(match claim.on_lapse {
            OnLapse::Stop => Effect::Stop { actor: claim.actor },
            OnLapse::Suspend => Effect::Notify { actor: claim.actor, notice: Notice::Lost },
        });
        self.drop_claim(name, effects);
        effects.push(Effect::Event(Event::ClaimLost { name: name.clone() }));
    }

    /// The log that had the claims is lost, and with it what it decided: that is asked again, as something new.
    pub(crate) fn drop_all_claims(&mut self, effects: &mut Vec<Effect>) {
        for name in self.claims.keys().cloned().collect::<Vec<_>>() {
            self.lose(&name, effects);
        }
        for one in std::mem::take(&mut self.decided) {
            self.ask(one.open);
        }
    }

    /// Compares the claims with the log: first their digests, and, if these differ for a while, name by name.
    fn compare<T: Table>(&mut self, now: Time, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        let Some(session) = self.session.clone() else { return };
        let held = replica.sessions().get(&*session);
        let log = held.map_or((0, 0), |held| (held.names, held.digest));
        let is_quiet = self.undecided.is_empty() && self.decided.is_empty();
        if !is_quiet || log == (self.claims.len() as u64, self.claims_digest) {
            self.differ_since = None;
            return;
        }
        let since = *self.differ_since.get_or_insert(now);
        if now.since(since) < DIFFER_FOR {
            return;
        }
        self.differ_since = None;
        for name in replica.table().names_of(&session) {
            let Some(row) = replica.table().row(&name) else { continue };
            if self.claims.get(&name).is_none_or(|claim| claim.position != row.position)
                && !planted!("orphan-not-given-up")
            {
                effects.push(Effect::Event(Event::Orphan { name: name.clone() }));
                self.give_up(name, row.position, None);
            }
        }
        let has_row = |name: &Name, claim: &Claim| {
            replica.table().row(name).is_some_and(|r| r.position == claim.position && *r.session == *session)
        };
        let lost: Vec<Name> = self
            .claims
            .iter()
            .filter(|(name, claim)| !has_row(name, claim))
            .map(|(n, _)| n.clone())
            .collect();
        for name in lost {
            self.lose(&name, effects);
        }
    }

    // ---- time

    pub(crate) fn on_wake<T: Table>(
        &mut self,
        now: Now,
        around: Surroundings<'_>,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let time = now.time;
        let mut withdrawn = Vec::new();
        for (number, open) in &mut self.undecided {
            if open.sent.is_some_and(|(_, at)| time.since(at) >= ASK_AGAIN)
                && !planted!("not-asked-again-in-new-epoch")
            {
                self.outbox.insert(*number);
            }
            if let Some(caller) = open.caller.filter(|caller| time >= caller.deadline) {
                // What was sent goes on: only its caller does not wait for it any more.
                open.caller = None;
                let answer = expired(open, caller, time, around);
                effects.push(Effect::Answer { call: caller.call, answer });
                if open.sent.is_none() && matches!(open.wish, Wish::Register { .. }) {
                    withdrawn.push(*number);
                }
            }
        }
        for number in withdrawn {
            self.withdraw(now, number, replica, effects);
        }
        for one in &mut self.decided {
            if let Some(caller) = one.open.caller.filter(|caller| time >= caller.deadline) {
                one.open.caller = None;
                let answer = expired(&one.open, caller, time, around);
                effects.push(Effect::Answer { call: caller.call, answer });
            }
        }
        for (name, queued) in &mut self.queued {
            queued.retain(|call| {
                let (caller, answer) = match call {
                    // Another request of this node on the same name is undecided.
                    Queued::Register { caller, .. } => (
                        caller,
                        Answer::Registered(Err(RegisterError::Unknown {
                            name: name.to_string(),
                            waited: time.since(caller.began),
                        })),
                    ),
                    Queued::Unregister { caller } => (
                        caller,
                        Answer::Unregistered(Err(UnregisterError::Pending {
                            name: name.to_string(),
                            waited: time.since(caller.began),
                        })),
                    ),
                };
                let is_over = time >= caller.deadline;
                if is_over {
                    effects.push(Effect::Answer { call: caller.call, answer });
                }
                !is_over
            });
        }
        self.queued.retain(|_, queued| !queued.is_empty());
        if around.is_synced {
            self.compare(time, replica, effects);
        }
    }

    /// Takes back a register that was never sent, so that its caller can be told so.
    fn withdraw<T: Table>(
        &mut self,
        now: Now,
        number: RequestNumber,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(open) = self.undecided.remove(&number) else { return };
        self.outbox.remove(&number);
        self.by_name.remove(&open.name);
        if let Wish::Register { actor, .. } = open.wish {
            self.unwatch(actor, effects);
        }
        self.next_queued(now, &open.name, replica, effects);
    }

    /// Whether time has to pass for something to happen.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.undecided.is_empty() || !self.decided.is_empty() || !self.queued.is_empty()
    }
}

fn not_held(name: &Name, row: Option<&Row>) -> Answer {
    let holder = row.map(Row::entry);
    Answer::Unregistered(Err(UnregisterError::NotHeldHere { name: name.to_string(), holder }))
}

fn expired(open: &Open, caller: Caller, now: Time, around: Surroundings<'_>) -> Answer {
    let (name, waited) = (open.name.to_string(), now.since(caller.began));
    match open.wish {
        Wish::Unregister { .. } => Answer::Unregistered(Err(UnregisterError::Pending { name, waited })),
        Wish::Register { .. } if planted!("unknown-taken-for-no") => {
            Answer::Registered(Err(RegisterError::NoLeader))
        }
        Wish::Register { .. } if open.sent.is_some() => {
            Answer::Registered(Err(RegisterError::Unknown { name, waited }))
        }
        Wish::Register { .. } if !around.is_synced => Answer::Registered(Err(RegisterError::NotSynced)),
        Wish::Register { .. } if !around.has_leader => Answer::Registered(Err(RegisterError::NoLeader)),
        Wish::Register { .. } => Answer::Registered(Err(RegisterError::Unknown { name, waited })),
    }
}
