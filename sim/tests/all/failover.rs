//! The seat moves: what was acknowledged is kept, and only who leads now is heard.

use std::sync::Arc;

use callsign::cores::{Answer, Batch, Call, Input, Member, Message, Op, RequestNumber};
use callsign_elector::record::LogEnd;
use callsign_sim::{
    oracle::Check,
    rng::Rng,
    schedule::progress,
    world::{Action, CoreId, NodeId, Setup, name_of},
};
use callsign_store::ids::{Epoch, Nonce, Position};
use callsign_transport::Kind;

use crate::cluster::{Cluster, SECOND, store_ops};

fn all_granted(cluster: &Cluster, calls: &[usize]) {
    for call in calls {
        assert!(cluster.granted(*call).is_some(), "{call}: {:?}", cluster.outcome(*call));
    }
}

#[test]
fn killing_the_leader_moves_the_seat_and_frees_its_names() {
    let (mut cluster, leader, host, _) = Cluster::of_three();
    let epoch = cluster.term().epoch;
    cluster.obtain(leader, 0);
    cluster.obtain(host, 1);
    cluster.must(&Action::Crash { node: leader });
    cluster.rest();
    assert!(cluster.leader() != Some(leader) && cluster.term().epoch > epoch);
    cluster.until("its name is free", |c| c.holder(host, 0).is_none());
    assert!(cluster.holder(host, 1).is_some());
    cluster.obtain(host, 0);
}

#[test]
fn g4_the_old_leader_settles_steps_down_and_no_acknowledged_name_is_lost() {
    let (mut cluster, leader, host, _) = Cluster::of_three();
    let epoch = cluster.term().epoch;
    let calls: Vec<_> = (0..60).map(|name| cluster.register(host, name)).collect();
    cluster.until("some are decided", |c| calls.iter().any(|call| c.granted(*call).is_some()));
    assert!(calls.iter().any(|call| cluster.outcome(*call).is_none()), "some are not");
    cluster.must(&Action::Resign { node: leader });
    cluster.rest();
    all_granted(&cluster, &calls);
    let next = cluster.leader().unwrap();
    assert!(next != leader && cluster.term().epoch > epoch, "the seat moved");
    assert!(cluster.arrived(next, "transferred") > 0, "the old leader said where it ended");
    assert!(!cluster.member(leader).unwrap().is_serving());
    assert!((0..60).all(|name| cluster.holder(next, name).is_some()));
}

#[test]
fn g5_a_successor_serves_with_all_names_although_the_old_leader_never_answers() {
    for hangs in [false, true] {
        let mut setup = Setup::new(3);
        // Only its silence speaks: its death is not proven, and no link ends because nothing is heard.
        (setup.proof, setup.link.ping, setup.link.silence) = (false, SECOND * 20, SECOND * 100);
        let mut cluster = Cluster::formed(setup, 3);
        let leader = cluster.leader().unwrap();
        let host = (leader + 1) % 3;
        (0..20).for_each(|name| _ = cluster.obtain(host, name));
        let begun = cluster.world.now;
        cluster.must(&if hangs { Action::Pause { node: leader } } else { Action::Crash { node: leader } });
        cluster.until("a successor", |c| c.leader().is_some_and(|next| next != leader));
        let next = cluster.leader().unwrap();
        if hangs {
            // It is linked to it, and asked it for its end.
            let asks = |message: &Message| matches!(message, Message::TransferSnapshot { .. });
            assert!(cluster.on_the_way(next, leader).iter().any(asks));
            assert!(cluster.member(next).unwrap().is_linked(&cluster.name(leader)));
        }
        assert!(cluster.session(leader).unwrap().open, "nobody waited for its session to be closed");
        assert!(cluster.world.now < begun + SECOND * 5);
        assert!((0..20).all(|name| cluster.holder(next, name).is_some()));
        cluster.obtain(host, 20);
    }
}

#[test]
fn g6_a_leader_serves_only_after_its_epoch_is_open_and_hosts_hear_of_it() {
    let (mut cluster, ..) = Cluster::of_three();
    for _ in 0..4 {
        let (leader, epoch) = (cluster.leader().unwrap(), cluster.term().epoch);
        cluster.must(&Action::Resign { node: leader });
        cluster.until("another epoch serves", |c| {
            // Whoever serves has applied an entry of its own epoch, and whoever speaks to it has heard that.
            for member in c.world.ids().filter_map(|node| c.member(node)).filter(|m| m.is_serving()) {
                assert_eq!(member.leader().unwrap().0, member.replica().epoch());
            }
            c.leader().is_some() && c.term().epoch > epoch
        });
        cluster.rest();
    }
    let arrived: usize = (0..3).map(|node| cluster.arrived(node, "apply_names_snapshot")).sum();
    assert!(arrived >= 8);
}

#[test]
fn f6_a_leader_that_restarts_empty_never_distributes_an_empty_table() {
    let (mut cluster, leader, host, _) = Cluster::of_three();
    let epoch = cluster.term().epoch;
    cluster.obtain(host, 0);
    // Before anybody reported it, its next session follows the old one, and it joins under its old name.
    cluster.must(&Action::Crash { node: leader });
    cluster.must(&Action::Start { node: leader });
    cluster.rest();
    cluster.pass(SECOND * 2);
    assert!(cluster.term().epoch > epoch, "its old epoch is not continued");
    assert!((0..3).all(|node| cluster.holder(node, 0).is_some()));
}

#[test]
fn a_registry_whose_every_session_ended_opens_again_empty_and_positions_go_on() {
    let (mut cluster, ..) = Cluster::of_three();
    let token = cluster.obtain(0, 0);
    for node in 0..3 {
        cluster.must(&Action::Crash { node });
    }
    cluster.pass(SECOND);
    for node in 0..2 {
        cluster.must(&Action::Start { node });
    }
    cluster.rest();
    assert!(cluster.holder(0, 0).is_none());
    assert!(cluster.obtain(1, 0) > token, "the fencing token only grows");
}

#[test]
fn a_member_that_lost_its_base_with_all_the_others_gone_lets_the_registry_go_on() {
    let mut cluster = Cluster::formed(Setup::new(2), 2);
    let leader = cluster.leader().unwrap();
    let follower = 1 - leader;
    // It loses its session while cut off, and the log is cut behind its back.
    cluster.cut(0, 1);
    cluster.must(&Action::Outage { node: follower, is_out: true });
    cluster.until("its session is closed", |c| !c.session(follower).unwrap().open);
    let end = cluster.replica(follower).position();
    for name in 0..60 {
        cluster.obtain(leader, name);
    }
    cluster.until("the log is cut", |c| c.floor() > end.next());
    cluster.must(&Action::Crash { node: leader });
    cluster.must(&Action::Outage { node: follower, is_out: false });
    cluster.until("the follower serves", |c| c.leader() == Some(follower));
    assert!(cluster.world.oracle.counts().get(Check::Reset) > 0);
    cluster.obtain(follower, 100);
}

#[test]
fn a_request_outlives_its_leader_and_gets_one_verdict() {
    let (begun, leader, host, _) = Cluster::of_three();
    for steps in (0..100).step_by(5) {
        let mut cluster = begun.again();
        let calls: Vec<_> = (0..50).map(|name| cluster.register(host, name)).collect();
        (0..steps).for_each(|_| cluster.step());
        cluster.must(&Action::Crash { node: leader });
        cluster.rest();
        all_granted(&cluster, &calls);
    }
}

/// So much happens, in an order of the seed's.
fn drawn(cluster: &mut Cluster, rng: &mut Rng, steps: u64) {
    for _ in 0..rng.below(steps) {
        let mut actions = Vec::new();
        progress(&cluster.world, &mut actions);
        if actions.is_empty() {
            cluster.step();
        } else {
            cluster.must(&actions[rng.index(actions.len())]);
        }
    }
}

#[test]
fn g9_changes_of_leader_one_upon_the_other_lose_no_acknowledged_name() {
    let (begun, ..) = Cluster::of_three();
    for seed in 0..20 {
        let (mut cluster, mut rng) = (begun.again(), Rng::new(seed));
        let mut calls = Vec::new();
        for round in 0..6 {
            let leader = cluster.leader().unwrap();
            let host = (leader + 1) % 3;
            calls.extend((0..20).map(|name| cluster.register(host, round * 20 + name)));
            // Some are decided, some under way, when the seat moves; links fail and come back meanwhile.
            drawn(&mut cluster, &mut rng, 40);
            cluster.must(&Action::Resign { node: leader });
            let a = u8::try_from(rng.below(3)).unwrap();
            cluster.world.apply(&Action::Break { a, b: (a + 1) % 3, nth: 0, keep: 0 });
            drawn(&mut cluster, &mut rng, 150);
            // The next one goes before its handoff has ended, as often as not.
            if let Some(next) = cluster.leader().filter(|next| *next != leader) {
                cluster.must(&Action::Resign { node: next });
            }
            cluster.rest();
        }
        let kept = calls.iter().filter(|call| cluster.granted(**call).is_some()).count();
        assert!(kept > 60, "seed {seed}: {kept} names were granted");
        assert_eq!(cluster.world.granted.len(), kept, "seed {seed}: `rest` has seen all of them");
    }
}

#[test]
fn b7_a_deposed_leader_that_has_not_heard_gives_no_old_answer_to_a_consistent_read() {
    let (mut cluster, former, host, other) = Cluster::of_three();
    cluster.obtain(host, 1);
    cluster.rest();
    // Cut from both others, it beats on and believes that it leads.
    cluster.hold(store_ops(former, CoreId::Elector));
    for node in [host, other] {
        cluster.cut(former, node);
    }
    cluster.until("another leads", |c| c.leader().is_some_and(|leader| leader != former));
    assert!(cluster.member(former).unwrap().is_serving());
    cluster.unregister(host, 1);
    cluster.until("it is free", |c| c.holder(host, 1).is_none());
    assert!(cluster.holder(former, 1).is_some(), "its own replica is old");
    let answer = cluster.asked(former, Call::Consistent { name: name_of(1) });
    assert!(!matches!(&answer, Answer::Consistent(Ok((_, Some(_))))), "an old answer: {answer:?}");
}

/// How often the member of a node had the store read to see who leads.
fn looks(cluster: &Cluster, node: NodeId) -> usize {
    cluster.noted(node, "member: has the store read").len()
}

fn leader_of(member: &Member<impl callsign::cores::Table>) -> Option<(Epoch, String)> {
    member.leader().map(|(epoch, leader)| (epoch, leader.to_string()))
}

#[test]
fn b6_a_message_of_a_former_epoch_is_dropped_and_one_of_a_later_epoch_makes_its_reader_look() {
    let (mut cluster, former, ..) = Cluster::of_three();
    let old = cluster.term().epoch;
    cluster.must(&Action::Resign { node: former });
    cluster.until("the seat moves", |c| c.term().epoch > old);
    cluster.rest();
    let (leader, epoch) = (cluster.leader().unwrap(), cluster.term().epoch);
    let reader = 3 - former - leader;
    let batch = |c: &Cluster, epoch, actor| {
        let prev = c.replica(reader).end();
        let (position, sessions) = (prev.position.next(), vec![Arc::new(c.session_id(leader))]);
        let request = RequestNumber(900 + actor);
        let ops = vec![Op::Register {
            name: name_of(1),
            session: 0,
            request,
            actor: Some(actor),
            kind: Kind(7),
            meta: None,
        }];
        let batch = Batch { epoch, nonce: Nonce(actor), position, prev, sessions, ops };
        Message::Replicate { epoch, position, batch: batch.encode() }
    };
    let (late, before) = (batch(&cluster, old, 1), looks(&cluster, reader));
    cluster.say(former, reader, late);
    assert!(cluster.holder(reader, 1).is_none(), "an old epoch's batch is dropped");
    assert_eq!(looks(&cluster, reader), before);
    let now = batch(&cluster, epoch, 2);
    cluster.say(leader, reader, now);
    assert_eq!(cluster.holder(reader, 1).map(|row| row.actor), Some(2), "the present epoch's is applied");
    let end = cluster.replica(reader).end();
    cluster.say(leader, reader, Message::Heartbeat { epoch: epoch.next(), end });
    assert!(
        looks(&cluster, reader) > before,
        "whoever hears of an epoch that it does not know reads who leads"
    );
}

#[test]
fn a_peer_that_lies_about_its_epoch_is_not_believed_and_whoever_leads_is_heard_as_before() {
    let (mut cluster, leader, host, liar) = Cluster::of_three();
    let (epoch, never) = (cluster.term().epoch, Epoch(1 << 62));
    let end = LogEnd { position: Position(1 << 62), nonce: Nonce(1) };
    let leads = Some((epoch, cluster.name(leader).to_string()));
    for to in [host, leader] {
        for epoch in [never, epoch, Epoch(1)] {
            cluster.say(liar, to, Message::Heartbeat { epoch, end });
        }
        cluster.say(liar, to, Message::TransferSnapshot { epoch: never });
        cluster.say(liar, to, Message::RunHandoff { epoch: never });
    }
    cluster.pass(SECOND / 200);
    for node in [host, leader] {
        assert_eq!(leader_of(cluster.member(node).unwrap()), leads, "node {node}");
    }
    let began = cluster.world.now;
    cluster.obtain(host, 1);
    assert!(cluster.world.now < began + SECOND / 50, "nobody waits for the liar");
    // The next leader is heard as soon as its term is read.
    cluster.must(&Action::Resign { node: leader });
    cluster.until("the seat moves", |c| c.term().epoch > epoch);
    cluster.obtain(host, 2);
}

#[test]
fn a_leader_that_is_heard_before_its_term_is_read_is_heard_when_it_is_and_the_term_is_read_at_once() {
    let (mut cluster, leader, host, _) = Cluster::of_three();
    let (epoch, before, end) = (cluster.term().epoch, looks(&cluster, host), cluster.last());
    for _ in 0..20 {
        cluster.say(leader, host, Message::Heartbeat { epoch: epoch.next(), end });
    }
    assert_eq!(looks(&cluster, host), before + 1, "once, although it is said often");
    let leads = |c: &Cluster| leader_of(c.member(host).unwrap());
    let name = cluster.name(leader).to_string();
    assert_eq!(leads(&cluster), Some((epoch, name.clone())));
    let mut view = cluster.member(host).unwrap().view().as_ref().clone();
    view.term.epoch = epoch.next();
    cluster.tell(host, Input::View(Arc::new(view)));
    assert_eq!(leads(&cluster), Some((epoch.next(), name)), "what it said counts now");
}
