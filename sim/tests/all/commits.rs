//! A leader's commits that the store refuses, and those of which it says nothing.

use callsign::cores::Call;
use callsign_sim::world::{Action, Fate, Setup, name_of};

use crate::cluster::{Cluster, SECOND, register};

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
