//! Histories of a whole cluster of cores.

use std::time::Duration;

use callsign_store::ids::Nonce;
use callsign_transport::Kind;

use crate::{
    core::{
        input::{Answer, Call, CallId, OnLapse},
        log::{Batch, BatchBuilder, Op},
        message::Message,
        table::RequestNumber,
    },
    error::RegisterError,
    tests::world::{World, name, other_than},
};

fn three(seed: u64) -> World {
    World::settled(seed, &["a", "b", "c"])
}

#[test]
fn a_name_registered_on_one_node_is_seen_on_all() {
    let mut world = three(1);
    let token = world.register("b", "pricing", 7).unwrap();
    assert_eq!(world.row("b", "pricing").unwrap().position, token);
    world.run_for(Duration::from_millis(5));
    for node in ["a", "b", "c"] {
        let row = world.row(node, "pricing").unwrap();
        assert_eq!((row.position, row.session.node.as_str(), row.actor), (token, "b", 7));
    }
}

#[test]
fn a_taken_name_is_refused_with_its_holder() {
    let mut world = three(2);
    let token = world.register("b", "x", 7).unwrap();
    let refused = world.register("c", "x", 8);
    assert!(matches!(refused, Err(RegisterError::Taken { holder, .. }) if holder.token == token));
}

#[test]
fn a_node_that_leaves_denies_no_name_it_has_given_up_by_leaving() {
    let mut world = three(2);
    world.register("b", "x", 7).unwrap();
    world.call("b", Call::Leave, Duration::from_secs(20));
    let late = [
        Call::Unregister { name: "x".into() },
        Call::Register { name: "y".into(), actor: 8, kind: Kind(7), on_lapse: OnLapse::Suspend },
        Call::Consistent { name: "x".into() },
    ];
    for call in late {
        let id = world.call("b", call.clone(), Duration::from_secs(20));
        assert_eq!(world.answer(id), Answer::Left, "{call:?}");
    }
}

#[test]
fn killing_the_leader_moves_the_seat_and_frees_its_names() {
    let mut world = three(3);
    let (leader, epoch) = world.leader().unwrap();
    world.register(leader.as_str(), "of-leader", 1).unwrap();
    let other = if leader == name("a") { "b" } else { "a" };
    world.register(other, "kept", 2).unwrap();
    world.kill(leader.as_str());
    world.settle();
    let (next, later) = world.leader().unwrap();
    assert!(next != leader && later > epoch);
    world.run_until("freed", Duration::from_secs(5), |w| w.row(other, "of-leader").is_none());
    assert!(world.row(other, "kept").is_some());
    world.register(other, "of-leader", 3).unwrap();
    world.check_replicas();
}

#[test]
fn g4_the_old_leader_settles_steps_down_and_no_acknowledged_name_is_lost() {
    let mut world = three(11);
    let (leader, epoch) = world.leader().unwrap();
    let host = other_than(&[&leader]);
    let calls: Vec<CallId> =
        (0..500).map(|i| world.begin_register(host, &format!("n{i}"), 1000 + i)).collect();
    world.run_until("some are decided", Duration::from_secs(5), |w| !w.answers.is_empty());
    world.resign(leader.as_str(), epoch);
    world.run_until("all are answered", Duration::from_secs(30), |w| {
        calls.iter().all(|call| w.answers.contains_key(call))
    });
    world.run_until("the seat moves", Duration::from_secs(5), |w| w.term().epoch > epoch);
    world.settle();
    let (next, later) = world.leader().unwrap();
    assert!(next != leader && later > epoch, "the seat moved");
    assert!(world.sent.get("transferred").is_some_and(|n| *n > 0), "the old leader said where it ended");
    assert!(!world.nodes[&leader].member().is_serving());
    for i in 0..500 {
        let row = world.row(next.as_str(), &format!("n{i}"));
        assert!(row.is_some_and(|row| row.actor == 1000 + i), "n{i} is kept");
    }
}

#[test]
fn g5_a_successor_serves_with_all_names_although_the_old_leader_never_answers() {
    let mut world = three(12);
    let (leader, _) = world.leader().unwrap();
    let host = other_than(&[&leader]);
    for i in 0..20 {
        world.register(host, &format!("n{i}"), 100 + i).unwrap();
    }
    // Gone without a word, and its session stays open: only its silence speaks.
    world.crash(leader.as_str());
    world.run_until("a successor", Duration::from_secs(10), |w| w.leader().is_some_and(|(l, _)| l != leader));
    let (next, _) = world.leader().unwrap();
    for i in 0..20 {
        assert!(world.row(next.as_str(), &format!("n{i}")).is_some());
    }
    world.register(host, "after", 200).unwrap();
}

#[test]
fn g5_a_successor_does_not_wait_for_an_old_leader_that_hangs_with_its_link_up() {
    let mut world = three(12);
    let (leader, epoch) = world.leader().unwrap();
    let host = other_than(&[&leader]);
    world.register(host, "before", 100).unwrap();
    // The successor is linked to it, and asks it for its end.
    world.hung.insert(leader.clone());
    world.resign(leader.as_str(), epoch);
    let serves = |w: &World| w.nodes.iter().any(|(n, node)| *n != leader && node.member().is_serving());
    world.run_until("a successor serves", Duration::from_secs(5), serves);
    assert!(world.sent.get("transfer_snapshot").is_some_and(|n| *n > 0), "the old leader was asked");
    let (next, _) = world.leader().unwrap();
    assert!(world.row(next.as_str(), "before").is_some());
}

#[test]
fn g6_a_leader_serves_only_after_its_epoch_is_open_and_hosts_hear_of_it() {
    let mut world = three(13);
    for _ in 0..4 {
        let (leader, epoch) = world.leader().unwrap();
        world.resign(leader.as_str(), epoch);
        world.run_until("another epoch serves", Duration::from_secs(10), |w| {
            // Whoever serves has applied an entry of its own epoch, and whoever speaks to it has heard that.
            for n in w.nodes.values().filter(|n| n.member().is_serving()) {
                let (served, _) = n.member().leader().unwrap();
                assert_eq!(n.member().replica().epoch(), served);
            }
            w.leader().is_some_and(|(_, e)| e > epoch)
        });
        world.settle();
    }
    assert!(world.sent.get("apply_names_snapshot").is_some_and(|n| *n >= 8));
}

#[test]
fn g7_a_joiner_takes_a_snapshot_while_names_change_and_ends_with_the_same_table() {
    let mut world = three(14);
    let (leader, _) = world.leader().unwrap();
    let calls: Vec<CallId> =
        (0..9000).map(|i| world.begin_register(leader.as_str(), &format!("n{i}"), 10_000 + i)).collect();
    world.run_until("all registered", Duration::from_secs(20), |w| {
        calls.iter().all(|call| w.answers.contains_key(call))
    });
    // So that the log does not go back to the beginning any more.
    for i in 0..600 {
        world.register(leader.as_str(), &format!("m{i}"), 1).unwrap();
    }
    world.run_until("the log is cut", Duration::from_secs(10), |w| w.floor() > 300);
    world.start("d");
    // The walk has begun; now change what it has passed and what it has not.
    world.run_until("a snapshot runs", Duration::from_secs(10), |w| {
        w.sent.get("snapshot_chunk").is_some_and(|n| *n > 0)
    });
    for i in 0..300 {
        let what = format!("n{}", i * 30);
        world.call(leader.as_str(), Call::Unregister { name: what.as_str().into() }, Duration::from_secs(20));
        world.begin_register("b", &format!("new{i}"), 50_000 + i);
    }
    world.settle();
    world.run_for(Duration::from_secs(2));
    world.settle();
    assert_eq!(world.table("d"), world.table(leader.as_str()));
    assert_eq!(world.table("d").len(), 9600);
    assert!(
        world.nodes[&name("d")].events.iter().any(|e| matches!(e, crate::Event::SnapshotInstalled { .. }))
    );
}

#[test]
fn f6_a_leader_that_restarts_empty_never_distributes_an_empty_table() {
    let mut world = three(15);
    let (leader, epoch) = world.leader().unwrap();
    let host = other_than(&[&leader]);
    world.register(host, "kept", 1).unwrap();
    // Restarted before anybody reported it: its new session follows the old one, and it joins under its old name.
    let session = world.crash(leader.as_str()).unwrap();
    world.close_session_quietly(&session);
    world.start(leader.as_str());
    world.settle();
    world.run_for(Duration::from_secs(2));
    let (_, later) = world.leader().unwrap();
    assert!(later > epoch, "its old epoch is not continued");
    for node in ["a", "b", "c"] {
        assert!(world.row(node, "kept").is_some(), "kept on {node}");
    }
}

#[test]
fn a_registry_whose_every_session_ended_opens_again_empty_and_positions_go_on() {
    let mut world = three(16);
    let token = world.register("a", "x", 1).unwrap();
    for node in ["a", "b", "c"] {
        world.kill(node);
    }
    world.run_for(Duration::from_secs(1));
    for node in ["a", "b"] {
        world.start(node);
    }
    world.settle();
    assert!(world.row("a", "x").is_none());
    let later = world.register("b", "x", 2).unwrap();
    assert!(later > token, "the fencing token only grows");
}

#[test]
fn a_member_that_lost_its_base_with_all_the_others_gone_lets_the_registry_go_on() {
    let mut world = World::settled(17, &["a", "b"]);
    let (leader, _) = world.leader().unwrap();
    let follower = if leader == name("a") { "b" } else { "a" };
    // The follower loses its session while cut off, and the log is cut behind its back.
    world.cut("a", "b");
    world.lose_session(follower);
    world.run_until("its row is unsynced", Duration::from_secs(10), |w| {
        !w.nodes[&name(follower)].member().is_synced()
    });
    for i in 0..600 {
        world.register(leader.as_str(), &format!("n{i}"), 100 + i).unwrap();
    }
    world.run_until("the log is cut", Duration::from_secs(20), |w| w.floor() > 300);
    world.kill(leader.as_str());
    world.run_until("the follower serves", Duration::from_secs(30), |w| {
        w.leader().is_some_and(|(l, _)| l == name(follower))
    });
    world.register(follower, "again", 5000).unwrap();
}

#[test]
fn the_log_is_cut_behind_its_synced_members() {
    let mut world = three(18);
    for i in 0..700 {
        world.register("a", &format!("n{}", i % 40), 1).unwrap();
        world.unregister("a", &format!("n{}", i % 40));
    }
    world.run_until("cut", Duration::from_secs(10), |w| w.floor() > 1000);
    world.check_replicas();
    world.start("d");
    world.settle();
    assert_eq!(world.table("d"), world.table("a"));
}

#[test]
fn a_request_outlives_its_leader_and_gets_one_verdict() {
    for seed in 20..40 {
        let mut world = three(seed);
        let (leader, _) = world.leader().unwrap();
        let host = other_than(&[&leader]);
        let calls: Vec<CallId> =
            (0..50).map(|i| world.begin_register(host, &format!("n{i}"), 100 + i)).collect();
        let pause = world.draw(1500);
        world.run_for(Duration::from_micros(pause));
        world.kill(leader.as_str());
        for (i, call) in calls.into_iter().enumerate() {
            let answer = world.answer(call);
            assert!(matches!(answer, Answer::Registered(Ok(_))), "n{i}: {answer:?}");
            assert_eq!(world.row(host, &format!("n{i}")).unwrap().actor, 100 + i as u64);
        }
    }
}

#[test]
fn an_actor_that_ends_before_its_verdict_leaves_no_name() {
    let mut world = three(41);
    let (leader, _) = world.leader().unwrap();
    let host = other_than(&[&leader]);
    let call = world.begin_register(host, "x", 5);
    world.run_for(Duration::from_micros(1));
    world.end_actor(host, 5);
    assert_eq!(world.answer(call), Answer::Registered(Err(RegisterError::ActorEnded)));
    world.run_until("freed", Duration::from_secs(5), |w| w.row(leader.as_str(), "x").is_none());
    assert!(world.register(leader.as_str(), "x", 6).is_ok());
}

#[test]
fn an_actor_that_ends_frees_its_names_everywhere() {
    let mut world = three(42);
    for what in ["x", "y"] {
        world.register("b", what, 5).unwrap();
    }
    world.end_actor("b", 5);
    world.run_until("freed", Duration::from_secs(5), |w| {
        ["a", "b", "c"].iter().all(|node| w.table(node).is_empty())
    });
}

#[test]
fn a_suspended_actor_hears_of_the_lapse_and_of_the_resumption_and_keeps_its_name() {
    use crate::core::input::Notice;
    let mut world = three(43);
    world.register("b", "x", 5).unwrap();
    world.set_trust("b", false);
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.nodes[&name("b")].notices, [(5, Notice::Lapsed)]);
    world.set_trust("b", true);
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.nodes[&name("b")].notices, [(5, Notice::Lapsed), (5, Notice::Resumed)]);
    assert!(world.row("a", "x").is_some());
}

#[test]
fn a_grant_waits_for_trust_and_is_not_passed_on_by_a_lapsed_session() {
    let mut world = three(44);
    let (leader, _) = world.leader().unwrap();
    let host = other_than(&[&leader]);
    let call = world.begin_register(host, "x", 5);
    world.run_for(Duration::from_micros(1));
    world.set_trust(host, false);
    world.run_for(Duration::from_secs(1));
    assert!(world.row(host, "x").is_some(), "it is granted in the log");
    assert!(!world.answers.contains_key(&call), "and not passed on");
    world.set_trust(host, true);
    assert!(matches!(world.answer(call), Answer::Registered(Ok(_))));
}

#[test]
fn a_request_of_a_session_that_is_lost_ends_as_unknown_and_the_name_is_freed() {
    let mut world = three(45);
    let (leader, _) = world.leader().unwrap();
    let host = other_than(&[&leader]);
    let call = world.begin_register(host, "x", 5);
    world.run_for(Duration::from_micros(1));
    world.lose_session(host);
    let answer = world.answer(call);
    assert!(matches!(answer, Answer::Registered(Err(RegisterError::SessionLost { .. }))), "{answer:?}");
    world.settle();
    world.run_for(Duration::from_secs(2));
    assert!(world.register(leader.as_str(), "x", 6).is_ok());
}

#[test]
fn a_consistent_read_sees_what_was_acknowledged_before_it_began() {
    for seed in 50..70 {
        let mut world = three(seed);
        let token = world.register("a", "x", 5).unwrap();
        let read = Call::Consistent { name: "x".into() };
        let call = world.call("c", read, Duration::from_secs(5));
        let Answer::Consistent(Ok((_, Some(entry)))) = world.answer(call) else { panic!("seed {seed}") };
        assert_eq!(entry.token, token);
    }
}

#[test]
fn a_consistent_read_behind_a_cut_link_is_answered_from_the_log() {
    let mut world = three(71);
    let (leader, _) = world.leader().unwrap();
    let reader = other_than(&[&leader]);
    world.cut(leader.as_str(), reader);
    world.run_for(Duration::from_millis(5));
    let token = world.register(leader.as_str(), "x", 5).unwrap();
    let call = world.call(reader, Call::Consistent { name: "x".into() }, Duration::from_secs(5));
    let answer = world.answer(call);
    let Answer::Consistent(Ok((_, Some(entry)))) = answer else { panic!("{answer:?}") };
    assert_eq!(entry.token, token);
}

#[test]
fn b6_a_message_of_a_former_epoch_is_dropped_and_one_of_a_later_epoch_makes_its_reader_look() {
    let mut world = three(13);
    let (former, old) = world.leader().unwrap();
    world.resign(former.as_str(), old);
    world.run_until("another leads", Duration::from_secs(10), |w| w.leader().is_some_and(|(_, e)| e > old));
    world.settle();
    let (leader, epoch) = world.leader().unwrap();
    let reader = other_than(&[&leader, &former]);
    let batch = |w: &World, epoch, actor| {
        let prev = w.nodes[&name(reader)].member().replica().end();
        let mut builder = BatchBuilder::default();
        let session = builder.session(&w.nodes[&leader].session.clone().unwrap().into());
        let request = RequestNumber(900 + actor);
        builder.push(Op::Register { name: "x".into(), session, request, actor, kind: Kind(7) });
        let BatchBuilder { sessions, ops, .. } = builder;
        let position = prev.position.next();
        let batch = Batch { epoch, nonce: Nonce(actor), position, prev, sessions, ops };
        Message::Replicate { epoch, position, batch: batch.encode() }
    };
    let (late, looks) = (batch(&world, old, 1), world.looks);
    world.deliver(former.as_str(), &name(reader), late);
    world.run_for(Duration::from_millis(1));
    assert!(world.row(reader, "x").is_none(), "an old epoch's batch is dropped");
    assert_eq!(world.looks, looks);
    let now = batch(&world, epoch, 2);
    world.deliver(leader.as_str(), &name(reader), now);
    world.run_for(Duration::from_millis(1));
    assert_eq!(world.row(reader, "x").map(|row| row.actor), Some(2), "the present epoch's is applied");
    let end = world.nodes[&name(reader)].member().replica().end();
    let later = Message::Heartbeat { epoch: epoch.next(), end };
    world.deliver(leader.as_str(), &name(reader), later);
    world.run_for(Duration::from_millis(1));
    assert!(world.looks > looks, "whoever hears of an epoch that it does not know reads who leads");
}

#[test]
fn b7_a_deposed_leader_that_has_not_heard_gives_no_old_answer_to_a_consistent_read() {
    let mut world = three(14);
    let (former, old) = world.leader().unwrap();
    let host = other_than(&[&former]);
    world.register(host, "x", 1).unwrap();
    // Cut from both others, it beats on and believes that it leads.
    for other in ["a", "b", "c"].into_iter().filter(|node| *node != former.as_str()) {
        world.cut(former.as_str(), other);
    }
    world.unheard.insert(former.clone());
    world.run_until("another leads", Duration::from_secs(20), |w| {
        w.leader().is_some_and(|(l, _)| l != former)
    });
    assert!(world.nodes[&former].member().is_serving() && world.leader().unwrap().1 > old);
    world.unregister(host, "x");
    assert!(world.row(former.as_str(), "x").is_some(), "its own replica is old");
    let call = world.call(former.as_str(), Call::Consistent { name: "x".into() }, Duration::from_secs(5));
    let answer = world.answer(call);
    assert!(!matches!(&answer, Answer::Consistent(Ok((_, Some(_))))), "an old answer: {answer:?}");
}

#[test]
fn g9_changes_of_leader_one_upon_the_other_lose_no_acknowledged_name() {
    for seed in 200..230 {
        let mut world = three(seed);
        let mut kept = Vec::new();
        for round in 0..6_u64 {
            let Some((leader, epoch)) = world.leader() else { panic!("seed {seed}: nobody leads") };
            let host = other_than(&[&leader]);
            let calls: Vec<_> = (0..20)
                .map(|i| (i, world.begin_register(host, &format!("n{round}-{i}"), round * 100 + i)))
                .collect();
            // Some are decided, some under way, when the seat moves; links fail and come back meanwhile.
            let pause = Duration::from_micros(world.draw(3_000));
            world.run_for(pause);
            world.resign(leader.as_str(), epoch);
            let (a, b) = [("a", "b"), ("b", "c"), ("a", "c")][usize::try_from(world.draw(3)).unwrap()];
            world.cut(a, b);
            let pause = Duration::from_micros(world.draw(20_000));
            world.run_for(pause);
            // The next one goes before its handoff has ended, as often as not.
            if let Some((next, later)) = world.leader().filter(|(next, _)| *next != leader) {
                world.resign(next.as_str(), later);
            }
            world.link(a, b);
            world.run_until("all are answered", Duration::from_secs(60), |w| {
                calls.iter().all(|(_, call)| w.answers.contains_key(call))
            });
            for (i, call) in calls {
                if matches!(world.answer(call), Answer::Registered(Ok(_))) {
                    kept.push((format!("n{round}-{i}"), round * 100 + i));
                }
            }
            world.settle();
        }
        let (leader, _) = world.leader().unwrap();
        assert!(kept.len() > 60, "seed {seed}: {} names were granted", kept.len());
        for (name, actor) in &kept {
            let row = world.row(leader.as_str(), name);
            assert!(row.is_some_and(|row| row.actor == *actor), "seed {seed}: {name} is lost");
        }
        world.check_replicas();
    }
}
