//! The members of each group in their order, beside the map: written with it, and read by everyone.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::ControlFlow,
    sync::{Arc, OnceLock},
};

use callsign_store::{
    ids::{Position, SessionId},
    planted,
};
use dashmap::DashMap;
use foldhash::quality::FixedState;
use smallvec::SmallVec;

use super::{Row, TableReader};
use crate::core::{
    group::MembershipName,
    name::Name,
    table::{RequestNumber, Standing},
};

/// What is known of a member beside where it stands.
#[derive(Clone, Debug)]
pub(crate) struct MemberSeat {
    /// The name of its row.
    pub(crate) name: Name,
    /// The actor, among those of its node.
    pub(crate) actor: u64,
}

/// The actors of some members of a group, by their sessions, each in the order of the group.
pub(crate) type Actors = BTreeMap<Arc<SessionId>, Vec<u64>>;

/// One member, behind those of its block that asked before.
#[derive(Debug)]
struct GroupMember {
    request: RequestNumber,
    seat: MemberSeat,
}

/// Members of one session that joined at one position: most often one alone, or many of a batch.
type Block = SmallVec<[GroupMember; 1]>;

/// What all members of a block have in common: their position, their session, and in which range of [`REQUESTS_OF_A_BLOCK`] their requests are.
type At = (Position, Arc<SessionId>, u64);

/// A block has at most so many members. More: whoever leaves moves them all.
const REQUESTS_OF_A_BLOCK: u64 = 256;

fn at(Standing { position, session, request }: Standing) -> (At, RequestNumber) {
    ((position, session, request.0 / REQUESTS_OF_A_BLOCK), request)
}

/// The members of one group, in their order.
#[derive(Debug, Default)]
struct Members {
    blocks: BTreeMap<At, Block>,
    /// The actors of all, hidden ones too, from the first question for them until the group changes: to go over the members takes as long as to
    /// send them a message.
    actors: OnceLock<Arc<Actors>>,
}

impl Members {
    fn insert(&mut self, standing: Standing, seat: MemberSeat) {
        self.actors.take();
        let (at, request) = at(standing);
        let block = self.blocks.entry(at).or_default();
        let member = GroupMember { request, seat };
        match block.binary_search_by_key(&request, |other| other.request) {
            Ok(at) => block[at] = member,
            Err(at) => block.insert(at, member),
        }
    }

    fn remove(&mut self, standing: Standing) {
        self.actors.take();
        let (at, request) = at(standing);
        let Entry::Occupied(mut block) = self.blocks.entry(at) else { return };
        if let Ok(at) = block.get().binary_search_by_key(&request, |other| other.request) {
            block.get_mut().remove(at);
        }
        if block.get().is_empty() {
            block.remove();
        }
    }

    fn actors(&self) -> Arc<Actors> {
        self.actors.get_or_init(|| Arc::new(actors(&mut self.blocks.iter()))).clone()
    }
}

/// Some blocks, in their order.
type SeenBlocks<'a> = dyn Iterator<Item = (&'a At, &'a Block)> + 'a;

fn actors(blocks: &mut SeenBlocks<'_>) -> Actors {
    let mut by_session: BTreeMap<Arc<SessionId>, usize> = BTreeMap::new();
    // Sessions are compared slowly: most are told by where they are kept.
    let mut by_place: BTreeMap<usize, usize> = BTreeMap::new();
    let mut all: Vec<Vec<u64>> = Vec::new();
    for ((_, session, _), block) in blocks {
        let number = *by_place.entry(Arc::as_ptr(session).addr()).or_insert_with(|| {
            *by_session.entry(session.clone()).or_insert_with(|| {
                all.push(Vec::new());
                all.len() - 1
            })
        });
        all[number].extend(block.iter().map(|member| member.seat.actor));
    }
    by_session.into_iter().map(|(session, number)| (session, std::mem::take(&mut all[number]))).collect()
}

/// All groups that have members.
#[derive(Debug)]
pub(super) struct Groups(DashMap<Name, Members, FixedState>);

impl Groups {
    pub(super) fn new(seed: u64) -> Self {
        Self(DashMap::with_hasher(FixedState::with_seed(seed)))
    }

    /// A row is in the table. Nothing, if it is no membership.
    pub(super) fn put(&self, standing: Standing, seat: MemberSeat) {
        let Some(MembershipName { group, .. }) = MembershipName::of(&seat.name) else { return };
        let mut members = match self.0.get_mut(group) {
            Some(members) => members,
            None => self.0.entry(group.into()).or_default(),
        };
        let is_first = || members.blocks.keys().all(|(position, ..)| *position != standing.position);
        if !planted!("one-member-a-batch") || is_first() {
            members.insert(standing, seat);
        }
    }

    /// A row has left it.
    pub(super) fn remove(&self, name: &str, row: &Row) {
        let Some(membership) = MembershipName::of(name) else { return };
        if let Some(mut members) = self.0.get_mut(membership.group) {
            members.remove(Standing::of(row));
        }
        self.0.remove_if(membership.group, |_, members| members.blocks.is_empty());
    }

    pub(super) fn visit(&self, group: &str, see: &mut dyn FnMut(&Name, &Standing) -> ControlFlow<()>) {
        let Some(members) = self.0.get(group) else { return };
        for ((position, session, _), block) in &members.blocks {
            let mut standing =
                Standing { position: *position, session: session.clone(), request: RequestNumber::default() };
            for GroupMember { request, seat } in block {
                standing.request = *request;
                if see(&seat.name, &standing).is_break() {
                    return;
                }
            }
        }
    }

    /// How many groups there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

impl TableReader {
    /// The members of a group, in their order. Cost: their number; what changes the group waits meanwhile.
    pub(crate) fn members(&self, group: &str) -> Vec<(Standing, MemberSeat)> {
        self.seen(group, |seen| {
            let mut members = Vec::new();
            for ((position, session, _), block) in seen {
                members.extend(block.iter().map(|GroupMember { request, seat }| {
                    let (position, session, request) = (*position, session.clone(), *request);
                    (Standing { position, session, request }, seat.clone())
                }));
            }
            members
        })
    }

    /// How many members a group has. Cost: at most their number. Nothing is copied.
    pub(crate) fn member_count(&self, group: &str) -> usize {
        self.seen(group, |seen| seen.map(|(_, block)| block.len()).sum())
    }

    /// The actors of a group. Cost as that of [`members`](Self::members), once after each change of the group.
    pub(crate) fn actors(&self, group: &str) -> Arc<Actors> {
        let rows = &self.0;
        if rows.hides_any() {
            return Arc::new(self.seen(group, |seen| actors(seen)));
        }
        rows.groups.0.get(group).map(|members| members.actors()).unwrap_or_default()
    }

    /// The groups whose names begin so, sorted by name, at most so many, behind one that is a semaphore or not: whether each is a semaphore,
    /// of which limit, and how many members it has. Cost: the number of all groups, and of the members of those that are returned.
    pub(crate) fn groups(
        &self,
        prefix: &str,
        after: Option<(&str, bool)>,
        most: usize,
    ) -> Vec<(Name, Option<u32>, usize)> {
        // The second letter says of which kind it is.
        fn name(key: &str) -> &str {
            key.get(2..).unwrap_or_default()
        }
        let order = |key: &str| (name(key).to_owned(), key.as_bytes().get(1) == Some(&b's'));
        let is_behind = |key: &Name| {
            after.is_none_or(|(after, is_semaphore)| order(key) > (after.to_owned(), is_semaphore))
        };
        let is_wanted = |key: &Name| name(key).starts_with(prefix) && is_behind(key);
        let all = self.0.groups.0.iter();
        let mut keys: Vec<Name> =
            all.filter(|group| is_wanted(group.key())).map(|group| group.key().clone()).collect();
        keys.sort_by_cached_key(|key| order(key));
        let size = |key: Name| {
            let (limit, members) = self.seen(&key, |seen| {
                let Some((_, first)) = seen.next() else { return (None, 0) };
                // All members have the limit of the first one.
                let membership = first.first().and_then(|first| MembershipName::of(&first.seat.name));
                let others: usize = seen.map(|(_, block)| block.len()).sum();
                (membership.and_then(|of| of.limit), first.len() + others)
            });
            (name(&key).into(), limit, members)
        };
        keys.into_iter().map(size).filter(|(_, _, members)| *members > 0).take(most).collect()
    }

    fn seen<R: Default>(&self, group: &str, look: impl FnOnce(&mut SeenBlocks<'_>) -> R) -> R {
        let rows = &self.0;
        let Some(members) = rows.groups.0.get(group) else { return R::default() };
        let is_seen = |((position, session, _), _): &(&At, &Block)| !rows.is_hidden(session, *position);
        look(&mut members.blocks.iter().filter(is_seen))
    }
}
