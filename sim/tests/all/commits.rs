//! A leader's commits that the store refuses, and those of which it says nothing.

use callsign::cores::{Call, CallId};
use callsign_sim::world::{Action, CoreId, Fate, NodeId, Setup, name_of};

use crate::cluster::{Cluster, SECOND, register, store_ops};

#[test]
fn a_leader_whose_own_commit_is_seen_by_its_consistent_read_goes_on_leading() {
    let begun = Cluster::formed(Setup::new(1), 1);
    for steps in 0..20 {
        let mut cluster = begun.again();
        cluster.commits = Fate::UnknownDone;
        let mut calls = Vec::new();
        for name in 0..20 {
            calls.push(cluster.ask(0, register(name, 1000 + u64::from(name)), SECOND * 20));
            (0..steps).for_each(|_| cluster.step());
            calls.push(cluster.ask(0, Call::Consistent { name: name_of(0) }, SECOND * 5));
        }
        for call in calls {
            cluster.answer(call);
        }
        assert_eq!(cluster.noted(0, "member: Deposed"), Vec::<&str>::new(), "after {steps} steps each");
    }
}

#[test]
fn a_commit_of_which_nothing_is_said_is_tried_again_at_once() {
    let mut cluster = Cluster::formed(Setup::new(1), 1);
    cluster.commits = Fate::UnknownLost;
    let call = cluster.ask(0, register(1, 1001), SECOND * 20);
    loop {
        let next = cluster.next();
        cluster.must(&next);
        if matches!(next, Action::Store { fate: Fate::UnknownLost, .. }) {
            break;
        }
    }
    cluster.commits = Fate::Done;
    let begun = cluster.world.now;
    cluster.answer(call);
    assert!(cluster.world.now < begun + SECOND / 50, "it has paused");
}

/// As on a disk that is full: the log line that said so of each commit, and the core that they took, were the symptom.
#[test]
fn a_leader_waits_between_commits_that_the_store_refuses() {
    for fate in [Fate::UnknownLost, Fate::Unavailable, Fate::Conflict] {
        let mut cluster = Cluster::formed(Setup::new(1), 1);
        cluster.commits = fate;
        let call = cluster.ask(0, register(1, 1001), SECOND * 20);
        let (end, mut refused) = (cluster.world.now + SECOND * 21, 0);
        while cluster.world.now < end {
            let next = cluster.next();
            refused += u32::from(matches!(next, Action::Store { fate: f, .. } if f == fate));
            cluster.must(&next);
        }
        assert!(cluster.world.asides[&call].is_some(), "its deadline is over");
        assert!((20..150).contains(&refused), "{refused} commits in 21 s: {fate:?}");
        // And it is found soon that the store takes commits again.
        cluster.commits = Fate::Done;
        let begun = cluster.world.now;
        cluster.obtain(0, 2);
        assert!(cluster.world.now < begun + SECOND * 2, "{fate:?}");
    }
}

/// Asks a leader for so much that there is always a request that no batch has taken yet.
struct Asking {
    leader: NodeId,
    asked: Vec<CallId>,
}

impl Asking {
    fn answered(&self, cluster: &Cluster) -> usize {
        self.asked.iter().filter(|call| cluster.world.asides[*call].is_some()).count()
    }

    fn step(&mut self, cluster: &mut Cluster) {
        for _ in self.asked.len() - self.answered(cluster)..3 {
            let nth = self.asked.len();
            let name = u8::try_from(10 + nth / 2 % 100).unwrap();
            let call = if nth.is_multiple_of(2) {
                register(name, 1000 + nth as u64)
            } else {
                Call::Unregister { name: name_of(name) }
            };
            self.asked.push(cluster.ask(self.leader, call, SECOND * 20));
        }
        cluster.step();
    }
}

#[test]
fn the_names_of_dead_nodes_are_freed_and_requests_answered_in_turns() {
    let mut cluster = Cluster::formed(Setup::new(4), 4);
    let leader = cluster.leader().unwrap();
    let dead: Vec<NodeId> = cluster.world.ids().filter(|id| *id != leader).take(2).collect();
    for (name, host) in (0..).zip(&dead) {
        cluster.obtain(*host, name);
    }
    // By the time at which the leader goes on, both are known to be dead.
    let mut asking = Asking { leader, asked: Vec::new() };
    cluster.hold(store_ops(leader, CoreId::Member));
    for node in &dead {
        cluster.must(&Action::Crash { node: *node });
    }
    while dead.iter().any(|node| cluster.session(*node).unwrap().open) {
        asking.step(&mut cluster);
    }
    cluster.pass(SECOND);
    cluster.release();
    let (end, mut answered) = (cluster.world.now + SECOND * 10, Vec::new());
    for name in 0..2 {
        let left = |cluster: &Cluster| (0..2).filter(|name| cluster.holder(leader, *name).is_some()).count();
        while left(&cluster) > 1 - name {
            assert!(cluster.world.now < end, "nothing is freed; {} requests", asking.asked.len());
            asking.step(&mut cluster);
        }
        answered.push(asking.answered(&cluster));
    }
    assert!(answered[0] < answered[1], "the one was freed right behind the other: {answered:?}");
}
