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
mod calls;
mod claims;
mod decided;
mod duties;
mod gives;
mod groups;
mod names;
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
};
use callsign_transport::Kind;

use self::{
    asking::Asking,
    decided::AllDecided,
    duties::{Duties, Duty},
    gives::Gives,
    groups::Places,
    names::ActorNames,
    offers::Offers,
    queued::{Queued, Queues},
    starts::Starts,
    takes::Takes,
    waiting::Look,
};
pub(crate) use self::{
    offers::decline,
    starts::Starter,
    takes::{Disowned, Wanted},
    verdicts::UNANSWERED,
};
pub use crate::core::input::OnTake;
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
pub(crate) struct Client {
    call: CallId,
    began: Time,
    deadline: Time,
}

impl Client {
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
pub(crate) struct MetaChange {
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
    caller: Option<Client>,
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
    by_actor: BTreeMap<u64, ActorNames>,
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

#[cfg(test)]
mod tests;
