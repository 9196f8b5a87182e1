//! Nine ways in which a smaller protocol went wrong, each as a schedule in which this one must not.

use callsign::cores::Message;
use callsign_sim::{
    oracle::Outcome,
    run::{Templates, run},
    scenario::Scenario,
    world::{Action, CoreId, Fate, Setup, Want, World},
};
use callsign_store::Transaction;

use crate::cluster::{
    Cluster, SECOND, control_frames, elects, frames, joins, log_reads, logs, store_ops, wakes,
};

/// A host loses its session and opens the next one; the answer to its former self is still in the link.
#[test]
fn trap_1_an_answer_to_a_former_session_is_not_taken() {
    let mut setup = Setup::new(3);
    // No link ends while its frames are held.
    (setup.link.ping, setup.link.silence) = (SECOND * 20, SECOND * 100);
    let mut cluster = Cluster::formed(setup, 3);
    let leader = cluster.leader().unwrap();
    let (host, other) = ((leader + 1) % 3, (leader + 2) % 3);

    let former = cluster.register(host, 1);
    cluster.hold(control_frames(leader, host));
    let is_verdict = |message: &Message| matches!(message, Message::Verdicts { .. });
    cluster.until("the leader answers", |c| c.on_the_way(leader, host).iter().any(is_verdict));

    // The session is closed, its name is free and another's.
    let number = cluster.session(host).unwrap().number;
    cluster.must(&Action::Outage { node: host, is_out: true });
    cluster.until("others close the session", |c| !c.session(host).unwrap().open);
    cluster.until("its name is free", |c| c.holder(leader, 1).is_none());
    let winner = cluster.register(other, 1);
    cluster.until("the name is another's", |c| c.granted(winner).is_some());

    // The host is back, over the same link, and asks again.
    cluster.must(&Action::Outage { node: host, is_out: false });
    cluster.until("the next session", |c| {
        let record = c.session(host).unwrap();
        let process = c.world.process(host).unwrap();
        record.open && process.trusted(c.world.local(host)) == Some(record.number)
    });
    assert!(cluster.session(host).unwrap().number > number);
    assert_eq!(cluster.outcome(former), Some(Outcome::Unknown));
    // It gets the log by the lane that may overtake, and is a member as good as any.
    cluster.must(&Action::Call { node: host, want: Want::Consistent { name: 1 } });
    cluster.until("a member again", |c| c.member(host).unwrap().is_synced());
    cluster.hold(frames(host, leader));
    let latter = cluster.register(host, 1);
    let is_request = |message: &Message| matches!(message, Message::Requests { .. });
    cluster.until("it asks", |c| c.on_the_way(host, leader).iter().any(is_request));
    let before = cluster.arrived(host, "verdicts");
    while cluster.arrived(host, "verdicts") == before {
        cluster.must(&Action::Frame { from: leader, to: host, nth: 0, bulk: false });
        assert_eq!(cluster.claimants(1), [other]);
        assert_eq!(cluster.outcome(latter), None, "answered by what was said to the former session");
    }
    cluster.rest();
    assert!(matches!(cluster.outcome(latter), Some(Outcome::Taken { .. })), "{:?}", cluster.outcome(latter));
    assert_eq!(cluster.claimants(1), [other]);
}

/// A cluster of three, and a fourth node that comes: its first join is given up, and repeated.
fn joined_by_a_retry(proof: bool) -> Cluster {
    let mut setup = Setup::new(4);
    setup.proof = proof;
    let mut cluster = Cluster::formed(setup, 3);
    cluster.must(&Action::Start { node: 3 });
    cluster.until("it joins", |c| c.commit_of(3, CoreId::Elector, joins).is_some());
    let nth = cluster.commit_of(3, CoreId::Elector, joins).unwrap();
    cluster.must(&Action::Store { node: 3, nth, fate: Fate::UnknownLater });
    assert_eq!(cluster.world.orphans.len(), 1);
    // No beat: what the join was built on stays as it was but for what the retry itself writes.
    cluster.hold(wakes(3, CoreId::Session));
    cluster.hold(store_ops(3, CoreId::Session));
    cluster.until("the retry joins", |c| c.row(3).is_some());
    cluster
}

/// Lands what was given up; whether it changed anything.
fn lands(cluster: &mut Cluster) -> bool {
    let before = cluster.world.store.version();
    cluster.must(&Action::Land { nth: 0 });
    cluster.world.store.version() > before
}

#[test]
fn trap_2_a_repeated_join_does_not_bring_back_a_spent_token() {
    // It dies, is called down, and its first join lands.
    for proof in [true, false] {
        let mut cluster = joined_by_a_retry(proof);
        cluster.must(&Action::Crash { node: 3 });
        cluster.release();
        cluster.until("it is called down", |c| c.row(3).is_none());
        assert!(!lands(&mut cluster));
        cluster.rest();
        assert_eq!(cluster.row(3), None);
    }
    // It leaves, and its session is as it was when the first join lands.
    let mut cluster = joined_by_a_retry(true);
    let record = cluster.session(3);
    cluster.must(&Action::Leave { node: 3 });
    cluster.until("it is no member", |c| c.row(3).is_none());
    assert_eq!(cluster.session(3), record, "only the number of the join itself stands in its way");
    assert!(!lands(&mut cluster));
    for _ in 0..50 {
        cluster.step();
        assert_eq!(cluster.row(3), None);
    }
    cluster.rest();
    assert_eq!(cluster.row(3), None);
}

/// How a member learns that it was elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Own,
    PeerFirst,
    NeverTold,
}

/// The leader died, and `next` is about to commit its own election; the third node sees nothing of the store yet.
fn about_to_be_elected() -> (Cluster, u8, u8, u8) {
    let (mut cluster, leader, next, third) = Cluster::of_three();
    cluster.hold(store_ops(third, CoreId::Elector));
    cluster.must(&Action::Crash { node: leader });
    let own = |world: &World, transaction: &Transaction| {
        elects(world, transaction).is_some_and(|term| term.leader.is_some())
    };
    cluster.until("an election", |c| c.commit_of(next, CoreId::Elector, own).is_some());
    let nth = cluster.commit_of(next, CoreId::Elector, own).unwrap();
    (cluster, next, third, nth)
}

#[test]
fn trap_3_the_role_is_taken_whichever_way_it_becomes_known() {
    for way in [Way::Own, Way::PeerFirst, Way::NeverTold] {
        let (mut cluster, next, third, nth) = about_to_be_elected();
        let asked = cluster.arrived(next, "run_handoff");
        let fate = match way {
            Way::Own => Fate::Done,
            Way::PeerFirst => Fate::Late,
            Way::NeverTold => Fate::UnknownDone,
        };
        cluster.must(&Action::Store { node: next, nth, fate });
        let term = cluster.term();
        assert_eq!(term.leader.as_ref().map(|leader| leader.incarnation), Some(cluster.incarnation(next)));
        if way == Way::PeerFirst {
            cluster.release();
            cluster.hold(store_ops(next, CoreId::Elector));
            cluster.until("its peer tells it", |c| c.arrived(next, "run_handoff") > asked);
            assert!(cluster.known(third) == term.epoch && cluster.known(next) < term.epoch);
            cluster.release();
        } else {
            cluster.until("the role", |c| c.serves(next));
            assert_eq!(cluster.arrived(next, "run_handoff"), asked, "nobody told it");
        }
        cluster.until("the role", |c| c.serves(next));
        assert_eq!(cluster.term(), term, "in the epoch in which it was elected");
        let call = cluster.register(third, 1);
        cluster.rest();
        assert!(cluster.granted(call).is_some(), "{way:?}");
        assert_eq!(cluster.term(), term);
    }
}

/// Whoever leads next has seen a member under its former token only, and not what it got under the new one.
#[test]
fn trap_4_a_view_that_skips_versions_frees_nobodys_names() {
    let (mut cluster, leader, next, host) = Cluster::of_three();
    let before = cluster.register(host, 0);
    cluster.rest();
    assert!(cluster.granted(before).is_some());
    let former = cluster.row(host).unwrap();

    // From here on, `next` sees neither the store nor any batch.
    cluster.hold(store_ops(next, CoreId::Elector));
    cluster.hold(store_ops(next, CoreId::Member));
    cluster.hold(frames(leader, next));
    cluster.hold(frames(host, next));
    cluster.must(&Action::Outage { node: host, is_out: true });
    cluster.until("the session is closed", |c| !c.session(host).unwrap().open);
    cluster.must(&Action::Outage { node: host, is_out: false });
    cluster.until("it is a member again, and synced", |c| {
        c.row(host).is_some_and(|row| row.token > former.token && row.synced)
            && c.member(host).unwrap().is_synced()
    });
    let after = cluster.register(host, 1);
    cluster.until("a name under the new token", |c| c.granted(after).is_some());
    let name = cluster.name(host);
    assert_eq!(
        cluster.member(next).unwrap().view().members[&name].token,
        former.token,
        "it has not seen anything of that"
    );

    // The leader dies, and it is `next` that takes the seat.
    cluster.release();
    cluster.hold(store_ops(host, CoreId::Elector));
    cluster.hold(store_ops(next, CoreId::Member));
    cluster.must(&Action::Crash { node: leader });
    cluster.must(&Action::Break { a: leader, b: next, nth: 0, keep: 0 });
    let me = Some(cluster.incarnation(next));
    cluster.until("the seat", |c| c.term().leader.map(|leader| leader.incarnation) == me);
    assert!(cluster.replica(next).position() < cluster.end(), "it lacks all of that");
    // It does not open the epoch on what it has.
    cluster.release();
    cluster.hold(store_ops(host, CoreId::Elector));
    cluster.hold(log_reads(next));
    let until = cluster.world.now + SECOND / 2;
    cluster.until("time passes", |c| c.world.now >= until);
    assert!(!cluster.serves(next), "it lacks the end of the log");
    cluster.release();
    cluster.until("it serves", |c| c.serves(next));
    assert_eq!(cluster.claimants(1), [host]);
    cluster.release();
    let (lost, kept) = (cluster.register(next, 0), cluster.register(next, 1));
    cluster.rest();
    assert!(cluster.granted(lost).is_some(), "free with its session");
    assert!(matches!(cluster.outcome(kept), Some(Outcome::Taken { .. })), "{:?}", cluster.outcome(kept));
    assert_eq!(cluster.claimants(1), [host]);
    assert_eq!(cluster.claimants(0), [next]);
}

/// A new leader's first words come before the follower knows the term, or never.
#[test]
fn trap_5_who_needs_an_answer_asks_again() {
    for is_lost in [false, true] {
        let (mut cluster, leader, next, third) = Cluster::of_three();
        // A request that dies with its leader.
        cluster.hold(frames(third, leader));
        let call = cluster.register(third, 1);
        let is_request = |message: &Message| matches!(message, Message::Requests { .. });
        cluster.until("it asks", |c| c.on_the_way(third, leader).iter().any(is_request));
        let epoch = cluster.term().epoch;

        cluster.hold(store_ops(third, CoreId::Elector));
        cluster.hold(frames(next, third));
        cluster.must(&Action::Crash { node: leader });
        cluster.until("a new leader", |c| c.serves(next));
        assert_eq!(cluster.known(third), epoch, "it does not know yet");
        let is_first = |message: &Message| matches!(message, Message::ApplyNamesSnapshot { .. });
        assert!(cluster.on_the_way(next, third).iter().any(is_first));
        if is_lost {
            cluster.must(&Action::Break { a: next, b: third, nth: 0, keep: 0 });
            assert!(cluster.on_the_way(next, third).is_empty());
        } else {
            while cluster.on_the_way(next, third).iter().any(is_first) {
                cluster.must(&Action::Frame { from: next, to: third, nth: 0, bulk: false });
            }
            assert_eq!(cluster.known(third), epoch);
        }
        cluster.rest();
        assert!(cluster.serves(next));
        assert_eq!(cluster.known(third), cluster.term().epoch);
        let token = cluster.granted(call);
        assert!(token.is_some(), "{:?}", cluster.outcome(call));
        assert_eq!(cluster.claimants(1), [third]);

        // A request that is lost with its link.
        let call = cluster.register(third, 2);
        cluster.hold(frames(third, next));
        cluster.until("it asks", |c| c.on_the_way(third, next).iter().any(is_request));
        cluster.must(&Action::Break { a: next, b: third, nth: 0, keep: 0 });
        cluster.rest();
        assert!(cluster.granted(call).is_some(), "{:?}", cluster.outcome(call));
    }
}

/// Three nodes, and a fourth that nobody can reach.
fn with_a_stranger(proof: bool) -> Cluster {
    let mut setup = Setup::new(4);
    setup.proof = proof;
    let mut cluster = Cluster::formed(setup, 3);
    for node in 0..3 {
        cluster.must(&Action::Block { from: 3, to: node });
        cluster.must(&Action::Block { from: node, to: 3 });
    }
    cluster.must(&Action::Start { node: 3 });
    cluster
}

#[test]
fn trap_6_a_member_that_nobody_was_linked_to_is_removed() {
    for proof in [true, false] {
        let mut cluster = with_a_stranger(proof);
        cluster.until("it is a member", |c| c.row(3).is_some());
        let stranger = cluster.name(3);
        for node in 0..3 {
            assert!(!cluster.member(node).unwrap().is_linked(&stranger), "node {node} has a link to it");
        }
        cluster.must(&Action::Crash { node: 3 });
        let died = cluster.world.now;
        cluster.until("it is removed", |c| c.row(3).is_none());
        let took = cluster.world.now.saturating_sub(died);
        assert!(took < cluster.world.setup.session.lease * 4, "after {took:?}");
        assert!(!cluster.session(3).unwrap().open);
        cluster.rest();
    }
}

/// When a join lands whose author is dead: by the close of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lands {
    /// While its session is open, and is applied at once.
    Before,
    /// While its session is open, and is applied once it is closed.
    Across,
    /// When its session is closed.
    After,
}

#[test]
fn trap_7_a_join_that_lands_after_its_author_died_leaves_no_member() {
    for when in [Lands::Before, Lands::Across, Lands::After] {
        let mut cluster = with_a_stranger(true);
        cluster.until("it joins", |c| c.commit_of(3, CoreId::Elector, joins).is_some());
        let nth = cluster.commit_of(3, CoreId::Elector, joins).unwrap();
        cluster.must(&Action::Store { node: 3, nth, fate: Fate::UnknownLater });
        cluster.must(&Action::Crash { node: 3 });
        // What the dead process had asked for besides.
        while cluster.world.orphans.len() > 1 {
            cluster.must(&Action::Vanish { nth: 1 });
        }
        if when == Lands::After {
            cluster.until("its session is closed", |c| !c.session(3).unwrap().open);
            assert!(!lands(&mut cluster));
        } else {
            assert!(lands(&mut cluster));
            assert_eq!(cluster.queue().len(), 1);
        }
        if when == Lands::Before {
            cluster.until("a dead member joins", |c| c.row(3).is_some());
            assert!(cluster.session(3).unwrap().open);
        }
        if when == Lands::Across {
            (0..3).for_each(|node| cluster.hold(store_ops(node, CoreId::Elector)));
            cluster.until("its session is closed", |c| !c.session(3).unwrap().open);
            assert_eq!(cluster.queue().len(), 1);
            cluster.release();
            while !cluster.queue().is_empty() {
                cluster.step();
                assert_eq!(cluster.row(3), None, "applied for the dead");
            }
        }
        cluster.rest();
        assert_eq!(cluster.row(3), None, "{when:?}");
    }
}

#[test]
fn trap_7_a_registration_that_lands_after_its_leader_died_counts_once() {
    for before_the_next in [true, false] {
        let (mut cluster, leader, next, third) = Cluster::of_three();
        let end = cluster.end();
        let call = cluster.register(third, 1);
        cluster.until("the leader commits", |c| c.commit_of(leader, CoreId::Member, logs).is_some());
        let nth = cluster.commit_of(leader, CoreId::Member, logs).unwrap();
        cluster.must(&Action::Store { node: leader, nth, fate: Fate::UnknownLater });
        cluster.must(&Action::Crash { node: leader });
        while cluster.world.orphans.len() > 1 {
            cluster.must(&Action::Vanish { nth: 1 });
        }
        if before_the_next {
            assert!(lands(&mut cluster));
            assert_eq!(cluster.end(), end.next());
        } else {
            cluster.until("a new leader", |c| c.serves(next) || c.serves(third));
            assert!(!lands(&mut cluster), "the fence holds");
        }
        cluster.rest();
        let token = cluster.granted(call).unwrap_or_else(|| panic!("{:?}", cluster.outcome(call)));
        assert_eq!(token == end.next(), before_the_next, "{token:?}");
        assert_eq!(cluster.claimants(1), [third]);
    }
}

/// With as many restarts as crashes, some defects hide: the draws have both.
#[test]
fn trap_9_some_runs_leave_the_dead_dead_and_some_do_not() {
    let (mut fewer, mut enough) = (0, 0);
    let mut templates = Templates::default();
    for seed in 1..=60 {
        let ran = run(Scenario::Standard, seed, &mut templates);
        let drawn = &ran.trace[..ran.faulty];
        let crashes = drawn.iter().filter(|action| matches!(action, Action::Crash { .. })).count();
        let starts = drawn.iter().filter(|action| matches!(action, Action::Start { .. })).count();
        fewer += u32::from(starts < crashes);
        enough += u32::from(crashes > 0 && starts >= crashes);
        assert_eq!(ran.violation, None, "seed {seed}");
    }
    println!("{fewer} runs with fewer restarts than crashes, {enough} with as many");
    assert!(fewer > 0 && enough > 0, "{fewer} with fewer, {enough} with as many");
}
