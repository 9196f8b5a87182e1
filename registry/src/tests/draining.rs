//! Nodes that drain: of cores, and of nodes in one process under a paused clock.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use callsign_store::{Store, ids::NodeName};
use callsign_transport::Kind;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::{
    Drained, JoinError, Notice, RegisterError, RegisterOptions, Registry, Singleton, SingletonError,
    UnregisterError, WhenLapsed,
    core::input::{Answer, Call, CallId, Notice as ActorNotice, OnLapse},
    tests::{
        driver::{Cluster, Counter, SOON, counter, until},
        world::{World, name},
    },
};

const BOUND: Duration = Duration::from_secs(5);

fn drain(world: &mut World, node: &NodeName) -> CallId {
    world.call(node.as_str(), Call::Drain, BOUND)
}

fn drained(world: &mut World, call: CallId) -> Drained {
    match world.answer(call) {
        Answer::Drained(drained) => drained,
        other => panic!("{other:?}"),
    }
}

fn followers(world: &World) -> (NodeName, Vec<NodeName>) {
    let (leader, _) = world.leader().unwrap();
    let others = world.nodes.keys().filter(|node| **node != leader).cloned().collect();
    (leader, others)
}

#[test]
fn a_leader_that_drains_is_followed_and_holds_its_names_until_it_leaves() {
    let mut world = World::settled(1, &["a", "b", "c"]);
    let (leader, others) = followers(&world);
    let kept = world.register(leader.as_str(), "kept", 1).unwrap();
    world.register(leader.as_str(), "given-up", 2).unwrap();
    let call = drain(&mut world, &leader);
    let Drained::Led { by } = drained(&mut world, call) else { panic!("nobody followed") };
    assert!(others.contains(&by) && world.nodes[&by].member().is_serving());
    assert!(!world.nodes[&leader].member().is_serving());

    // It answers as before, but for new names.
    match world.register(leader.as_str(), "new", 3) {
        Err(RegisterError::Draining { ask }) => {
            let ask: Vec<_> = ask.into_iter().map(|elsewhere| elsewhere.node).collect();
            assert_eq!(ask.len(), 2);
            assert_eq!(ask[0], by, "the leader first");
            world.register(ask[1].as_str(), "new", 3).unwrap();
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        world.register(leader.as_str(), "kept", 1).unwrap(),
        kept,
        "what it holds it still answers for"
    );
    assert!(matches!(world.register(leader.as_str(), "kept", 9), Err(RegisterError::Taken { .. })));
    assert!(matches!(world.unregister(leader.as_str(), "given-up"), Answer::Unregistered(Ok(_))));
    let read = world.call(leader.as_str(), Call::Consistent { name: "kept".into() }, BOUND);
    assert!(matches!(world.answer(read), Answer::Consistent(Ok((_, Some(entry)))) if entry.token == kept));
    let ready = world.call(leader.as_str(), Call::Ready, BOUND);
    assert_eq!(world.answer(ready), Answer::Ready(false), "at once, and nobody is sent here");
    assert!(world.nodes[&leader].notices.contains(&(1, ActorNotice::Draining)));
    assert_eq!(world.nodes[&leader].member().claims(), 1);

    let left = world.call(leader.as_str(), Call::Leave, Duration::from_secs(1));
    assert_eq!(world.answer(left), Answer::Left);
    assert_eq!(world.nodes[&leader].member().claims(), 0);
    let (epoch, row) = (world.term().epoch, world.keys.member(&leader));
    world.run_until("it is no member", BOUND, |w| w.store.get(&row).is_none());
    assert_eq!(world.term().epoch, epoch, "nobody had to be elected for that");
}

#[test]
fn what_was_asked_before_is_decided_and_what_was_not_sent_is_asked_elsewhere() {
    let mut world = World::settled(2, &["a", "b", "c"]);
    let (_, others) = followers(&world);
    let host = others[0].clone();
    let before: Vec<CallId> =
        (0..50).map(|i| world.begin_register(host.as_str(), &format!("n{i}"), 100 + i)).collect();
    let call = drain(&mut world, &host);
    let after = world.begin_register(host.as_str(), "late", 1);
    assert!(matches!(drained(&mut world, call), Drained::Led { .. }));
    for call in before {
        assert!(matches!(world.answer(call), Answer::Registered(Ok(_))));
    }
    assert!(matches!(world.answer(after), Answer::Registered(Err(RegisterError::Draining { .. }))));
    assert_eq!(world.nodes[&host].member().claims(), 50);
    assert_eq!(world.nodes[&host].notices.len(), 50, "who holds a name only now is told, too");
}

#[test]
fn a_node_that_cannot_reach_the_leader_refuses_what_it_has_not_sent() {
    let mut world = World::settled(3, &["a", "b", "c"]);
    let (leader, others) = followers(&world);
    let host = others[0].as_str().to_owned();
    world.cut(&host, leader.as_str());
    world.cut(&host, others[1].as_str());
    world.run_for(Duration::from_millis(50));
    let early = world.begin_register(&host, "x", 7);
    world.run_for(Duration::from_millis(50));
    let call = drain(&mut world, &others[0]);
    let error = world.answer(early);
    assert!(matches!(error, Answer::Registered(Err(RegisterError::Draining { .. }))), "{error:?}");
    assert_eq!(drained(&mut world, call), Drained::TimedOut, "it hears of nobody who serves");
}

#[test]
fn who_is_alone_has_drained_at_once() {
    let mut world = World::settled(4, &["a"]);
    let token = world.register("a", "x", 7).unwrap();
    let begun = world.now;
    let call = drain(&mut world, &name("a"));
    assert_eq!(drained(&mut world, call), Drained::Alone);
    assert!(world.now.since(begun) < Duration::from_secs(1));
    assert_eq!(world.row("a", "x").unwrap().position, token);
    let again = drain(&mut world, &name("a"));
    assert_eq!(drained(&mut world, again), Drained::Alone);
}

#[test]
fn all_nodes_drain_at_once_and_the_seat_comes_to_rest() {
    for seed in 0..20 {
        let mut world = World::settled(seed, &["a", "b", "c", "d", "e"]);
        let epoch = world.term().epoch;
        let nodes: Vec<_> = world.nodes.keys().cloned().collect();
        let calls: Vec<_> = nodes.iter().map(|node| drain(&mut world, node)).collect();
        for call in calls {
            let drained = drained(&mut world, call);
            assert!(matches!(drained, Drained::Led { .. } | Drained::Alone), "seed {seed}: {drained:?}");
        }
        world.run_for(Duration::from_secs(2));
        let moved = world.term().epoch.0 - epoch.0;
        assert!(moved <= 5, "seed {seed}: the seat moved {moved} times");
        assert!(world.leader().is_some(), "seed {seed}: the last of them keeps it");
    }
}

#[test]
fn of_two_that_drain_one_leads_until_a_third_is_synced() {
    let mut world = World::settled(5, &["a", "b"]);
    let calls: Vec<_> = ["a", "b"].map(|node| drain(&mut world, &name(node))).into();
    for call in calls {
        drained(&mut world, call);
    }
    world.start("c");
    world.run_until("c leads", BOUND, |w| w.leader().is_some_and(|(leader, _)| leader == name("c")));
    world.register("c", "x", 7).unwrap();
}

#[test]
fn a_store_that_is_gone_costs_no_more_than_the_bound() {
    let mut world = World::settled(6, &["a", "b", "c"]);
    let (leader, _) = followers(&world);
    world.faults.unavailable = 1000;
    let begun = world.now;
    let call = drain(&mut world, &leader);
    assert_eq!(drained(&mut world, call), Drained::TimedOut);
    let took = world.now.since(begun);
    assert!(took >= BOUND && took < BOUND + Duration::from_secs(1), "{took:?}");
    let begun = world.now;
    let asked = world.begin_register(leader.as_str(), "x", 7);
    let left = world.call(leader.as_str(), Call::Leave, Duration::from_secs(1));
    assert_eq!(world.answer(left), Answer::Left);
    assert!(world.now.since(begun) < Duration::from_secs(2));
    assert!(matches!(world.answer(asked), Answer::Registered(Err(RegisterError::Draining { .. }))));
}

#[test]
fn a_node_that_leaves_waits_for_what_is_undecided() {
    let mut world = World::settled(7, &["a", "b", "c"]);
    let (_, others) = followers(&world);
    let host = others[0].as_str().to_owned();
    world.register(&host, "x", 7).unwrap();
    let freed = world.call(&host, Call::Unregister { name: "x".into() }, BOUND);
    let kind = Kind(7);
    let register = Call::Register { name: "y".into(), actor: 8, kind, on_lapse: OnLapse::Suspend };
    let registered = world.call(&host, register, BOUND);
    let left = world.call(&host, Call::Leave, Duration::from_secs(1));
    assert_eq!(world.answer(left), Answer::Left);
    assert!(matches!(world.answer(freed), Answer::Unregistered(Ok(_))), "freed, and said so");
    assert!(matches!(world.answer(registered), Answer::Registered(Ok(_))), "held, until it left");
}

// ---- nodes

async fn leading(nodes: &[Registry]) -> usize {
    until("somebody leads", || nodes.iter().any(|node| node.status().leads)).await;
    nodes.iter().position(|node| node.status().leads).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_drains_tells_its_actors_and_whoever_waits_for_it() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let node = &nodes[leading(&nodes).await];
    let (heard, actor) = (Arc::new(Mutex::new(Vec::new())), counter().await);
    let told = heard.clone();
    let options = RegisterOptions {
        when_lapsed: WhenLapsed::Tell(Arc::new(move |notice| told.lock().unwrap().push(notice))),
        ..RegisterOptions::default()
    };
    let registration = node.register_with("x", &actor, options).await.unwrap();
    let waits = {
        let node = node.clone();
        tokio::spawn(async move { node.drain_started().await })
    };
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());

    let Drained::Led { by } = node.drain().await else { panic!("nobody followed") };
    waits.await.unwrap();
    node.drain_started().await; // also who asks later
    assert_eq!(*heard.lock().unwrap(), [Notice::Draining]);
    assert_eq!(registration.check(), Ok(()), "the name is held");
    assert!(node.status().draining && !node.ready(SOON).await);
    let refused = node.register("y", &actor).await.unwrap_err();
    assert!(matches!(&refused, RegisterError::Draining { ask } if ask[0].node == by), "{refused}");
    assert!(matches!(node.join_beside("other").await, Err(JoinError::Left)));

    // The name moves while both live.
    let successor = nodes.iter().find(|other| other.node() == by.as_str()).unwrap();
    until("everybody can see it", || {
        successor.members().iter().any(|member| member.draining && member.node.as_str() == node.node())
    })
    .await;
    node.unregister("x").await.unwrap();
    let moved = successor.register("x", &counter().await).await.unwrap();
    assert!(moved.token() > registration.token());
    node.leave().await.unwrap();
    assert_eq!(*heard.lock().unwrap(), [Notice::Draining], "it had nothing left to lose");
    assert_eq!(node.unregister("x").await, Err(UnregisterError::Left));
    assert_eq!(node.drain().await, Drained::Left);
    assert_eq!(moved.check(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn leave_drains_every_registry_of_the_node_before_any_name_is_lost() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let mut seconds = Vec::new();
    for node in &nodes {
        let second = node.join_beside("second").await.unwrap();
        assert!(second.ready(SOON).await);
        seconds.push(second);
    }
    let at = leading(&nodes).await;
    until("it leads the second, too", || {
        let leads = seconds[at].status().leads;
        let wrong = seconds.iter().find(|second| second.status().leads).filter(|_| !leads);
        if let Some(wrong) = wrong {
            wrong.resign(wrong.status().epoch);
        }
        leads
    })
    .await;
    let others: Vec<Registry> =
        (0..3).filter(|i| *i != at).flat_map(|i| [nodes[i].clone(), seconds[i].clone()]).collect();
    let leaders = Arc::new(Mutex::new(Vec::new()));
    let (seen, lookers) = (leaders.clone(), others.clone());
    let options = RegisterOptions {
        when_lapsed: WhenLapsed::Tell(Arc::new(move |notice| {
            let leading = lookers.iter().filter(|node| node.status().leads).count();
            seen.lock().unwrap().push((notice, leading));
        })),
        ..RegisterOptions::default()
    };
    seconds[at].register_with("x", &counter().await, options).await.unwrap();
    nodes[at].leave().await.unwrap();
    let expected = [(Notice::Draining, 0), (Notice::Lost, 2)];
    assert_eq!(*leaders.lock().unwrap(), expected, "others lead both registries when the first name is lost");
    let other = &others[1];
    until("the name is free", || matches!(other.lookup("x"), Ok(None))).await;
    other.register("x", &counter().await).await.unwrap();
}

struct Child(Arc<Mutex<Vec<&'static str>>>);

impl Actor for Child {
    type Msg = Counter;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Counter>, (): ()) -> Result<(), ActorProcessingErr> {
        self.0.lock().unwrap().push("started");
        Ok(())
    }

    async fn post_stop(&self, _: ActorRef<Counter>, (): &mut ()) -> Result<(), ActorProcessingErr> {
        self.0.lock().unwrap().push("stopped");
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_singleton_of_a_node_that_drains_ends_here_and_runs_elsewhere_before_the_node_has_left() {
    let cluster = Cluster::new();
    let nodes = [cluster.node("a").await, cluster.node("b").await];
    let lives = [0, 1].map(|_| Arc::new(Mutex::new(Vec::new())));
    let start = |at: usize| {
        let life: Arc<Mutex<Vec<&'static str>>> = lives[at].clone();
        Singleton::builder(&nodes[at], "job").leader(move |_| (Child(life.clone()), ())).start()
    };
    let _first = start(0).await.unwrap();
    until("the first runs it", || lives[0].lock().unwrap().len() == 1).await;
    let _second = start(1).await.unwrap();
    nodes[0].drain().await;
    assert_eq!(*lives[0].lock().unwrap(), ["started", "stopped"], "when it has drained, the child has ended");
    until("the other runs it", || *lives[1].lock().unwrap() == ["started"]).await;
    assert!(nodes[0].lookup("job").is_ok(), "and the node is there");
    until("its name moves", || {
        nodes[1].lookup("job").is_ok_and(|entry| entry.is_some_and(|entry| entry.node.as_str() == "b"))
    })
    .await;
    let version = async || cluster.store.connect("z").read(Vec::new()).await.unwrap().version;
    let before = version().await;
    assert!(matches!(start(0).await, Err(SingletonError::Draining)));
    assert_eq!(version().await, before, "it did not even take part");
    nodes[0].leave().await.unwrap();
}
