//! The members of each group in their order, beside the map: written with it, and read by everyone.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Arc, OnceLock},
};

use callsign_store::{ids::SessionId, planted};
use dashmap::DashMap;
use foldhash::quality::FixedState;

use super::{Row, TableReader};
use crate::core::{
    group::{Membership, Standing},
    name::Name,
};

/// What is known of a member beside where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    /// The name of its row.
    pub(crate) name: Name,
    /// The actor, among those of its node.
    pub(crate) actor: u64,
}

/// The actors of some members of a group, by their sessions, each in the order of the group.
pub(crate) type Actors = BTreeMap<Arc<SessionId>, Vec<u64>>;

/// The members of one group.
#[derive(Debug, Default)]
struct Members {
    ordered: BTreeMap<Standing, Seat>,
    /// The actors of all, hidden ones too, from the first question for them until the group changes: to go over the members takes as long as to
    /// send them a message.
    actors: OnceLock<Arc<Actors>>,
}

impl Members {
    fn insert(&mut self, standing: Standing, seat: Seat) {
        self.actors.take();
        self.ordered.insert(standing, seat);
    }

    fn remove(&mut self, standing: &Standing) {
        self.actors.take();
        self.ordered.remove(standing);
    }

    fn actors(&self) -> Arc<Actors> {
        self.actors.get_or_init(|| Arc::new(actors(&mut self.ordered.iter()))).clone()
    }
}

fn actors(members: &mut dyn Iterator<Item = (&Standing, &Seat)>) -> Actors {
    let mut by_session: BTreeMap<Arc<SessionId>, usize> = BTreeMap::new();
    // Sessions are compared slowly: most are told by where they are kept.
    let mut by_place: BTreeMap<usize, usize> = BTreeMap::new();
    let mut all: Vec<Vec<u64>> = Vec::new();
    for (Standing { session, .. }, Seat { actor, .. }) in members {
        let number = *by_place.entry(Arc::as_ptr(session).addr()).or_insert_with(|| {
            *by_session.entry(session.clone()).or_insert_with(|| {
                all.push(Vec::new());
                all.len() - 1
            })
        });
        all[number].push(*actor);
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
    pub(super) fn put(&self, name: &Name, row: &Row) {
        let Some(membership) = Membership::of(name) else { return };
        let seat = Seat { name: name.clone(), actor: row.actor };
        let add = |members: &mut Members| {
            let standing = Standing::of(row);
            if planted!("one-member-a-batch")
                && members.ordered.keys().any(|other| other.position == standing.position)
            {
                return;
            }
            members.insert(standing, seat);
        };
        match self.0.get_mut(membership.group) {
            Some(mut members) => add(&mut members),
            None => add(&mut self.0.entry(membership.group.into()).or_default()),
        }
    }

    /// A row has left it.
    pub(super) fn remove(&self, name: &str, row: &Row) {
        let Some(membership) = Membership::of(name) else { return };
        if let Some(mut members) = self.0.get_mut(membership.group) {
            members.remove(&Standing::of(row));
        }
        self.0.remove_if(membership.group, |_, members| members.ordered.is_empty());
    }

    pub(super) fn visit(&self, group: &str, see: &mut dyn FnMut(&Name, &Standing) -> ControlFlow<()>) {
        let Some(members) = self.0.get(group) else { return };
        let _ = members.ordered.iter().try_for_each(|(standing, seat)| see(&seat.name, standing));
    }

    /// How many groups there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

impl TableReader {
    /// The members of a group, in their order. Cost: their number; what changes the group waits meanwhile.
    pub(crate) fn members(&self, group: &str) -> Vec<(Standing, Seat)> {
        self.seen(group, |seen| seen.map(|(standing, seat)| (standing.clone(), seat.clone())).collect())
    }

    /// How many members a group has. Cost as that of [`members`](Self::members), without a copy of any.
    pub(crate) fn member_count(&self, group: &str) -> usize {
        self.seen(group, |seen| seen.count())
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
                let limit = seen.next().map(|(_, seat)| Membership::of(&seat.name).and_then(|of| of.limit));
                // All members have the limit of the first one.
                limit.map_or((None, 0), |limit| (limit, 1 + seen.count()))
            });
            (name(&key).into(), limit, members)
        };
        keys.into_iter().map(size).filter(|(_, _, members)| *members > 0).take(most).collect()
    }

    fn seen<R: Default>(
        &self,
        group: &str,
        look: impl FnOnce(&mut dyn Iterator<Item = (&Standing, &Seat)>) -> R,
    ) -> R {
        let rows = &self.0;
        let Some(members) = rows.groups.0.get(group) else { return R::default() };
        let is_seen =
            |(standing, _): &(&Standing, &Seat)| !rows.is_hidden(&standing.session, standing.position);
        look(&mut members.ordered.iter().filter(is_seen))
    }
}
