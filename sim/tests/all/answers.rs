//! What callers and actors are told, to the word.

use std::time::Duration;

use callsign::{
    RegisterError, UnregisterError,
    cores::{Answer, Call, Granted, Input},
};
use callsign_sim::{
    oracle::Outcome,
    world::{Action, CoreId, NodeId, Setup, name_of},
};
use callsign_store::ids::Position;

use crate::cluster::{Cluster, SECOND, logs, register, store_ops};

fn unregister(name: u8) -> Call {
    Call::Unregister { name: name_of(name) }
}

fn consistent(name: u8) -> Call {
    Call::Consistent { name: name_of(name) }
}

fn token(answer: &Answer) -> Position {
    match answer {
        Answer::Registered(Ok(Granted { token, .. })) => *token,
        Answer::Consistent(Ok((_, Some(entry)))) => entry.token(),
        other => panic!("{other:?}"),
    }
}

fn is_watched(cluster: &Cluster, node: NodeId, actor: u64) -> bool {
    cluster.world.process(node).unwrap().parts.as_ref().unwrap().watched.contains(&actor)
}

#[test]
fn a_name_is_read_at_once_seen_on_all_nodes_and_refused_with_its_holder() {
    let (mut cluster, _, host, other) = Cluster::of_three();
    let granted = token(&cluster.asked(host, register(1, 1001)));
    assert_eq!(token(&cluster.asked(other, consistent(1))), granted);
    cluster.rest();
    for node in 0..3 {
        let row = cluster.holder(node, 1).unwrap();
        assert_eq!((row.position, &row.session.node, row.actor), (granted, &cluster.name(host), 1001));
    }
    let call = cluster.register(other, 1);
    cluster.rest();
    assert_eq!(cluster.outcome(call), Some(Outcome::Taken { token: granted }));
}

#[test]
fn a_consistent_read_behind_a_cut_link_is_answered_from_the_log() {
    let (mut cluster, leader, reader, _) = Cluster::of_three();
    cluster.cut(leader, reader);
    let granted = token(&cluster.asked(leader, register(1, 1001)));
    assert_eq!(token(&cluster.asked(reader, consistent(1))), granted);
}

#[test]
fn a_node_that_leaves_denies_no_name_it_has_given_up_by_leaving() {
    let (mut cluster, _, host, _) = Cluster::of_three();
    cluster.register(host, 1);
    cluster.rest();
    cluster.must(&Action::Leave { node: host });
    for call in [unregister(1), register(2, 1002), consistent(1)] {
        assert_eq!(cluster.asked(host, call.clone()), Answer::Left, "{call:?}");
    }
}

#[test]
fn an_actor_that_ends_frees_its_names_everywhere_and_gets_none_that_is_under_way() {
    let (mut cluster, leader, host, _) = Cluster::of_three();
    for name in [1, 2] {
        token(&cluster.asked(host, register(name, 1001)));
    }
    let call = cluster.ask(host, register(3, 1001), SECOND);
    cluster.tell(host, Input::ActorEnded { actor: 1001 });
    assert_eq!(cluster.answer(call), Answer::Registered(Err(RegisterError::ActorEnded)));
    cluster.pass(SECOND);
    for node in 0..3 {
        assert!(cluster.replica(node).count() == 0, "node {node}");
    }
    token(&cluster.asked(leader, register(3, 1002)));
}

#[test]
fn an_actor_that_holds_a_name_stays_watched_whatever_becomes_of_others() {
    let (mut cluster, leader, host, _) = Cluster::of_three();
    // It gives one up while it asks for another.
    token(&cluster.asked(host, register(1, 1001)));
    let call = cluster.ask(host, register(2, 1001), SECOND);
    cluster.ask(host, unregister(1), SECOND);
    token(&cluster.answer(call));
    assert!(is_watched(&cluster, host, 1001));
    // It is refused one, and gets another at once.
    token(&cluster.asked(leader, register(3, 1002)));
    let [refused, granted] = [3, 4].map(|name| cluster.ask(host, register(name, 1003), SECOND));
    assert!(matches!(cluster.answer(refused), Answer::Registered(Err(RegisterError::Taken { .. }))));
    token(&cluster.answer(granted));
    assert!(is_watched(&cluster, host, 1003));
}

#[test]
fn a_suspended_actor_hears_of_the_lapse_and_of_the_resumption_and_keeps_its_name() {
    let (mut cluster, leader, host, _) = Cluster::of_three();
    token(&cluster.asked(host, register(1, 1001)));
    let told = |c: &Cluster| c.noted(host, "actor 1001 is told: ").join(", ");
    cluster.must(&Action::Outage { node: host, is_out: true });
    cluster.until("it hears of the lapse", |c| told(c) == "Lapsed");
    cluster.must(&Action::Outage { node: host, is_out: false });
    cluster.until("it hears of the resumption", |c| told(c) == "Lapsed, Resumed");
    cluster.rest();
    assert!(cluster.holder(leader, 1).is_some());
}

/// A host asks for a name, and gives one up. Its session lapses, and comes back or is lost, before the leader has committed that.
#[test]
fn a_grant_waits_for_trust_and_what_was_asked_in_a_session_that_is_lost_ends_as_unknown() {
    for is_lost in [false, true] {
        let (mut cluster, leader, host, _) = Cluster::of_three();
        token(&cluster.asked(host, register(1, 1001)));
        cluster.hold(store_ops(leader, CoreId::Member));
        let granted = cluster.ask(host, register(2, 1002), SECOND * 20);
        let freed = cluster.ask(host, unregister(1), SECOND * 20);
        cluster.until("a commit", |c| c.commit_of(leader, CoreId::Member, logs).is_some());
        cluster.must(&Action::Outage { node: host, is_out: true });
        let is_trusted = |c: &Cluster| c.world.process(host).unwrap().trusted(c.world.local(host)).is_some();
        cluster.until("its session lapses", |c| !is_trusted(c));
        if is_lost {
            cluster.until("its session is closed", |c| !c.session(host).unwrap().open);
            cluster.must(&Action::Outage { node: host, is_out: false });
            let (granted, freed) = (cluster.answer(granted), cluster.answer(freed));
            assert!(
                matches!(granted, Answer::Registered(Err(RegisterError::SessionLost { .. }))),
                "{granted:?}"
            );
            assert!(matches!(freed, Answer::Unregistered(Err(UnregisterError::Pending { .. }))), "{freed:?}");
            cluster.rest();
            for name in [1, 2] {
                token(&cluster.asked(leader, register(name, 1003)));
            }
        } else {
            cluster.release();
            let before = cluster.arrived(host, "verdicts");
            cluster.until("the verdicts arrive", |c| c.arrived(host, "verdicts") > before + 1);
            assert!(cluster.holder(host, 2).is_some(), "it is granted in the log");
            assert!(!is_trusted(&cluster) && cluster.world.asides[&granted].is_none(), "it is not passed on");
            cluster.must(&Action::Outage { node: host, is_out: false });
            token(&cluster.answer(granted));
            assert!(matches!(cluster.answer(freed), Answer::Unregistered(Ok(_))));
        }
    }
}

#[test]
fn a_register_that_ends_because_nothing_was_sent_is_not_sent_later() {
    let mut cluster = Cluster::formed(Setup::new(2), 1);
    cluster.hold(store_ops(1, CoreId::Elector));
    cluster.must(&Action::Start { node: 1 });
    cluster.until("it has opened its session", |c| c.member(1).is_some());
    let ends = cluster.ask(1, register(1, 1001), Duration::from_micros(10));
    let later = cluster.ask(1, register(1, 1002), SECOND * 20);
    assert_eq!(cluster.answer(ends), Answer::Registered(Err(RegisterError::NotSynced)));
    cluster.release();
    // Who waited behind it is not forgotten.
    let granted = token(&cluster.answer(later));
    cluster.pass(SECOND * 3);
    let row = cluster.holder(1, 1).unwrap();
    assert_eq!((row.actor, row.position), (1002, granted));
}
