//! The host: the names that this node's own actors hold, and what they ask for.
//!
//! A name goes from *asked* (a request with a number, at most one undecided per name) over *decided* (the verdict is
//! here, the replica or the session's trust is not) to *claimed*. A claim is this node's own record; it never puts a
//! row back into the log, and it ends before the name is given up. Whoever was granted a name may act on the claim until it
//! is flagged, which is the first thing that happens to a claim that ends.
//!
//! Promises: exactly one verdict per request; a grant is passed on only in the session that asked, while that is
//! trusted, and when the own replica has it (P1, P4); an actor that ends is unregistered, also when its verdict is
//! still to come.

mod asking;
mod away;
mod decided;
mod duties;
mod gives;
mod groups;
mod offers;
mod queued;
mod reconcile;
mod session;
mod starts;
mod takes;
mod verdicts;
mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use callsign_store::{
    Time,
    ids::{Epoch, NodeName, Position, SessionId},
    planted,
};
use callsign_transport::Kind;

pub use self::gives::OnTake;
use self::{
    asking::Asking,
    decided::AllDecided,
    duties::{Duties, Duty},
    gives::Gives,
    groups::Places,
    offers::Offers,
    queued::{Queued, Queues},
    starts::Starts,
    takes::Takes,
    waiting::Look,
};
pub(crate) use self::{offers::decline, starts::Starter, takes::Wanted};
use crate::{
    core::{
        entry::Entry,
        group::GroupId,
        input::{Answer, CallId, Effect, Event, Granted, Notice, Now, OnLapse},
        message::{Message, Request, Verdict, Wish},
        meta::{self, Meta},
        name::Name,
        replica::{Applied, Replica},
        rows::digest,
        table::{RequestNumber, Row, Table},
        why::GivenUp,
    },
    error::{Elsewhere, NotStarted, RegisterError, UnregisterError, UpdateError},
};

/// A request without a verdict is sent again after so long, in case the leader forgot it. Copies are recognised.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// How many requests may be undecided, or wait for one that is. More are refused at once.
const MAX_UNDECIDED: usize = 100_000;

/// How many bytes of metadata these may bring. More are refused at once.
const MAX_UNDECIDED_BYTES: usize = 64 << 20;

/// A name that an actor of this node holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    /// The call that it began with.
    pub(crate) id: CallId,
    /// None while it is started.
    pub(crate) actor: Option<u64>,
    pub(crate) kind: Kind,
    pub(crate) position: Position,
    /// Where its last change is.
    pub(crate) revision: Position,
    on_lapse: OnLapse,
    on_take: OnTake,
}

/// A client that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    call: CallId,
    began: Time,
    deadline: Time,
}

impl Caller {
    /// One that asks now, and waits so long.
    pub(crate) fn new(now: Time, call: CallId, wait: Duration) -> Self {
        Self { call, began: now, deadline: now + wait }
    }
}

/// Who asks for a name, and what it says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Registrant {
    pub(crate) actor: u64,
    pub(crate) kind: Kind,
    pub(crate) on_lapse: OnLapse,
    pub(crate) on_take: OnTake,
    pub(crate) meta: Option<Meta>,
}

/// What a holder wants to say of itself, if its registration is that of the token, and was changed last at the revision, if that is
/// given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Change {
    pub(crate) token: Position,
    pub(crate) revision: Option<Position>,
    pub(crate) meta: Option<Meta>,
}

/// An undecided request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Open {
    name: Name,
    wish: Wish,
    on_lapse: OnLapse,
    on_take: OnTake,
    /// The call that asked for a name, also when it does not wait any more: what is granted is its claim.
    claim: Option<CallId>,
    caller: Option<Caller>,
    /// Of a name whose actor is yet to be started: how.
    starter: Option<Box<Starter>>,
    /// The epoch whose leader was asked last, and when.
    sent: Option<(Epoch, Time)>,
    /// Its actor ended: what is granted is given up.
    is_orphan: bool,
    /// It takes a name from another actor, and is among the takes, too.
    takes: bool,
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
    /// Boxed: these maps move what they hold.
    undecided: BTreeMap<RequestNumber, Box<Open>>,
    decided: AllDecided,
    /// Of both, the registrations.
    asking: Asking,
    by_name: BTreeMap<Name, RequestNumber>,
    queued: Queues,
    next_number: RequestNumber,
    outbox: BTreeSet<RequestNumber>,
    /// More of it is to be sent at once than was.
    has_more_to_send: bool,
    starts: Starts,
    places: Places,
    takes: Takes,
    gives: Gives,
    offers: Offers,
    /// Whether this member's row said that it is synced, when it was last looked at. Otherwise it takes no name: the others may find
    /// that nobody has a base, and begin with an empty table.
    is_synced: bool,
    is_lapsed: bool,
    differ_since: Option<Time>,
    /// Set when the node is about to leave: who is to be asked for new names.
    turned_away: Option<Vec<Elsewhere>>,
    duties: Duties,
    /// A look at all who wait is under way.
    look: Option<Look>,
}

impl Host {
    pub(crate) fn new() -> Self {
        Self {
            session: None,
            claims: BTreeMap::new(),
            claims_digest: 0,
            by_actor: BTreeMap::new(),
            undecided: BTreeMap::new(),
            decided: AllDecided::default(),
            asking: Asking::default(),
            by_name: BTreeMap::new(),
            queued: Queues::default(),
            next_number: RequestNumber(1),
            outbox: BTreeSet::new(),
            has_more_to_send: false,
            starts: Starts::default(),
            places: Places::default(),
            takes: Takes::default(),
            gives: Gives::default(),
            offers: Offers::default(),
            is_synced: false,
            is_lapsed: false,
            differ_since: None,
            turned_away: None,
            duties: Duties::default(),
            look: None,
        }
    }

    pub(crate) fn claims(&self) -> &BTreeMap<Name, Claim> {
        &self.claims
    }

    /// Differs whenever the claims do that may be acted on.
    #[cfg(feature = "cores")]
    pub(crate) fn claims_digest(&self) -> u64 {
        self.gives.tokens().fold(self.claims_digest, |sum, (name, token)| sum ^ digest(name, token))
    }

    /// The call that an undecided request is for.
    pub(crate) fn call_of(&self, number: RequestNumber) -> Option<CallId> {
        let of_open = |open: &Open| open.caller.map(|caller| caller.call).or(open.claim);
        let open = self.undecided.get(&number).map(|open| of_open(open));
        open.unwrap_or_else(|| self.takes.call_of(number))
    }

    pub(crate) fn session(&self) -> Option<&SessionId> {
        self.session.as_deref()
    }

    pub(crate) fn is_trusted(&self, now: Now) -> bool {
        self.session.as_ref().is_some_and(|session| now.trusted == Some(session.number))
    }

    // ---- calls

    pub(crate) fn register(
        &mut self,
        now: Now,
        caller: Caller,
        name: Name,
        registrant: Registrant,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_busy() {
            // Behind what was to be done before: of the session, say, in which it asks.
            return self.owes(Duty::Call(name, Queued::Register { caller, registrant }));
        }
        self.register_now(now, caller, name, registrant, effects);
    }

    fn register_now(
        &mut self,
        now: Now,
        caller: Caller,
        name: Name,
        registrant: Registrant,
        effects: &mut Vec<Effect>,
    ) {
        let call = caller.call;
        if let Some(error) = self.refusal_of(&name) {
            return refuse(call, error, effects);
        }
        let Some(session) = self.session.clone().filter(|_| self.is_trusted(now)) else {
            return refuse(call, RegisterError::Lapsed, effects);
        };
        if let Some(pending) = self.overload(registrant.meta.as_ref()) {
            return refuse(call, RegisterError::Overloaded { pending }, effects);
        }
        if self.is_asked(&name) {
            return self.queued.push(name, Queued::Register { caller, registrant });
        }
        let Registrant { actor, kind, on_lapse, on_take, meta } = registrant;
        // What this node holds while it is trusted nobody else can hold: no need to ask.
        if let Some(claim) = self.claims.get(&name) {
            if claim.actor == Some(actor) && claim.kind == kind {
                let Claim { position: token, revision, id: claim, .. } = *claim;
                let granted = Granted { token, revision, session: session.number, claim };
                effects.push(Effect::Same { claim, again: call });
                effects.push(Effect::Answer { call, answer: Answer::Registered(Ok(granted)) });
                return;
            }
            if let Some(holder) = self.held_as(claim) {
                return refuse(call, RegisterError::Taken { name: name.to_string(), holder }, effects);
            }
        }
        if !self.by_actor.contains_key(&actor) {
            effects.push(Effect::Watch { actor });
        }
        let open = Open {
            name,
            wish: Wish::Register { actor: Some(actor), kind, meta },
            on_lapse,
            on_take,
            claim: Some(call),
            caller: Some(caller),
            starter: None,
            sent: None,
            is_orphan: false,
            takes: false,
        };
        self.ask(open);
    }

    /// With a token: only if the claim is that of it.
    pub(crate) fn unregister<T: Table>(
        &mut self,
        caller: Caller,
        name: Name,
        token: Option<Position>,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_busy() {
            return self.owes(Duty::Call(name, Queued::Unregister { caller, token }));
        }
        self.unregister_now(caller, name, token, replica, effects);
    }

    fn unregister_now<T: Table>(
        &mut self,
        caller: Caller,
        name: Name,
        token: Option<Position>,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(number) = self.by_name.get(&name) {
            // It is being given up already, because its actor ended: whoever asks for just that waits for the same verdict.
            let open = self
                .undecided
                .get_mut(number)
                .map(|open| &mut **open)
                .or_else(|| self.decided.get_mut(*number));
            if !self.queued.is_waiting(&name)
                && let Some(open) = open
                && open.caller.is_none()
                && matches!(open.wish, Wish::Unregister { .. })
            {
                open.caller = Some(caller);
                return;
            }
        }
        // It may be another's soon.
        if self.is_asked(&name) {
            return self.queued.push(name, Queued::Unregister { caller, token });
        }
        // What is started here is not held yet.
        let is_starting = self.claims.get(&name).is_some_and(|claim| claim.actor.is_none());
        let is_another =
            self.claims.get(&name).is_some_and(|claim| token.is_some_and(|t| t != claim.position));
        let claim = if is_starting || (is_another && !planted!("any-membership-left")) {
            None
        } else if planted!("claim-outlives-unregister") {
            self.claims.get(&name).cloned()
        } else {
            self.end_claim(&name, None, effects)
        };
        let Some(claim) = claim else {
            let answer = not_held(&name, replica.row(&name).as_ref());
            effects.push(Effect::Answer { call: caller.call, answer });
            return;
        };
        self.give_up(name, claim.position, GivenUp::Unregistered, Some(caller));
    }

    pub(crate) fn update<T: Table>(
        &mut self,
        now: Now,
        caller: Caller,
        name: Name,
        change: Change,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_busy() {
            return self.owes(Duty::Call(name, Queued::Update { caller, change }));
        }
        self.update_now(now, caller, name, change, replica, effects);
    }

    fn update_now<T: Table>(
        &mut self,
        now: Now,
        caller: Caller,
        name: Name,
        change: Change,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        let token = change.token;
        let is_held = |claim: &Claim| claim.position == token && claim.actor.is_some();
        let refused = if !self.claims.get(&name).is_some_and(is_held) {
            let holder = replica.row(&name).map(|row| row.holder());
            Some(UpdateError::NotHeld { name: name.to_string(), holder })
        } else if !self.is_trusted(now) {
            Some(UpdateError::Lapsed)
        } else {
            self.overload(change.meta.as_ref()).map(|pending| UpdateError::Overloaded { pending })
        };
        if let Some(error) = refused {
            effects.push(Effect::Answer { call: caller.call, answer: Answer::Updated(Err(error)) });
        } else if self.is_asked(&name) {
            self.queued.push(name, Queued::Update { caller, change });
        } else {
            let Change { token: position, revision, meta } = change;
            let wish = Wish::Update { position, revision, meta };
            self.ask(Open { name, caller: Some(caller), ..Open::of(wish) });
        }
    }

    /// Does what is called for, whose turn has come.
    fn call_now<T: Table>(
        &mut self,
        now: Now,
        name: Name,
        call: Queued,
        replica: &Replica<T>,
        effects: &mut Vec<Effect>,
    ) {
        match call {
            Queued::Register { caller, registrant } => {
                self.register_now(now, caller, name, registrant, effects);
            }
            Queued::Start { caller, starter } => {
                self.start_now(now, caller, name, *starter, replica, effects);
            }
            Queued::Join { caller, group, registrant } => {
                self.join_now(now, caller, &group, registrant, effects);
            }
            Queued::Unregister { caller, token } => {
                self.unregister_now(caller, name, token, replica, effects);
            }
            Queued::Update { caller, change } => {
                self.update_now(now, caller, name, change, replica, effects);
            }
            Queued::Take { caller, wanted } => self.take_now(now, caller, name, wanted, replica, effects),
        }
    }

    /// Whether something of a name is undecided, or on its way: what is called waits for that.
    fn is_asked(&self, name: &Name) -> bool {
        self.by_name.contains_key(name) || self.takes.is_taking(name) || self.gives.is_giving(name)
    }

    /// The names of this node that may be on their way to other actors: nobody acts on their claims.
    #[cfg(feature = "cores")]
    pub(crate) fn is_suspended(&self, name: &Name) -> bool {
        self.gives.is_giving(name)
    }

    /// Whether a take of this number has the data that go with its name.
    #[cfg(feature = "cores")]
    pub(crate) fn has_data(&self, number: RequestNumber) -> bool {
        self.takes.has_data(number)
    }

    /// How many names are taken, or given.
    #[cfg(feature = "cores")]
    pub(crate) fn moves(&self) -> usize {
        self.takes.count() + self.gives.count()
    }

    /// How many requests are undecided, or wait for one that is, if no more may be; or if they bring too much metadata.
    fn overload(&self, meta: Option<&Meta>) -> Option<usize> {
        let asked = self.undecided.len() + self.decided.len();
        let pending = asked + self.queued.count() + self.duties.calls() + self.starts.count();
        let pending = pending + self.takes.count();
        let waiting = self.queued.bytes() + self.duties.bytes() + self.starts.bytes() + self.takes.bytes();
        let bytes = self.asking.bytes() + waiting + meta::weight(meta);
        (pending >= MAX_UNDECIDED || bytes > MAX_UNDECIDED_BYTES).then_some(pending)
    }

    /// Asks the leader to free a name whose claim is dropped already.
    fn give_up(&mut self, name: Name, position: Position, why: GivenUp, caller: Option<Caller>) {
        let wish = Wish::Unregister { position, why };
        self.ask(Open { name, caller, ..Open::of(wish) });
    }

    fn ask(&mut self, open: Open) {
        let number = self.next_number;
        self.next_number = RequestNumber(number.0 + 1);
        self.by_name.insert(open.name.clone(), number);
        self.outbox.insert(number);
        self.asking.begins(&open.wish, number);
        self.undecided.insert(number, Box::new(open));
    }

    fn claim(&mut self, name: Name, claim: Claim) {
        self.claims_digest ^= digest(&name, claim.position);
        if let Some(actor) = claim.actor {
            self.by_actor.entry(actor).or_default().insert(name.clone());
        }
        self.places.begins(&name);
        self.offers.holds(&name, &claim);
        self.claims.insert(name, claim);
    }

    /// Ends a claim: first of all it is flagged, so that nobody acts on it any more. Its actor is stopped or told if there is
    /// something to say.
    fn end_claim(&mut self, name: &Name, say: Option<Notice>, effects: &mut Vec<Effect>) -> Option<Claim> {
        if let Some(started) = self.end_start(name, NotStarted::Lost, effects) {
            return Some(started);
        }
        let claim = self.claims.remove(name)?;
        let is_lost = say.is_some();
        let mut is_flagged = true;
        if is_lost && planted!("lost-claim-not-flagged") {
            is_flagged = false;
        }
        if !is_lost && planted!("freed-claim-not-flagged") {
            is_flagged = false;
        }
        if is_flagged {
            effects.push(Effect::Flag { claim: claim.id });
        }
        // Before it is not watched any more: such an actor is not stopped.
        if let (Some(notice), Some(actor)) = (say, claim.actor) {
            effects.push(match claim.on_lapse {
                OnLapse::Stop => Effect::Stop { actor },
                OnLapse::Suspend => Effect::Notify { actor, claims: vec![claim.id], notice },
            });
        }
        self.end_giving(name, effects);
        self.claims_digest ^= digest(name, claim.position);
        if let Some(actor) = claim.actor
            && let Some(names) = self.by_actor.get_mut(&actor)
        {
            names.remove(name);
            if names.is_empty() {
                self.by_actor.remove(&actor);
                self.unwatch(actor, effects);
            }
        }
        effects.push(Effect::Forget { claim: claim.id });
        Some(claim)
    }

    /// Stops watching an actor, unless it holds or asks for another name.
    fn unwatch(&self, actor: u64, effects: &mut Vec<Effect>) {
        if !self.by_actor.contains_key(&actor)
            && (!self.asking.is_for(actor) || planted!("unwatched-while-asking"))
        {
            effects.push(Effect::Unwatch { actor });
        }
    }

    pub(crate) fn on_actor_ended(&mut self, actor: u64) {
        // Ahead of calls that wait, and of what becomes of the session: as if it were done at once.
        self.owes_first(Duty::ActorEnded { actor, behind: RequestNumber(0) });
    }

    /// The actor of an undecided request has ended.
    fn orphan(&mut self, number: RequestNumber) {
        let open =
            self.undecided.get_mut(&number).map(|open| &mut **open).or_else(|| self.decided.get_mut(number));
        if let Some(open) = open {
            open.is_orphan = !planted!("actor-end-forgotten");
        }
        self.takes.orphan(number);
    }

    /// Whether time has to pass for something to happen.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_asking()
            || self.starts.is_waiting()
            || self.takes.count() + self.gives.count() > 0
            || self.offers.is_waiting()
    }

    /// Whether something is undecided, or waits for what is.
    pub(crate) fn is_asking(&self) -> bool {
        !self.undecided.is_empty() || !self.decided.is_empty() || !self.queued.is_empty() || self.is_busy()
    }
}

/// Tells a caller that it gets no name. Nothing more will be said of what it asked for.
fn refuse(call: CallId, error: RegisterError, effects: &mut Vec<Effect>) {
    effects.push(Effect::Forget { claim: call });
    effects.push(Effect::Answer { call, answer: Answer::Registered(Err(error)) });
}

fn not_held(name: &Name, row: Option<&Row>) -> Answer {
    let holder = row.map(Row::entry);
    Answer::Unregistered(Err(UnregisterError::NotHeldHere { name: name.to_string(), holder }))
}

#[cfg(test)]
mod tests;
