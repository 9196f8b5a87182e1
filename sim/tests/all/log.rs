//! The log is cut, and who needs what was cut gets a snapshot.

use callsign::cores::Message;
use callsign_sim::world::{Action, CoreId, NodeId, Setup, World};
use callsign_store::{Transaction, Write};

use crate::cluster::{Cluster, SECOND, logs, transaction};

/// Three nodes at rest, and room for a fourth.
fn of_four() -> (Cluster, NodeId) {
    let cluster = Cluster::formed(Setup::new(4), 3);
    let leader = cluster.leader().unwrap();
    (cluster, leader)
}

/// Names of the leader, a batch for each. Whenever time passes, one of these batches is in flight.
fn register_each(cluster: &mut Cluster, leader: NodeId, names: std::ops::Range<u8>) {
    for name in names {
        let call = cluster.register(leader, name);
        cluster.hold(move |world, action| {
            let Action::Store { node, nth, .. } = action else { return false };
            let op = world.process(*node).filter(|_| *node == leader).map(|p| &p.ops[usize::from(*nth)]);
            op.and_then(transaction).is_some_and(|transaction| logs(world, transaction))
        });
        cluster.pass(SECOND / 10);
        assert!(cluster.granted(call).is_none());
        cluster.release();
        cluster.until("it is granted", |c| c.granted(call).is_some());
    }
}

/// The fourth node comes to have the same names as the leader.
fn joins(cluster: &mut Cluster, leader: NodeId, names: usize) {
    cluster.must(&Action::Start { node: 3 });
    cluster.rest();
    assert!(cluster.replica(3).rows().eq(cluster.replica(leader).rows()));
    assert_eq!(cluster.replica(3).count(), names);
}

#[test]
fn the_log_is_cut_behind_its_synced_members_while_batches_follow_one_another_without_a_pause() {
    let (mut cluster, leader) = of_four();
    register_each(&mut cluster, leader, 0..100);
    let (floor, end) = (cluster.floor(), cluster.end());
    assert!(end.0 - floor.0 < 40, "{floor:?} of {end:?}");
    for name in 0..90 {
        cluster.unregister(leader, name);
    }
    joins(&mut cluster, leader, 10);
}

fn cuts(world: &World, transaction: &Transaction) -> bool {
    let floor = world.setup.keys.floor();
    transaction.writes.iter().any(|write| matches!(write, Write::Put { key, .. } if *key == floor))
}

#[test]
fn a_cut_of_the_log_that_lands_late_does_not_take_the_floor_back() {
    let (mut cluster, leader) = of_four();
    for name in 0..20 {
        cluster.register(leader, name);
    }
    let before = cluster.floor();
    cluster.give_up(leader, CoreId::Member, cuts);
    register_each(&mut cluster, leader, 20..60);
    let floor = cluster.floor();
    assert!(floor > before && cluster.world.orphans.len() == 1);
    cluster.must(&Action::Land { nth: 0 });
    assert_eq!(cluster.floor(), floor);
    joins(&mut cluster, leader, 60);
}

#[test]
fn g7_a_joiner_takes_a_snapshot_while_names_change_and_ends_with_the_same_table() {
    let (mut cluster, leader) = of_four();
    register_each(&mut cluster, leader, 0..100);
    assert!(cluster.floor().0 > 50, "the log does not go back to the beginning any more");
    cluster.must(&Action::Start { node: 3 });
    // The walk has begun; now what it has passed changes, and what it has not.
    cluster.until("a snapshot runs", |c| c.arrived(3, "snapshot_chunk") > 10);
    cluster.hold(|_, action| matches!(action, Action::Frame { to: 3, bulk: true, .. }));
    for name in (0..100).step_by(5) {
        cluster.unregister(leader, name);
        cluster.obtain((leader + 1) % 3, 100 + name);
    }
    assert_eq!(cluster.noted(3, "member: SnapshotInstalled"), Vec::<&str>::new());
    cluster.rest();
    cluster.pass(SECOND * 2);
    assert!(cluster.replica(3).rows().eq(cluster.replica(leader).rows()));
    assert_eq!(cluster.replica(3).count(), 100);
    assert_eq!(cluster.noted(3, "member: SnapshotInstalled").len(), 1);
}

/// A snapshot that another node began to take from the leader, and that it asks nothing more of.
fn with_abandoned_snapshot() -> (Cluster, NodeId, NodeId) {
    let (mut cluster, leader, receiver, _) = Cluster::of_three();
    for name in 0..40 {
        cluster.register(receiver, name);
    }
    cluster.rest();
    cluster.say(receiver, leader, Message::SnapshotWanted { id: 99, below: 1 });
    assert_eq!(cluster.replica(leader).touched.len(), 1, "it is being sent");
    (cluster, receiver, leader)
}

#[test]
fn a_donor_forgets_a_snapshot_that_its_receiver_has_given_up_although_nobody_begins_another() {
    let (mut cluster, receiver, leader) = with_abandoned_snapshot();
    for name in 40..50 {
        cluster.register(receiver, name);
    }
    cluster.pass(SECOND * 5);
    assert!(cluster.replica(leader).touched.is_empty(), "{:?}", cluster.replica(leader).touched);
    assert_eq!(cluster.member(leader).unwrap().snapshots_under_way(), 0);
}

#[test]
fn a_donor_keeps_a_snapshot_for_as_long_as_its_receiver_asks_for_the_next_chunk() {
    let (mut cluster, receiver, leader) = with_abandoned_snapshot();
    for index in 1..6 {
        cluster.pass(SECOND * 2);
        assert_eq!(cluster.member(leader).unwrap().snapshots_under_way(), 1, "chunk {index}");
        cluster.say(receiver, leader, Message::SnapshotNext { id: 99, below: index + 1 });
    }
}

#[test]
fn what_a_donor_remembers_of_a_table_that_changes_is_bounded_and_the_receiver_begins_again() {
    // As many as the table has, which is more than the sixteen chunks of two names of which it remembers the changes anyway.
    let (mut cluster, receiver, leader) = with_abandoned_snapshot();
    for name in 40..100 {
        cluster.register(receiver, name);
    }
    cluster.until("all are granted", |c| c.replica(leader).count() == 100);
    assert!(cluster.replica(leader).touched.is_empty(), "it is too much to remember");
    cluster.until("it is refused", |c| c.arrived(receiver, "snapshot_refused") == 1);
    assert_eq!(cluster.member(leader).unwrap().snapshots_under_way(), 0);
}
