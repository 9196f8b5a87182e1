//! Memberships of groups: names that say which group, which session and which actor. And places in semaphores, which hold once few
//! enough stand before them.
//!
//! Promises: at most as many claims as the limit says are told that they hold, over all nodes, because whoever stands before one in
//! the log of any node does so in a later log, too, until it has left; and whoever leaves is flagged first.

use std::collections::{BTreeMap, BTreeSet};

use callsign_store::planted;

use super::{
    Claim, Client, Effect, GroupId, Host, Name, Now, Position, Queued, RegisterError, Registrant, Replica,
    Table, calls::refuse, duties::Duty,
};
use crate::core::group::MembershipName;

/// Claims of places that do not hold yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Places {
    /// Those whose claims began since they were looked at last.
    begun: BTreeSet<Name>,
    /// The others, by the keys of their groups, and in the order in which they come to hold.
    waiting: BTreeMap<Name, BTreeSet<(Position, Name)>>,
    /// Groups in which the first of them may hold by now.
    due: BTreeSet<Name>,
    /// So it may in any group.
    is_any_due: bool,
}

impl Places {
    /// A claim begins.
    pub(super) fn begins(&mut self, name: &Name) {
        if MembershipName::of_place(name).is_some() {
            self.begun.insert(name.clone());
        }
    }

    /// Many rows are others than before.
    pub(super) fn changed(&mut self) {
        self.is_any_due = !self.waiting.is_empty();
    }

    /// These places are free, of whatever node.
    pub(super) fn freed(&mut self, places: &[(Name, Position)]) {
        for (name, position) in places {
            let Some((group, _)) = MembershipName::of_place(name) else { continue };
            let Some(waiting) = self.waiting.get_mut(group) else { continue };
            waiting.remove(&(*position, name.clone()));
            if waiting.is_empty() {
                self.waiting.remove(group);
            } else {
                self.due.insert(group.into());
            }
        }
    }

    /// Takes the groups that are to be looked at. Before that, those whose claims have begun get their places in line.
    fn take_due(&mut self, claims: &BTreeMap<Name, Claim>) -> BTreeSet<Name> {
        for name in std::mem::take(&mut self.begun) {
            if let (Some(claim), Some((group, _))) = (claims.get(&name), MembershipName::of_place(&name)) {
                let (group, position) = (Name::from(group), claim.position);
                self.due.insert(group.clone());
                self.waiting.entry(group).or_default().insert((position, name));
            }
        }
        if std::mem::take(&mut self.is_any_due) {
            self.waiting.retain(|_, waiting| {
                waiting.retain(|(position, name)| {
                    claims.get(name).is_some_and(|claim| claim.position == *position)
                });
                !waiting.is_empty()
            });
            self.due.extend(self.waiting.keys().cloned());
        }
        std::mem::take(&mut self.due)
    }
}

impl Host {
    /// An actor is to be a member of a group.
    pub(crate) fn join(
        &mut self,
        now: Now,
        caller: Client,
        group: GroupId,
        registrant: Registrant,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_busy() {
            let name = group.key().clone();
            return self.owes(Duty::Call(name, Queued::Join { caller, group, registrant }));
        }
        self.join_now(now, caller, &group, registrant, effects);
    }

    pub(super) fn join_now(
        &mut self,
        now: Now,
        caller: Client,
        group: &GroupId,
        registrant: Registrant,
        effects: &mut Vec<Effect>,
    ) {
        let Some(session) = &self.session else {
            return refuse(caller.call, RegisterError::Lapsed, effects);
        };
        let name = group.member(session, registrant.actor);
        self.register_now(now, caller, name, registrant, effects);
    }

    /// Tells those whose places hold by now. In each group these are the first of those who wait.
    pub(super) fn look_at_places<T: Table>(&mut self, replica: &Replica<T>, effects: &mut Vec<Effect>) {
        let Self { places, claims, .. } = self;
        // They are told in the order of their names.
        let mut told = BTreeMap::new();
        for group in places.take_due(claims) {
            let Some(waiting) = places.waiting.get_mut(&group) else { continue };
            let mut over = Vec::new();
            for (position, name) in &*waiting {
                let is_over = match claims.get(name).filter(|claim| claim.position == *position) {
                    None => true,
                    Some(claim) if replica.holds(name, *position) || planted!("everybody-holds") => {
                        told.insert(name.clone(), claim.id);
                        true
                    }
                    // Those that stand behind it do not hold either.
                    Some(_) if replica.row(name).is_some_and(|row| row.position == *position) => break,
                    // Its row is gone, and its claim is about to end.
                    Some(_) => false,
                };
                if is_over {
                    over.push((*position, name.clone()));
                }
            }
            for one in &over {
                waiting.remove(one);
            }
            if waiting.is_empty() {
                places.waiting.remove(&group);
            }
        }
        effects.extend(told.into_values().map(|claim| Effect::Holds { claim }));
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, ops::ControlFlow, rc::Rc, sync::Arc};

    use callsign_store::ids::{Epoch, Incarnation, NodeName, Nonce, SessionId, SessionNumber};
    use callsign_transport::Kind;

    use super::*;
    use crate::core::{
        host::OnTake,
        input::{CallId, OnLapse},
        log::{BatchBuilder, Op},
        replica::Applied,
        table::{RequestNumber, Row, Slot, Standing},
        why::GivenUp,
    };

    /// A table that counts how often a group is looked through.
    #[derive(Default)]
    struct CountedTable {
        rows: BTreeMap<Name, Row>,
        looks: Rc<Cell<usize>>,
    }

    impl Table for CountedTable {
        fn row(&self, name: &str) -> Option<Row> {
            self.rows.row(name)
        }

        fn put(&mut self, name: Name, row: Row) -> Option<Row> {
            self.rows.put(name, row)
        }

        fn take(&mut self, name: &str) -> Option<Row> {
            self.rows.take(name)
        }

        fn set_slot(&mut self, name: &str, slot: Slot) {
            self.rows.set_slot(name, slot);
        }

        fn hide(&mut self, session: &SessionId, below: Position, names: usize) {
            self.rows.hide(session, below, names);
        }

        fn unhide(&mut self, session: &SessionId) {
            self.rows.unhide(session);
        }

        fn visit_group(&self, group: &str, see: &mut dyn FnMut(&Name, &Standing) -> ControlFlow<()>) {
            self.looks.set(self.looks.get() + 1);
            self.rows.visit_group(group, see);
        }
    }

    /// A host whose actors wait for places.
    struct WaitingHost {
        host: Host,
        replica: Replica<CountedTable>,
        looks: Rc<Cell<usize>>,
        session: Arc<SessionId>,
    }

    impl WaitingHost {
        fn new() -> Self {
            let node = NodeName::new("a").unwrap();
            let id = SessionId { node: node.clone(), incarnation: Incarnation(1), number: SessionNumber(1) };
            let (table, session) = (CountedTable::default(), Arc::new(id));
            let looks = Rc::clone(&table.looks);
            let (mut host, mut replica) = (Host::new(), Replica::new(node, table));
            replica.base_on_nothing();
            host.session = Some(session.clone());
            Self { host, replica, looks, session }
        }

        fn apply(&mut self, op: Op) -> Applied {
            let mut builder = BatchBuilder::default();
            builder.session(&self.session);
            builder.push(op);
            let (prev, at) = (self.replica.end(), self.replica.position().next());
            self.replica.apply(&builder.build(Epoch(1), Nonce(at.0), prev, at))
        }

        /// An actor has a place at the next position, and a claim by a call of its own number.
        fn joins(&mut self, group: &GroupId, actor: u64) {
            let (name, kind) = (group.member(&self.session, actor), Kind(7));
            let (request, meta) = (RequestNumber(actor), None);
            self.apply(Op::Register {
                name: name.clone(),
                session: 0,
                request,
                actor: Some(actor),
                kind,
                meta,
            });
            let position = self.replica.position();
            let (on_lapse, on_take) = (OnLapse::Stop, OnTake::Refuse);
            let claim = Claim {
                id: CallId(actor),
                actor: Some(actor),
                kind,
                position,
                revision: position,
                on_lapse,
                on_take,
            };
            self.host.claim(name, claim);
        }

        /// It gives up that place, which is at this position.
        fn leaves(&mut self, group: &GroupId, actor: u64, position: u64) {
            let (name, why) = (group.member(&self.session, actor), GivenUp::ActorEnded);
            let applied = self.apply(Op::Unregister { name, position: Position(position), why });
            self.host.on_applied(&applied, &mut Vec::new());
        }

        /// The calls whose places hold from now on, and how often groups were looked through for that.
        fn told(&mut self) -> (Vec<u64>, usize) {
            let mut effects = Vec::new();
            self.looks.set(0);
            self.host.look_at_places(&self.replica, &mut effects);
            let call = |effect: Effect| match effect {
                Effect::Holds { claim } => claim.0,
                other => panic!("{other:?}"),
            };
            (effects.into_iter().map(call).collect(), self.looks.get())
        }
    }

    #[test]
    fn a_place_that_is_free_has_the_first_who_waits_looked_at_and_not_all() {
        let (mut waiting, gpu) = (WaitingHost::new(), GroupId::semaphore("gpu", 2));
        for actor in 1..=300 {
            waiting.joins(&gpu, actor);
        }
        assert_eq!(waiting.told(), (vec![1, 2], 3));
        assert_eq!(waiting.told(), (vec![], 0), "nothing has changed");
        waiting.leaves(&gpu, 1, 1);
        assert_eq!(waiting.told(), (vec![3], 2));
        // Nothing is kept of one that stops waiting.
        waiting.leaves(&gpu, 200, 200);
        assert_eq!(waiting.told(), (vec![], 1));
        assert_eq!(waiting.host.places.waiting[gpu.key()].len(), 296);
        // Those that come to hold at once are told in the order of their names, in which 10 is before 4.
        for actor in [2, 3, 5, 6, 7, 8, 9] {
            waiting.leaves(&gpu, actor, actor);
        }
        assert_eq!(waiting.told(), (vec![10, 4], 3));
    }

    #[test]
    fn a_place_that_is_free_is_nothing_to_those_who_wait_in_other_groups() {
        let mut waiting = WaitingHost::new();
        let locks: Vec<_> = (0..50).map(|nth| GroupId::semaphore(&format!("x{nth}"), 1)).collect();
        for (lock, first) in locks.iter().zip((1..).step_by(2)) {
            waiting.joins(lock, first);
            waiting.joins(lock, first + 1);
        }
        assert_eq!(waiting.told().0.len(), 50);
        waiting.leaves(&locks[1], 3, 3);
        assert_eq!(waiting.told(), (vec![4], 1));
        assert_eq!(waiting.host.places.waiting.len(), 49);
    }

    #[test]
    fn nothing_is_kept_of_a_claim_that_has_ended_once_many_names_have_changed() {
        let (mut waiting, lock) = (WaitingHost::new(), GroupId::semaphore("x", 1));
        for actor in 1..=4 {
            waiting.joins(&lock, actor);
        }
        assert_eq!(waiting.told().0, [1]);
        // The log is to free the row of the last one yet.
        let last = lock.member(&waiting.session, 4);
        assert!(waiting.host.end_claim(&last, None, &mut Vec::new()).is_some());
        waiting.host.many_changed();
        assert_eq!(waiting.told().0, [0; 0]);
        let left = waiting.host.places.waiting[lock.key()].iter().map(|(position, _)| position.0);
        assert_eq!(left.collect::<Vec<_>>(), [2, 3]);
    }

    #[test]
    fn whoever_stands_behind_a_place_without_a_row_is_looked_at() {
        let (mut waiting, lock) = (WaitingHost::new(), GroupId::semaphore("x", 1));
        for actor in 1..=3 {
            waiting.joins(&lock, actor);
        }
        assert_eq!(waiting.told().0, [1]);
        // The log has freed the first two, and the host has heard of one of them only.
        let (name, why) = (lock.member(&waiting.session, 2), GivenUp::ActorEnded);
        waiting.apply(Op::Unregister { name, position: Position(2), why });
        waiting.leaves(&lock, 1, 1);
        assert_eq!(waiting.told().0, [3]);
    }
}
