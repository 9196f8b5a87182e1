use std::{collections::BTreeMap, sync::Arc};

use callsign_elector::{lineage::LineageNumber, record::Term};
use callsign_store::{
    Version, Write,
    ids::{ClusterName, Epoch, Incarnation, RegistryName, SessionId, SessionNumber, Token},
    keys::{ClusterKeys, RegistryKeys},
};

use super::*;
use crate::core::{
    fence::Fence, input::Effect, member::nothing_known, name::Name, replica::Replica, table::Row,
    tuning::Tuning,
};

#[test]
fn a_leader_cuts_once_it_is_open_and_while_its_epoch_is_the_present_one() {
    let me = NodeName::new("a").unwrap();
    let cluster = ClusterKeys::new(&ClusterName::new("test").unwrap());
    let keys = cluster.registry(&RegistryName::new("r").unwrap());
    let term = Term { epoch: Epoch(5), ..Term::vacant() };
    let fence = Fence { term: term.to_value(), commit: None, lineage: None };
    let at = (LineageNumber::default(), term.epoch);
    let mut leader = Leader::new(me.clone(), keys.clone(), at, fence, 1, Tuning::default());
    let cuts = |leader: &Leader, epoch: u64| {
        let view = View { term: Term { epoch: Epoch(epoch), ..term.clone() }, ..nothing_known() };
        let (mut effects, mut next_op) = (Vec::new(), 0);
        let turn = Turn::new(Time(TRIM_EVERY), &keys, &mut next_op, &mut effects);
        Trim::new(10, 1 << 20).on_wake(turn, &me, Position(1000), leader, &view);
        let commit = effects.pop()?;
        let Effect::Commit { transaction, .. } = commit else { panic!("{commit:?}") };
        Some(transaction.checks.into_iter().map(|check| check.key).collect::<Vec<_>>())
    };
    assert_eq!(cuts(&leader, 5), None, "it is not open");
    let mut replica = Replica::new(me.clone(), BTreeMap::<Name, Row>::new());
    replica.base_on_nothing();
    let (mut effects, mut next_op) = (Vec::new(), 0);
    let mut turn = Turn::new(Time::ZERO, &keys, &mut next_op, &mut effects);
    leader.open(&mut turn, &replica, false, Vec::new());
    let Some(Effect::Commit { id, .. }) = effects.pop() else { panic!("{effects:?}") };
    let mut turn = Turn::new(Time::ZERO, &keys, &mut next_op, &mut effects);
    let committed = CommitOutcome::Committed(callsign_store::Version(1));
    leader.on_commit(&mut turn, &mut replica, id, &committed, &[]);
    assert!(leader.is_open());
    assert_eq!(cuts(&leader, 6), None);
    // Nobody has changed any of these meanwhile.
    assert_eq!(cuts(&leader, 5), Some(vec![keys.term(), keys.floor(), cluster.lineage(), keys.queue()]));
}

/// A leader of epoch 5 on node a, whose log ends at 1000, in batches of 10 bytes each from 901 on.
struct Cutter {
    keys: RegistryKeys,
    leader: Leader,
    view: View,
    trim: Trim,
    now: Time,
    next_op: u64,
}

/// A moment less.
fn just_before(time: Duration) -> Duration {
    time.saturating_sub(Duration::from_millis(1))
}

fn node(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

impl Cutter {
    /// Members that are synced or not; how far they are is said for some.
    fn of(members: &[(&str, bool, Option<u64>)], worth: u64, max_lag: usize) -> Self {
        let cluster = ClusterKeys::new(&ClusterName::new("test").unwrap());
        let keys = cluster.registry(&RegistryName::new("r").unwrap());
        let term = Term { epoch: Epoch(5), ..Term::vacant() };
        let fence = Fence { term: term.to_value(), commit: None, lineage: None };
        let at = (LineageNumber::default(), term.epoch);
        let mut leader = Leader::new(node("a"), keys.clone(), at, fence, 1, Tuning::default());
        let mut replica = Replica::new(node("a"), BTreeMap::<Name, Row>::new());
        replica.base_on_nothing();
        let (mut effects, mut next_op) = (Vec::new(), 0);
        let mut turn = Turn::new(Time::ZERO, &keys, &mut next_op, &mut effects);
        leader.open(&mut turn, &replica, false, Vec::new());
        let Some(Effect::Commit { id, .. }) = effects.pop() else { panic!("{effects:?}") };
        let mut turn = Turn::new(Time::ZERO, &keys, &mut next_op, &mut effects);
        leader.on_commit(&mut turn, &mut replica, id, &CommitOutcome::Committed(Version(1)), &[]);
        leader.forget_below(Position(2));
        let mut view = View { term, ..nothing_known() };
        let mut raw = BTreeMap::new();
        for (name, synced, progress) in members {
            let session =
                SessionId { node: node(name), incarnation: Incarnation(1), number: SessionNumber(1) };
            let (token, address, admin, priority) = (Token(1), String::new(), None, 1);
            let (synced, empty, accuses, draining) = (*synced, false, None, false);
            let row =
                MemberRow { token, session, address, admin, priority, synced, empty, accuses, draining };
            raw.insert(keys.member(&node(name)), row.to_value());
            view.members.insert(node(name), row);
            if let Some(progress) = progress {
                leader.on_progress(&node(name), Position(*progress));
            }
        }
        view.raw = Arc::new(raw);
        let (trim, now) = (Trim::new(worth, max_lag), Time(TRIM_EVERY));
        Self { keys, leader, view, trim, now, next_op: 100 }
    }

    /// What it commits after so long.
    fn cuts_after(&mut self, time: Duration) -> Option<(OpId, Transaction)> {
        self.now = self.now + time;
        let mut effects = Vec::new();
        let turn = Turn::new(self.now, &self.keys, &mut self.next_op, &mut effects);
        self.trim.on_wake(turn, &node("a"), Position(1000), &self.leader, &self.view);
        match effects.pop()? {
            Effect::Commit { id, transaction } => Some((id, transaction)),
            other => panic!("{other:?}"),
        }
    }

    /// The floor that it sets, and what else it writes.
    fn floor(&mut self) -> Option<(u64, Vec<Write>)> {
        let (_, transaction) = self.cuts_after(Duration::ZERO)?;
        let mut writes = transaction.writes;
        let cleared = writes.pop();
        let Some(Write::Put { key, value }) = writes.pop() else { panic!("{writes:?}") };
        assert_eq!(key, self.keys.floor());
        let floor = PositionRecord::from_value(&value).unwrap().0;
        assert_eq!(cleared, Some(Write::ClearRange(self.keys.log_range(self.view.floor..floor))));
        Some((floor.0, writes))
    }
}

#[test]
fn the_log_is_cut_behind_what_all_synced_members_have() {
    let members = [("a", true, None), ("b", true, Some(500)), ("c", true, Some(400)), ("d", false, Some(7))];
    let mut cutter = Cutter::of(&members, 10, 1 << 20);
    assert_eq!(cutter.floor(), Some((401, vec![])));
    let (_, transaction) = cutter.cuts_after(TRIM_EVERY).unwrap();
    let expected: Vec<_> = ["a", "b", "c", "d"].iter().map(|name| cutter.keys.member(&node(name))).collect();
    let checked = transaction.checks.iter().map(|check| check.key.clone());
    let checked: Vec<_> = checked.filter(|key| cutter.keys.members().contains(key)).collect();
    assert_eq!(checked, expected);
    let is_as_read = |key: &Vec<u8>| {
        transaction.checks.iter().any(|check| check.key == *key && check.expected == cutter.view.raw(key))
    };
    assert!(expected.iter().all(is_as_read));
    // Of one nothing was heard yet.
    assert_eq!(Cutter::of(&[("a", true, None), ("b", true, None)], 10, 1 << 20).floor(), None);
    assert_eq!(Cutter::of(&[("a", true, None)], 10, 1 << 20).floor(), Some((1001, vec![])));
}

#[test]
fn a_cut_has_to_be_worth_it() {
    let worth = |progress, floor, worth| {
        let mut cutter = Cutter::of(&[("a", true, None), ("b", true, Some(progress))], worth, 1 << 20);
        cutter.view.floor = Position(floor);
        cutter.floor().map(|(floor, _)| floor)
    };
    assert_eq!((worth(30, 21, 10), worth(29, 21, 10)), (Some(31), None));
    assert_eq!(worth(0, 1, 1), None);
}

#[test]
fn a_member_that_lags_too_far_is_not_synced_any_more() {
    let batch = 10;
    for (lag, max_lag, lags) in [(5, 5 * batch, false), (6, 5 * batch, true)] {
        let mut cutter = Cutter::of(
            &[("a", true, None), ("b", true, Some(1000 - lag)), ("c", true, Some(1000))],
            10,
            max_lag,
        );
        for position in 901..=1000 {
            cutter.leader.remember(Position(position), vec![0; batch].into());
        }
        let row = MemberRow { synced: false, ..cutter.view.members[&node("b")].clone() };
        let put = Write::Put { key: cutter.keys.member(&node("b")), value: row.to_value() };
        let expected = if lags { (1001, vec![put]) } else { (1001 - lag, vec![]) };
        assert_eq!(cutter.floor(), Some(expected));
    }
}

#[test]
fn it_is_looked_into_from_time_to_time_and_memory_goes_with_the_log() {
    let mut cutter = Cutter::of(&[("a", true, None)], 10, 1 << 20);
    let (first, _) = cutter.cuts_after(Duration::ZERO).unwrap();
    let wakes = |end| cutter.trim.wakes_at(Position(end), Position(1));
    assert_eq!((wakes(10), wakes(9)), (Some(cutter.now + TRIM_EVERY), None), "nine batches are not worth it");
    assert_eq!(cutter.cuts_after(just_before(TRIM_EVERY)), None);
    let committed = CommitOutcome::Committed(Version(2));
    assert_eq!(cutter.trim.on_commit(OpId(first.0 + 50), &committed), None, "another one");
    assert_eq!(cutter.trim.on_commit(first, &committed), Some(Position(1001)));
    assert_eq!(cutter.trim.on_commit(first, &committed), None, "once");
    let (second, _) = cutter.cuts_after(Duration::from_millis(1)).unwrap();
    assert_eq!(cutter.trim.on_commit(second, &CommitOutcome::Conflict), None);
}

#[test]
fn nothing_is_cut_while_nothing_was_heard_of_a_synced_member_however_little_is_worth_it() {
    let mut cutter = Cutter::of(&[("a", true, None), ("b", true, None)], 1, 1 << 20);
    assert_eq!(cutter.floor(), None);
}
