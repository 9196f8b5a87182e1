//! What the rows say of a group. Rows of sessions that are gone say nothing, though they may still be in the table.

use std::ops::ControlFlow;

use callsign_store::{ids::Position, planted};

use super::Rows;
#[cfg(feature = "cores")]
use crate::core::name::Name;
use crate::core::{
    group::MembershipName,
    table::{Standing, Table},
};

impl<T: Table> Rows<T> {
    /// The limit of the semaphore that a name is a place in, if it is another one than the name says.
    pub(crate) fn other_limit(&self, name: &str) -> Option<u32> {
        let (group, limit) = MembershipName::of_place(name)?;
        let mut in_force = None;
        self.table.visit_group(group, &mut |name, standing| {
            if !self.is_there_of(&standing.session, standing.position) && !planted!("limit-of-the-dead") {
                return ControlFlow::Continue(());
            }
            in_force = MembershipName::of_place(name).map(|(_, limit)| limit);
            ControlFlow::Break(())
        });
        in_force.filter(|in_force| *in_force != limit || planted!("own-limit-refused"))
    }

    /// Whether a place holds: it is there, of that position, and fewer than the limit stand before it.
    pub(crate) fn holds(&self, name: &str, position: Position) -> bool {
        let Some((group, limit)) = MembershipName::of_place(name) else { return false };
        let Some(row) = self.row(name).filter(|row| row.position == position) else { return false };
        let (own, mut left) = (Standing::of(&row), limit);
        self.table.visit_group(group, &mut |_, other| {
            let stands_before = *other < own && self.is_there_of(&other.session, other.position);
            left = left.saturating_sub(u32::from(stands_before));
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        left > 0
    }
}

/// For whoever judges a replica.
#[cfg(feature = "cores")]
impl<T: Table> Rows<T> {
    /// The names of the members of a group, in their order.
    pub(crate) fn members(&self, group: &str) -> Vec<Name> {
        let mut members = Vec::new();
        self.table.visit_group(group, &mut |name, standing| {
            if self.is_there_of(&standing.session, standing.position) {
                members.push((standing.clone(), name.clone()));
            }
            ControlFlow::Continue(())
        });
        members.sort_unstable();
        members.into_iter().map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc};

    use callsign_elector::record::LogEnd;
    use callsign_store::ids::{Epoch, Incarnation, NodeName, Nonce, SessionId, SessionNumber};
    use callsign_transport::Kind;

    use super::*;
    use crate::core::{
        group::GroupId,
        message::Chunk,
        name::Name,
        replica::{Replica, Staged},
        table::{RequestNumber, Row, Slot},
    };

    fn session(node: &str) -> Arc<SessionId> {
        let node = NodeName::new(node).unwrap();
        Arc::new(SessionId { node, incarnation: Incarnation(1), number: SessionNumber(1) })
    }

    /// Rows in which actor 5 of each of these nodes has a place at that position.
    fn rows(limit: u32, places: &[(&str, u64)]) -> (Rows<BTreeMap<Name, Row>>, Vec<Name>) {
        let mut rows = Rows::new(BTreeMap::new());
        let put = |(node, position): &(&str, u64)| {
            let (session, position) = (session(node), Position(*position));
            let name = GroupId::semaphore("gpu", limit).member(&session, 5);
            let (kind, more, slot) = (Kind(7), None, Slot::default());
            let request = RequestNumber(position.0);
            rows.put(&name, Row { position, session, request, actor: 5, kind, more, slot });
            name
        };
        let names = places.iter().map(put).collect();
        (rows, names)
    }

    fn hold(rows: &Rows<BTreeMap<Name, Row>>, names: &[Name], at: &[u64]) -> Vec<bool> {
        names.iter().zip(at).map(|(name, at)| rows.holds(name, Position(*at))).collect()
    }

    #[test]
    fn the_first_in_the_order_of_the_log_hold_whoever_is_gone_stands_before_nobody() {
        let at = [3, 1, 2, 4];
        let (mut rows, names) = rows(2, &[("a", 3), ("b", 1), ("c", 2), ("d", 4)]);
        assert_eq!(hold(&rows, &names, &at), [false, true, true, false]);
        // Gone, and still in the table.
        rows.hide(&session("b"), Position(9));
        assert_eq!(hold(&rows, &names, &at), [true, false, true, false]);
        rows.take(&names[2]);
        assert_eq!(hold(&rows, &names, &at), [true, false, false, true]);
        assert!(!rows.holds(&names[0], Position(2)), "of another registration");
        assert!(!rows.holds("gpu", Position(3)), "no place at all");
    }

    #[test]
    fn nobody_can_tell_who_stands_first_before_all_of_a_snapshot_is_in_its_place() {
        let (rows, names) = rows(1, &[("a", 1), ("b", 2)]);
        let mut chunk = Chunk::default();
        for name in &names {
            chunk.push(name.clone(), rows.row(name));
        }
        let mut staged = Staged::default();
        staged.take(chunk).unwrap();
        let mut replica = Replica::new(NodeName::new("c").unwrap(), BTreeMap::new());
        let end = LogEnd { position: Position(2), nonce: Nonce(2) };
        assert!(replica.install(staged, Epoch(1), end));
        let second = |replica: &Replica<_>| replica.holds(&names[1], Position(2));
        let mut is_alone = false;
        while replica.is_installing() {
            assert!(!second(&replica));
            replica.proceed(1);
            is_alone |= replica.row(&names[1]).is_some() && replica.row(&names[0]).is_none();
        }
        assert!(is_alone, "the second was there before the first");
        assert!(replica.holds(&names[0], Position(1)) && !second(&replica));
    }

    #[test]
    fn the_limit_is_that_of_whoever_is_there() {
        let (mut rows, names) = rows(2, &[("a", 1), ("b", 2)]);
        let other = |rows: &Rows<_>, id: GroupId| rows.other_limit(&id.member(&session("c"), 1));
        assert_eq!(other(&rows, GroupId::semaphore("gpu", 2)), None);
        assert_eq!(other(&rows, GroupId::semaphore("gpu", 3)), Some(2));
        assert_eq!(other(&rows, GroupId::semaphore("cpu", 3)), None);
        assert_eq!(other(&rows, GroupId::group("gpu")), None);
        rows.take(&names[0]);
        rows.hide(&session("b"), Position(9));
        assert_eq!(other(&rows, GroupId::semaphore("gpu", 3)), None, "nobody is there");
    }
}
