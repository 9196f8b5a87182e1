//! The table that everyone on the node reads: a `DashMap` that one member writes.

mod complete;
mod groups;
#[cfg(test)]
mod racing;

use std::{
    collections::BTreeMap,
    ops::{Bound, ControlFlow},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use callsign_store::{
    ids::{Position, SessionId},
    lock::lock,
};
use crossbeam_skiplist::SkipSet;
use dashmap::{DashMap, mapref::one::Ref};
use foldhash::quality::FixedState;

use self::{complete::Changes, groups::Groups};
pub(crate) use self::{complete::Complete, groups::MemberSeat};
use crate::core::{
    entry::Entry,
    name::{Name, RESERVED},
    select::Select,
    table::{Row, Slot, Standing, Table},
};

// Seeded by the node's entropy, so that nobody outside can guess it; about three times as fast as the standard hasher.
type Map = DashMap<Name, Row, FixedState>;

/// A part of the map that grows moves all its rows at once, thirty thousand of a million. More parts: a lookup finds fewer of their
/// locks in the processor's cache.
const SHARDS: usize = 32;

/// No batch is there. A replica hides the rows below it that it gives up for those of a snapshot; the log does not say that they are gone.
const PAST_ALL: Position = Position(u64::MAX);

/// The rows, and which of them nobody may see any more.
#[derive(Debug)]
struct SharedRows {
    map: Map,
    /// All names of the map in their order, if that is kept. A name that is found in it alone is being written, or was removed.
    order: Option<SkipSet<Name>>,
    /// The memberships of the map, by group.
    groups: Groups,
    /// Sessions whose rows below a position are gone, and may still be in the map.
    hidden: Mutex<Vec<(SessionId, Position)>>,
    /// How many rows these are.
    unseen: AtomicUsize,
    /// Whether there are such sessions.
    hides: AtomicBool,
    /// Whether these are all rows of a prefix of the log.
    changes: Changes,
}

impl SharedRows {
    fn new(seed: u64, ordered: bool) -> Self {
        let map = Map::with_hasher_and_shard_amount(FixedState::with_seed(seed), SHARDS);
        let (unseen, hides) = (AtomicUsize::new(0), AtomicBool::new(false));
        let order = ordered.then(SkipSet::new);
        let (groups, changes) = (Groups::new(seed), Changes::default());
        Self { map, order, groups, hidden: Mutex::default(), unseen, hides, changes }
    }

    fn hides(&self, row: &Row) -> bool {
        self.is_hidden(&row.session, row.position)
    }

    /// Whether nobody may see a row of this session and this position.
    fn is_hidden(&self, session: &SessionId, position: Position) -> bool {
        self.hides_any() && self.is_listed_as_hidden(session, position)
    }

    /// Whether somebody's rows are hidden: all that a reader looks at, as a rule.
    fn hides_any(&self) -> bool {
        self.hides.load(Ordering::Acquire)
    }

    #[cold]
    fn is_listed_as_hidden(&self, session: &SessionId, position: Position) -> bool {
        let is_of = |(of, below): &(SessionId, Position)| position < *below && *session == *of;
        lock(&self.hidden).iter().any(is_of)
    }

    /// A row is no more in the map.
    fn removed(&self, row: Option<&Row>) {
        if row.is_some_and(|row| self.hides(row)) {
            self.unseen.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The writer's side. There is one, inside the member.
#[derive(Debug)]
pub(crate) struct SharedTable(Arc<SharedRows>);

/// The readers' side. Reading costs one lookup in a map: no mailbox, no await.
#[derive(Clone, Debug)]
pub(crate) struct TableReader(Arc<SharedRows>);

impl SharedTable {
    /// An empty table, in which the order of what is not sorted follows from the seed. `ordered`: whether names are kept sorted.
    pub(crate) fn new(seed: u64, ordered: bool) -> Self {
        Self(Arc::new(SharedRows::new(seed, ordered)))
    }

    pub(crate) fn reader(&self) -> TableReader {
        TableReader(self.0.clone())
    }
}

impl SharedTable {
    /// Such a name is in no order: nobody selects it.
    fn put_membership(&mut self, name: Name, row: Row) -> Option<Row> {
        let (standing, seat) = (Standing::of(&row), MemberSeat { name: name.clone(), actor: row.actor });
        let former = self.0.map.insert(name, row);
        // In this order: one that is put again stands where it stood.
        self.0.removed(former.as_ref());
        if let Some(former) = &former {
            self.0.groups.remove(&seat.name, former);
        }
        self.0.groups.put(standing, seat);
        former
    }
}

impl TableReader {
    /// Says that the rows are complete, if they are. A reader that misses a row believes that only if this was the same before and after.
    #[inline]
    pub(crate) fn complete(&self) -> Option<Complete> {
        self.0.changes.get()
    }

    /// The member says so at the end of each of its turns. That they are not, the table says itself as soon as it hides them.
    pub(crate) fn set_complete(&self, are_complete: bool) {
        self.0.changes.set(are_complete);
    }

    /// The writer's side, for tests that do what a member does.
    #[cfg(test)]
    pub(crate) fn writer(&self) -> SharedTable {
        SharedTable(self.0.clone())
    }

    /// The row of a name. Its shard is locked for reading until the row is dropped: copy out what you want of it, and wait for nothing.
    #[inline]
    pub(crate) fn get(&self, name: &str) -> Option<Ref<'_, Name, Row>> {
        self.0.map.get(name).filter(|row| !self.0.hides(row))
    }

    /// Looks at one row, and copies out what `look` wants of it.
    pub(crate) fn with<R>(&self, name: &str, look: impl FnOnce(&Row) -> R) -> Option<R> {
        self.get(name).map(|row| look(row.value()))
    }

    pub(crate) fn count(&self) -> usize {
        self.0.map.len().saturating_sub(self.0.unseen.load(Ordering::Acquire))
    }

    /// The names that are looked for, in the order of their bytes; and whether there are more. Each is as it was at some moment.
    pub(crate) fn select(&self, select: &Select) -> (Vec<(Name, Entry)>, bool) {
        match &self.0.order {
            Some(order) => self.select_in(order, select),
            None => self.select_of_all(select),
        }
    }

    /// Cost: a look at the names of the prefix behind `after`, until there are enough.
    fn select_in(&self, order: &SkipSet<Name>, select: &Select) -> (Vec<(Name, Entry)>, bool) {
        let mut found = Vec::new();
        let (first, is_itself) = select.begins();
        let from = if is_itself { Bound::Included(first) } else { Bound::Excluded(first) };
        for name in order.range::<str, _>((from, Bound::Unbounded)) {
            if select.is_over_at(name.value()) {
                break;
            }
            let look = |row: &Row| select.has_row(row).then(|| row.entry());
            let Some(entry) = self.with(name.value(), look).flatten() else { continue };
            if found.len() >= select.most() {
                return (found, true);
            }
            found.push((name.value().clone(), entry));
        }
        (found, false)
    }

    /// Cost: a look at all names, and a copy of the smallest ones that are found so far.
    fn select_of_all(&self, select: &Select) -> (Vec<(Name, Entry)>, bool) {
        let mut found: BTreeMap<Name, Entry> = BTreeMap::new();
        let mut has_more = false;
        for row in &self.0.map {
            let is_after_all = found.len() >= select.most()
                && found.last_key_value().is_none_or(|(last, _)| row.key() > last);
            let is_wanted = select.has_name(row.key()) && select.has_row(&row) && !self.0.hides(&row);
            if !is_wanted {
                continue;
            }
            if is_after_all {
                has_more = true;
                continue;
            }
            found.insert(row.key().clone(), row.entry());
            if found.len() > select.most() {
                found.pop_last();
                has_more = true;
            }
        }
        (found.into_iter().collect(), has_more)
    }

    /// All names that users registered, in any order; consistent in each shard, not over all.
    pub(crate) fn names(&self) -> Vec<Name> {
        let seen = self.0.map.iter().filter(|row| !row.key().starts_with(RESERVED) && !self.0.hides(row));
        seen.map(|row| row.key().clone()).collect()
    }
}

impl Table for SharedTable {
    fn row(&self, name: &str) -> Option<Row> {
        self.0.map.get(name).map(|row| row.value().clone())
    }

    fn put(&mut self, name: Name, row: Row) -> Option<Row> {
        if name.starts_with(RESERVED) {
            return self.put_membership(name, row);
        }
        let ordered = self.0.order.as_ref().map(|order| (order, name.clone()));
        let former = self.0.map.insert(name, row);
        self.0.removed(former.as_ref());
        if let Some((order, name)) = ordered
            && former.is_none()
        {
            order.insert(name);
        }
        former
    }

    fn take(&mut self, name: &str) -> Option<Row> {
        let row = self.0.map.remove(name).map(|(_, row)| row);
        self.0.removed(row.as_ref());
        if let Some(row) = &row {
            self.0.groups.remove(name, row);
        }
        if let Some(order) = &self.0.order {
            order.remove(name);
        }
        row
    }

    fn set_slot(&mut self, name: &str, slot: Slot) {
        if let Some(mut row) = self.0.map.get_mut(name) {
            row.slot = slot;
        }
    }

    fn hide(&mut self, session: &SessionId, below: Position, names: usize) {
        // First, so that whoever misses a row for this reason sees it.
        if below == PAST_ALL {
            self.0.changes.set(false);
        }
        let mut hidden = lock(&self.0.hidden);
        hidden.push((session.clone(), below));
        self.0.unseen.fetch_add(names, Ordering::AcqRel);
        self.0.hides.store(true, Ordering::Release);
    }

    fn unhide(&mut self, session: &SessionId) {
        let mut hidden = lock(&self.0.hidden);
        hidden.retain(|(other, _)| other != session);
        self.0.hides.store(!hidden.is_empty(), Ordering::Release);
    }

    fn visit_group(&self, group: &str, see: &mut dyn FnMut(&Name, &Standing) -> ControlFlow<()>) {
        self.0.groups.visit(group, see);
    }
}

#[cfg(test)]
mod tests {
    use callsign_store::ids::{Incarnation, NodeName, Position, SessionNumber};
    use callsign_transport::Kind;

    use super::*;
    use crate::{
        Registry,
        core::{group::GroupId, table::RequestNumber},
        tests::driver::Cluster,
    };

    fn session(number: u64) -> Arc<SessionId> {
        let node = NodeName::new("a").unwrap();
        Arc::new(SessionId { node, incarnation: Incarnation(1), number: SessionNumber(number) })
    }

    fn row(position: u64, session: &Arc<SessionId>) -> Row {
        Row {
            position: Position(position),
            session: session.clone(),
            request: RequestNumber(position),
            actor: 1,
            kind: Kind::of("x"),
            more: None,
            slot: Slot::default(),
        }
    }

    /// What a reader sees of three names: their positions, how many names there are, and which.
    fn seen(reader: &TableReader) -> ([Option<u64>; 3], usize, Vec<Name>) {
        let mut names = reader.names();
        names.sort_unstable();
        (["x", "y", "z"].map(|name| reader.with(name, |row| row.position.0)), reader.count(), names)
    }

    #[test]
    fn whoever_reads_sees_no_row_of_a_session_that_is_gone_though_it_is_removed_later() {
        let (one, other) = (session(1), session(2));
        let mut table = SharedTable::new(1, false);
        let reader = table.reader();
        for (position, name, session) in [(1, "x", &one), (2, "y", &one), (3, "z", &other)] {
            table.put(name.into(), row(position, session));
        }
        table.hide(&one, Position(5), 2);
        assert_eq!(seen(&reader), ([None, None, Some(3)], 1, vec!["z".into()]));
        // Registered anew, also in the same session, at a position that is not gone.
        table.put("x".into(), row(5, &one));
        assert_eq!(seen(&reader), ([Some(5), None, Some(3)], 2, vec!["x".into(), "z".into()]));
        table.take("y");
        table.unhide(&one);
        assert_eq!(seen(&reader), ([Some(5), None, Some(3)], 2, vec!["x".into(), "z".into()]));
    }

    /// Where a row stands among those of its session: what removes another row of it goes by that.
    #[test]
    fn a_row_that_moved_among_those_of_its_session_is_found_where_it_is() {
        let mut table = SharedTable::new(1, false);
        table.put("x".into(), row(1, &session(1)));
        table.set_slot("x", Slot(3));
        table.set_slot("nobody", Slot(4));
        // As numbers: rows are compared without them.
        let slot = |name| table.row(name).map(|row| row.slot.0);
        assert_eq!((slot("x"), slot("nobody")), (Some(3), None));
    }

    #[test]
    fn a_membership_that_comes_anew_in_the_place_of_a_hidden_one_counts() {
        let (one, mut table) = (session(1), SharedTable::new(1, false));
        let reader = table.reader();
        let member = GroupId::group("a").member(&one, 7);
        table.put(member.clone(), row(1, &one));
        table.hide(&one, Position(5), 1);
        assert_eq!(reader.count(), 0);
        table.put(member.clone(), row(6, &one));
        assert_eq!((reader.count(), reader.member_count(GroupId::group("a").key())), (1, 1));
        table.take(&member);
        assert_eq!(reader.count(), 0);
    }

    /// Without an order a select goes over all names.
    #[tokio::test(start_paused = true)]
    async fn a_node_keeps_its_names_in_their_order_if_it_is_configured_so_and_not_otherwise() {
        for ordered in [false, true] {
            let cluster = Cluster::new();
            let node = Registry::join(cluster.config("a").ordered(ordered)).await.unwrap();
            assert_eq!(node.shared.table.0.order.is_some(), ordered);
        }
    }

    /// A table with and one without an order say the same, whatever is put, taken and hidden.
    #[test]
    fn names_that_are_kept_in_order_are_found_as_those_are_that_are_not() {
        let sessions = [session(1), session(2)];
        let mut tables = [SharedTable::new(1, false), SharedTable::new(1, true)];
        let names = ["", "a", "a/", "a/1", "a/10", "a/2", "a0", "b", "b/\u{10ffff}", "c/x"];
        let mut random = callsign_store::random::SplitMix64::new(7);
        let mut draw = |below: usize| usize::try_from(random.draw() % below as u64).unwrap();
        let mut pages = 0;
        for position in 1..400 {
            let name = names[draw(names.len())];
            let (kind, of) = (draw(8), &sessions[draw(2)]);
            for table in &mut tables {
                match kind {
                    0 => table.hide(of, Position(position), 0),
                    1 => table.unhide(of),
                    2 | 3 => drop(table.take(name)),
                    _ => drop(table.put(name.into(), row(position, of))),
                }
            }
            for prefix in ["", "a", "a/", "a/1", "b/", "d"] {
                for after in [None, Some(""), Some("a/1"), Some("a/zz"), Some("c")] {
                    for limit in [0, 1, 3, 100] {
                        let select = Select::prefix(prefix).limit(limit);
                        let select = after.map_or(select.clone(), |after| select.after(after));
                        let [scanned, ordered] =
                            tables.each_ref().map(|table| table.reader().select(&select));
                        assert_eq!(scanned, ordered, "{select:?}");
                        pages += usize::from(!ordered.0.is_empty());
                    }
                }
            }
        }
        assert!(pages > 1000, "{pages}");
        // Nothing is left of what was removed.
        let [_, ordered] = &mut tables;
        for name in names {
            ordered.take(name);
        }
        assert!(ordered.0.order.as_ref().is_some_and(SkipSet::is_empty) && ordered.0.map.is_empty());
    }

    /// All members of a group, hidden ones too, in their order.
    fn all_of(table: &impl Table, group: &GroupId) -> Vec<(Standing, Name)> {
        let mut all = Vec::new();
        table.visit_group(group.key(), &mut |name, standing| {
            all.push((standing.clone(), name.clone()));
            ControlFlow::Continue(())
        });
        all.sort_unstable();
        all
    }

    /// Both tables, and both ways to read them, say the same of groups, whatever is put, taken and hidden.
    #[test]
    fn members_are_those_of_the_rows_in_their_order() {
        let sessions = [session(1), session(2)];
        let (mut shared, mut plain) = (SharedTable::new(1, true), BTreeMap::new());
        let groups = [GroupId::group("a"), GroupId::group("a\0b"), GroupId::semaphore("a", 2)];
        let mut random = callsign_store::random::SplitMix64::new(7);
        let mut draw = |below: usize| usize::try_from(random.draw() % below as u64).unwrap();
        let mut most = 0;
        let mut hidden: Vec<(Arc<SessionId>, Position)> = Vec::new();
        for position in 1..600 {
            let (kind, of) = (draw(12), &sessions[draw(2)]);
            let name = groups[draw(3)].member(of, draw(4) as u64);
            match kind {
                0 => {
                    shared.hide(of, Position(position), 0);
                    hidden.push((of.clone(), Position(position)));
                }
                1 => {
                    shared.unhide(of);
                    hidden.retain(|(session, _)| session != of);
                }
                2..5 => assert_eq!(shared.take(&name), plain.take(&name)),
                // Up to four at one position, of which those that come later asked before. Some of them are in one block.
                _ => {
                    let row = Row {
                        request: RequestNumber((position ^ 3) * 100),
                        actor: position,
                        ..row(position / 4, of)
                    };
                    assert_eq!(shared.put(name.clone(), row.clone()), plain.put(name, row));
                }
            }
            let mut sizes = Vec::new();
            for group in &groups {
                let expected = all_of(&plain, group);
                assert_eq!(all_of(&shared, group), expected);
                let is_seen = |(standing, _): &(Standing, Name)| {
                    !hidden
                        .iter()
                        .any(|(session, below)| standing.position < *below && standing.session == *session)
                };
                let expected: Vec<_> = expected.into_iter().filter(is_seen).collect();
                let members = shared.reader().members(group.key());
                most = most.max(members.len());
                let limit = group.is_semaphore().then_some(2);
                let size = (Name::from(&group.key()[2..]), limit, members.len());
                sizes.extend((!members.is_empty()).then_some(size));
                assert_eq!(shared.reader().member_count(group.key()), members.len());
                let actors = shared.reader().actors(group.key());
                assert_eq!(actors.values().map(Vec::len).sum::<usize>(), members.len());
                for (of, actors) in &*actors {
                    let its = members.iter().filter(|(standing, _)| standing.session == *of);
                    assert_eq!(*actors, its.map(|(_, seat)| seat.actor).collect::<Vec<_>>());
                }
                let members: Vec<_> = members.into_iter().map(|(at, seat)| (at, seat.name)).collect();
                assert_eq!(members, expected);
            }
            // A group comes before a semaphore of its name.
            sizes.sort();
            assert_eq!(shared.reader().groups("", None, 9), sizes);
            // From each of them on there is what comes behind it.
            for (nth, (name, limit, _)) in sizes.iter().enumerate() {
                let behind = shared.reader().groups("", Some((name, limit.is_some())), 9);
                assert_eq!(behind, sizes[nth + 1..]);
            }
            assert!(
                shared.reader().names().is_empty() && shared.reader().select(&Select::all()).0.is_empty()
            );
        }
        assert!(most > 4, "{most}");
        let left: Vec<Name> = plain.keys().cloned().collect();
        for name in &left {
            shared.take(name);
        }
        assert_eq!(shared.0.groups.count(), 0);
    }
}
