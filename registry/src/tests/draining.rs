//! Nodes that drain, in one process under a paused clock.

use std::sync::{Arc, Mutex};

use callsign_store::Store;
use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::{
    Drained, JoinError, NotReady, Notice, RegisterError, RegisterOptions, Registry, Singleton,
    SingletonError, UnregisterError, WhenLapsed,
    tests::driver::{Cluster, Counter, TEST_DEADLINE, counter, until},
};

async fn leading(nodes: &[Registry]) -> usize {
    until("somebody leads", || nodes.iter().any(|node| node.status().leads)).await;
    nodes.iter().position(|node| node.status().leads).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_node_that_drains_tells_its_actors_and_whoever_waits_for_it() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let node = &nodes[leading(&nodes).await];
    let (notices, actor) = (Arc::new(Mutex::new(Vec::new())), counter().await);
    let told = notices.clone();
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
    assert_eq!(*notices.lock().unwrap(), [Notice::Draining]);
    assert_eq!(registration.check(), Ok(()), "the name is held");
    assert!(node.status().draining);
    assert_eq!(node.ready(TEST_DEADLINE).await, Err(NotReady::Draining));
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
    assert_eq!(*notices.lock().unwrap(), [Notice::Draining], "it had nothing left to lose");
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
        assert!(second.ready(TEST_DEADLINE).await.is_ok());
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
