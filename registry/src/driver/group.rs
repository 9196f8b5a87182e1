//! Groups: keys with many members, and how they are reached.

use std::{
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use callsign_store::ids::{Position, SessionId};
use callsign_transport::{ActorAddress, BroadcastError, Broadcasted, PeerId, RemoteMessage};
use ractor::ActorRef;

use crate::{
    core::{
        entry::Entry,
        group::GroupId,
        input::Call,
        meta::Meta,
        name::{Name, check_name},
        rank::rank,
        table::{Row, Standing},
    },
    driver::{
        registration::{HeldClaim, NotHeld, Registration},
        registry::{RegisterOptions, Registry},
        shared::{MemberSeat, TableReader},
    },
    error::{GroupError, LookupError, RegisterError, UnregisterError, WhereisError},
};

/// A key with any number of members, each an actor of some node. Cheap to clone. See [`Registry::group`].
pub struct Group<M> {
    of: Arc<Of>,
    takes: PhantomData<fn() -> M>,
}

/// What all handles of a group share: one count, when one of them is cloned.
struct Of {
    registry: Registry,
    name: Name,
    id: GroupId,
    /// Where [`Strategy::RoundRobin`] is.
    next: AtomicUsize,
}

/// Which member [`Group::pick`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy<'a> {
    /// Members of this node in turn. Where there is none, all in turn.
    LocalFirst,
    /// All members in turn, as this handle and its clones count.
    RoundRobin,
    /// The same member for the same key on every node. When members come and go, few keys are another's than before (rendezvous).
    Key(&'a str),
}

/// An actor's membership of a group. Dropped, the actor stays a member.
#[derive(Clone, Debug)]
pub struct Membership(Joined);

impl Registry {
    /// A group of actors, by its name: `registry.group::<Chat>("room/7")`. It need not exist before, and is nothing to anybody while it
    /// has no members. Names of groups are not names of actors: the two may be the same.
    ///
    /// A membership is granted and kept as a name is: it ends when the actor leaves or ends, or when the node's session ends. All nodes
    /// have the members in the same order, which is that of the log.
    pub fn group<M: RemoteMessage>(&self, name: &str) -> Group<M> {
        let (registry, id, next) = (self.clone(), GroupId::group(name), AtomicUsize::new(0));
        Group { of: Arc::new(Of { registry, name: name.into(), id, next }), takes: PhantomData }
    }
}

/// A group or a semaphore that has members, as [`Registry::groups`] gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupSize {
    /// Its name.
    pub name: Name,
    /// How many of its members hold it, if it is a semaphore. A lock is a semaphore of one.
    pub limit: Option<u32>,
    /// How many members it has, those that wait for a place included.
    pub members: usize,
}

impl Registry {
    /// The groups, semaphores and locks that have members and whose names begin with this, sorted by name, at most `most` of them, by this node's
    /// own replica. A group and a semaphore may have the same name: the group comes first.
    ///
    /// Cost: the number of all groups, and of the members of those that it gives. It is meant for people who look.
    ///
    /// # Errors
    /// As of [`Registry::lookup`].
    pub fn groups(&self, prefix: &str, most: usize) -> Result<Vec<GroupSize>, LookupError> {
        self.groups_after(prefix, None, most)
    }

    /// Those of them that come behind one, which is a semaphore or not.
    pub(crate) fn groups_after(
        &self,
        prefix: &str,
        after: Option<(&str, bool)>,
        most: usize,
    ) -> Result<Vec<GroupSize>, LookupError> {
        let groups = self.read(|table| table.groups(prefix, after, most))?;
        Ok(groups.into_iter().map(|(name, limit, members)| GroupSize { name, limit, members }).collect())
    }
}

impl<M> Clone for Group<M> {
    fn clone(&self) -> Self {
        Self { of: self.of.clone(), takes: PhantomData }
    }
}

impl<M> fmt::Debug for Group<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group").field("name", &self.of.name).finish_non_exhaustive()
    }
}

/// An error, of the group that was asked for in place of the row's name.
pub(super) fn of_group(error: RegisterError, group: &Name) -> RegisterError {
    let group = || group.to_string();
    match error {
        RegisterError::Taken { holder, .. } => RegisterError::Taken { name: group(), holder },
        RegisterError::SessionLost { .. } => RegisterError::SessionLost { name: group() },
        RegisterError::NotPermitted { allowed, .. } => RegisterError::NotPermitted { name: group(), allowed },
        RegisterError::Unknown { waited, .. } => RegisterError::Unknown { name: group(), waited },
        other => other,
    }
}

/// What an actor of this node has of a group.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    /// Under the name of the group, not of the row, which nobody sees and few ask for.
    registration: Registration,
    id: GroupId,
    actor: u64,
}

impl Joined {
    pub(super) fn new(registry: &Registry, group: Name, id: GroupId, actor: u64, held: HeldClaim) -> Self {
        let registration = Registration::new(group, held, registry.shared.clone());
        Self { registration, id, actor }
    }

    pub(super) fn registration(&self) -> &Registration {
        &self.registration
    }

    /// Gives it up, if it is there still, and is of this registration.
    pub(super) async fn withdraw(&self, registry: &Registry) -> Result<Position, UnregisterError> {
        let (node, incarnation) = (registry.node.name.clone(), registry.node.incarnation);
        let session = SessionId { node, incarnation, number: self.registration.session() };
        self.registration.withdraw(self.id.member(&session, self.actor)).await
    }
}

impl<M: RemoteMessage> Group<M> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.of.name
    }

    /// Makes a running actor of this node a member, which says this of itself. Joining again changes nothing, and returns the same token.
    ///
    /// When it returns `Ok`, this node's own [`members`](Self::members) has it. Costs one commit of the store, shared with whatever else
    /// is asked for meanwhile. The actor is stopped when the session lapses; [`join_with`](Self::join_with) has it told instead.
    ///
    /// # Errors
    /// As those of [`Registry::register`]; nobody else can have taken it. After `Unknown` join again, which is safe.
    pub async fn join(&self, actor: &ActorRef<M>, meta: Option<Meta>) -> Result<Membership, RegisterError> {
        let options = RegisterOptions::default();
        self.join_with(actor, meta.into_iter().fold(options, RegisterOptions::meta)).await
    }

    /// As [`join`](Self::join), with options. Nobody takes a membership, whatever they say of that.
    ///
    /// # Errors
    /// The same.
    pub async fn join_with(
        &self,
        actor: &ActorRef<M>,
        options: RegisterOptions,
    ) -> Result<Membership, RegisterError> {
        check_name(&self.of.name)?;
        let (cell, ActorAddress { pid: actor, kind, .. }) =
            (actor.get_cell(), self.of.registry.local(actor)?);
        let group = self.of.id.clone();
        // Nobody takes a membership, whatever the options say.
        let call = |on_lapse, _, meta| Call::Join { group, actor, kind, on_lapse, meta };
        let held = self.of.registry.ask_for(&self.of.name, cell, call, options).await;
        let held = held.map_err(|error| of_group(error, &self.of.name))?;
        let Of { registry, name, id, next: _ } = &*self.of;
        Ok(Membership(Joined::new(registry, name.clone(), id.clone(), actor, held)))
    }

    /// Gives a membership up. Returns the position from which it is no more. A membership that the same actor began later stays.
    ///
    /// # Errors
    /// `NotHeldHere` if it is no more, as far as this node knows. See [`UnregisterError`].
    pub async fn leave(&self, membership: &Membership) -> Result<Position, UnregisterError> {
        membership.0.withdraw(&self.of.registry).await
    }

    /// The members, in the order in which they joined, by this node's own replica: no await, no I/O. Cost: their number.
    ///
    /// # Errors
    /// As those of [`Registry::lookup`].
    pub fn members(&self) -> Result<Vec<Entry>, LookupError> {
        self.known(|table, group| {
            let entry = |(_, seat): (Standing, MemberSeat)| table.with(&seat.name, Row::entry);
            table.members(group).into_iter().filter_map(entry).collect()
        })
    }

    /// How many [`members`](Self::members) there are. Cost: their number, but nothing is copied.
    ///
    /// # Errors
    /// As those of [`Registry::lookup`].
    pub fn count(&self) -> Result<usize, LookupError> {
        self.known(TableReader::member_count)
    }

    /// The members of this node, in their order. One that has just ended is none.
    ///
    /// # Errors
    /// As those of [`Registry::lookup`].
    pub fn local(&self) -> Result<Vec<ActorRef<M>>, LookupError> {
        let seats = self.seats()?.into_iter().filter(|(standing, _)| self.is_here(&standing.session));
        Ok(seats.filter_map(|(standing, seat)| self.reach(&standing.session, seat.actor).ok()).collect())
    }

    /// One member, by a strategy: the first one of its order that can be reached from here.
    ///
    /// # Errors
    /// `NotFound` if the group has no members. `Unreachable` if none of them can be reached. `Lookup` as [`Registry::lookup`].
    pub fn pick(&self, strategy: Strategy<'_>) -> Result<ActorRef<M>, WhereisError> {
        let seats = self.seats()?;
        let mut order: Vec<&(Standing, MemberSeat)> = seats.iter().collect();
        match strategy {
            Strategy::Key(key) => order.sort_by_cached_key(|(standing, seat)| {
                let session = &standing.session;
                let member = format!("{}/{}/{}/{key}", session.node, session.number.0, seat.actor);
                std::cmp::Reverse(rank(&member, 0))
            }),
            Strategy::RoundRobin | Strategy::LocalFirst => {
                let turn = self.of.next.fetch_add(1, Ordering::Relaxed);
                let mut here = order.clone();
                here.retain(|(standing, _)| self.is_here(&standing.session));
                if strategy == Strategy::LocalFirst && !here.is_empty() {
                    let count = here.len();
                    here.rotate_left(turn % count);
                    order.retain(|(standing, _)| !self.is_here(&standing.session));
                    here.append(&mut order);
                    order = here;
                } else if !order.is_empty() {
                    let count = order.len();
                    order.rotate_left(turn % count);
                }
            }
        }
        let mut unreachable = None;
        for (standing, seat) in order {
            match self.reach(&standing.session, seat.actor) {
                Ok(actor) => return Ok(actor),
                Err(source) => unreachable = unreachable.or(Some((seat, source))),
            }
        }
        let name = self.of.name.to_string();
        let Some((seat, source)) = unreachable else { return Err(WhereisError::NotFound { name }) };
        match self.known(|table, _| table.with(&seat.name, Row::entry))? {
            Some(entry) => Err(WhereisError::Unreachable { name, entry: Box::new(entry), source }),
            None => Err(WhereisError::NotFound { name }),
        }
    }

    /// Sends a message to all members, by this node's own replica. It travels once to each node, however many members are there. Nobody
    /// says whether it arrives: a member that ends meanwhile, or whose node is cut off, does not get it.
    ///
    /// # Errors
    /// `NotSent` if the message is one that is to be answered. `Lookup` as of [`Registry::lookup`].
    pub fn broadcast(&self, message: M) -> Result<Broadcasted, GroupError> {
        let to = self.known(TableReader::actors)?;
        let to = to
            .iter()
            .map(|(of, actors)| (PeerId::new(of.node.as_str(), of.incarnation.0), actors.as_slice()));
        let sent: Result<Broadcasted, BroadcastError> =
            self.of.registry.node.endpoint.broadcast(message, to.collect());
        Ok(sent?)
    }

    fn seats(&self) -> Result<Vec<(Standing, MemberSeat)>, LookupError> {
        self.known(TableReader::members)
    }

    /// What the replica says of the group.
    fn known<R>(&self, look: impl FnOnce(&TableReader, &str) -> R) -> Result<R, LookupError> {
        check_name(&self.of.name)?;
        self.of.registry.read(|table| look(table, self.of.id.key()))
    }

    fn is_here(&self, session: &SessionId) -> bool {
        let node = &self.of.registry.node;
        session.incarnation == node.incarnation && session.node == node.name
    }

    fn reach(&self, of: &SessionId, pid: u64) -> Result<ActorRef<M>, callsign_transport::ResolveError> {
        let address = ActorAddress::new(of.node.as_str(), of.incarnation.0, pid, M::kind());
        self.of.registry.node.endpoint.resolve(&address)
    }
}

impl Membership {
    /// The name of the group.
    pub fn group(&self) -> &str {
        self.0.registration.name()
    }

    /// Where in the log the actor joined.
    pub fn token(&self) -> Position {
        self.0.registration.token()
    }

    /// Whether the actor is a member still, as far as this node can say. As [`Registration::check`].
    ///
    /// # Errors
    /// See [`NotHeld`].
    pub fn check(&self) -> Result<(), NotHeld> {
        self.0.registration.check()
    }
}
