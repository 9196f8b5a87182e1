//! Members that drain, and nodes that leave then.

use std::time::Duration;

use callsign::{
    RegisterError,
    cores::{Answer, Call, CallId, Drained, Granted},
};
use callsign_sim::world::{Action, NodeId, Setup, name_of};

use crate::cluster::{Cluster, SECOND, register};

const DRAIN_BOUND: Duration = Duration::from_secs(5);

fn drained(cluster: &mut Cluster, call: CallId) -> Drained {
    match cluster.answer(call) {
        Answer::Drained(drained) => drained,
        other => panic!("{other:?}"),
    }
}

fn is_turned_away(answer: &Answer) -> bool {
    matches!(answer, Answer::Registered(Err(RegisterError::Draining { .. })))
}

fn told(cluster: &Cluster, node: NodeId, actor: u64) -> Vec<&str> {
    cluster.noted(node, &format!("actor {actor} is told: "))
}

fn claims(cluster: &Cluster, node: NodeId) -> usize {
    cluster.member(node).unwrap().claims()
}

#[test]
fn a_leader_that_drains_is_followed_and_holds_its_names_until_it_leaves() {
    let (mut cluster, leader, ..) = Cluster::of_three();
    let kept = cluster.asked(leader, register(1, 1001));
    let Answer::Registered(Ok(Granted { token, .. })) = kept else { panic!("{kept:?}") };
    cluster.asked(leader, register(2, 1002));
    let call = cluster.ask(leader, Call::Drain, DRAIN_BOUND);
    let Drained::Led { by } = drained(&mut cluster, call) else { panic!("nobody followed") };
    assert_eq!(cluster.leader().map(|next| cluster.name(next)), Some(by.clone()));
    assert!(by != cluster.name(leader) && !cluster.member(leader).unwrap().is_serving());

    // It answers as before, but for new names.
    match cluster.asked(leader, register(3, 1003)) {
        Answer::Registered(Err(RegisterError::Draining { ask })) => {
            assert_eq!((ask.len(), &ask[0].node), (2, &by), "the leader first");
            let other = cluster.world.setup.id(ask[1].node.as_str()).unwrap();
            assert!(matches!(cluster.asked(other, register(3, 1003)), Answer::Registered(Ok(_))));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(cluster.asked(leader, register(1, 1001)), kept, "what it holds it still answers for");
    let taken = cluster.asked(leader, register(1, 1009));
    assert!(matches!(taken, Answer::Registered(Err(RegisterError::Taken { .. }))), "{taken:?}");
    let given_up = cluster.asked(leader, Call::Unregister { name: name_of(2) });
    assert!(matches!(given_up, Answer::Unregistered(Ok(_))), "{given_up:?}");
    let read = cluster.asked(leader, Call::Consistent { name: name_of(1) });
    assert!(matches!(read, Answer::Consistent(Ok((_, Some(entry)))) if entry.token() == token));
    let ready = cluster.ask(leader, Call::Ready, DRAIN_BOUND);
    assert_eq!(cluster.world.asides[&ready], Some(Answer::Ready(false)), "at once, and nobody is sent here");
    assert_eq!(told(&cluster, leader, 1001), ["Draining"]);
    assert_eq!(claims(&cluster, leader), 1);

    let epoch = cluster.term().epoch;
    cluster.must(&Action::Leave { node: leader });
    assert_eq!(cluster.asked(leader, Call::Leave), Answer::Left);
    assert_eq!(claims(&cluster, leader), 0);
    cluster.until("it is no member", |c| c.row(leader).is_none());
    assert_eq!(cluster.term().epoch, epoch, "nobody had to be elected for that");
}

#[test]
fn what_was_asked_before_is_decided_and_what_was_not_sent_is_asked_elsewhere() {
    let (mut cluster, _, host, _) = Cluster::of_three();
    let before: Vec<_> =
        (0..50).map(|name| cluster.ask(host, register(name, 1000 + u64::from(name)), DRAIN_BOUND)).collect();
    let call = cluster.ask(host, Call::Drain, DRAIN_BOUND);
    let after = cluster.ask(host, register(50, 1050), DRAIN_BOUND);
    assert!(matches!(drained(&mut cluster, call), Drained::Led { .. }));
    for call in before {
        assert!(matches!(cluster.answer(call), Answer::Registered(Ok(_))));
    }
    assert!(is_turned_away(&cluster.answer(after)));
    assert_eq!(claims(&cluster, host), 50);
    // Who holds a name only now is told, too.
    assert!((1000..1050).all(|actor| told(&cluster, host, actor) == ["Draining"]));
}

#[test]
fn a_node_that_cannot_reach_the_leader_refuses_what_it_has_not_sent() {
    let (mut cluster, leader, host, other) = Cluster::of_three();
    cluster.cut(host, leader);
    cluster.cut(host, other);
    let early = cluster.ask(host, register(1, 1001), DRAIN_BOUND * 4);
    cluster.pass(SECOND / 20);
    let call = cluster.ask(host, Call::Drain, DRAIN_BOUND);
    let early = cluster.answer(early);
    assert!(is_turned_away(&early), "{early:?}");
    assert_eq!(drained(&mut cluster, call), Drained::TimedOut, "it hears of nobody who serves");
}

#[test]
fn who_is_alone_has_drained_at_once() {
    let mut cluster = Cluster::formed(Setup::new(1), 1);
    cluster.asked(0, register(1, 1001));
    for _ in 0..2 {
        let (call, begun) = (cluster.ask(0, Call::Drain, DRAIN_BOUND), cluster.world.now);
        assert_eq!(drained(&mut cluster, call), Drained::Alone);
        assert!(cluster.world.now < begun + SECOND);
        assert!(cluster.holder(0, 1).is_some());
    }
}

#[test]
fn all_nodes_drain_at_once_and_the_seat_comes_to_rest() {
    let begun = Cluster::formed(Setup::new(5), 5);
    for steps in 0..20 {
        let mut cluster = begun.again();
        let epoch = cluster.term().epoch;
        let drain = |node| {
            (0..steps).for_each(|_| cluster.step());
            cluster.ask(node, Call::Drain, DRAIN_BOUND)
        };
        let calls: Vec<_> = (0..5).map(drain).collect();
        for call in calls {
            let drained = drained(&mut cluster, call);
            assert!(matches!(drained, Drained::Led { .. } | Drained::Alone), "{steps} steps: {drained:?}");
        }
        cluster.pass(SECOND * 2);
        let moved = cluster.term().epoch.0 - epoch.0;
        assert!(moved <= 5, "{steps} steps: the seat moved {moved} times");
        assert!(cluster.leader().is_some(), "{steps} steps: the last of them keeps it");
    }
}

#[test]
fn of_two_that_drain_one_leads_until_a_third_is_synced() {
    let mut cluster = Cluster::formed(Setup::new(3), 2);
    for call in [0, 1].map(|node| cluster.ask(node, Call::Drain, DRAIN_BOUND)) {
        drained(&mut cluster, call);
    }
    cluster.must(&Action::Start { node: 2 });
    cluster.until("the third leads", |c| c.leader() == Some(2));
    assert!(matches!(cluster.asked(2, register(1, 1001)), Answer::Registered(Ok(_))));
}

#[test]
fn a_store_that_is_gone_costs_no_more_than_the_bound() {
    let (mut cluster, leader, ..) = Cluster::of_three();
    for node in 0..3 {
        cluster.must(&Action::Outage { node, is_out: true });
    }
    let begun = cluster.world.now;
    let call = cluster.ask(leader, Call::Drain, DRAIN_BOUND);
    assert_eq!(drained(&mut cluster, call), Drained::TimedOut);
    let (due, now) = (begun + DRAIN_BOUND, cluster.world.now);
    assert!((due..due + SECOND).contains(&now), "asked at {begun:?}, drained at {now:?}");
    let begun = now;
    let asked = cluster.ask(leader, register(1, 1001), DRAIN_BOUND * 4);
    let left = cluster.ask(leader, Call::Leave, SECOND);
    assert_eq!(cluster.answer(left), Answer::Left);
    assert!(cluster.world.now < begun + SECOND * 2);
    assert!(is_turned_away(&cluster.answer(asked)));
}

#[test]
fn a_node_that_leaves_waits_for_what_is_undecided() {
    let (mut cluster, _, host, _) = Cluster::of_three();
    cluster.asked(host, register(1, 1001));
    let freed = cluster.ask(host, Call::Unregister { name: name_of(1) }, DRAIN_BOUND);
    let registered = cluster.ask(host, register(2, 1002), DRAIN_BOUND);
    cluster.must(&Action::Leave { node: host });
    assert_eq!(cluster.asked(host, Call::Leave), Answer::Left);
    assert!(matches!(cluster.answer(freed), Answer::Unregistered(Ok(_))), "freed, and said so");
    assert!(matches!(cluster.answer(registered), Answer::Registered(Ok(_))), "held, until it left");
}
