//! Registries over the sessions of the application's own `NodeServer`s: what is known to hurt in `ractor_cluster`, one
//! test each, does not hurt the registry above. Several nodes in one process, under a paused clock.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use callsign_store::{Clock, SharedStore, memory::MemoryStore};
use callsign_transport::{
    DownReason, Lane, LinkEvent, LinkTiming, P, RactorClusterMessage,
    ractor_cluster::{
        NodeServer, NodeServerMessage,
        node::{NodeConnectionMode, NodeServerSessionInformation as Session},
    },
    remote_message,
};
use ractor::{
    Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, call_t, rpc::CallResult,
};

use crate::{
    Config, NodeServerNetwork, Registry,
    tests::driver::{Cluster, Counter, TEST_DEADLINE, counter, until},
};

/// A node of the cluster, and the application's `NodeServer` in it.
struct Node {
    registry: Registry,
    server: ActorRef<NodeServerMessage>,
}

async fn node_server(node: &str) -> ActorRef<NodeServerMessage> {
    let mode = Some(NodeConnectionMode::Isolated);
    let server = NodeServer::new(0, "a cookie".into(), node.into(), format!("{node}.test"), None, mode)
        .with_listen_addr(Ipv4Addr::LOCALHOST.into());
    Actor::spawn(None, server, ()).await.unwrap().0
}

impl Node {
    async fn of(cluster: &Cluster, node: &str) -> Self {
        Self::with(cluster, node, |config| config).await
    }

    async fn with(cluster: &Cluster, node: &str, change: impl FnOnce(Config) -> Config) -> Self {
        let server = node_server(node).await;
        let over = NodeServerNetwork::over_memory(server.clone(), cluster.network.clone());
        let config = change(cluster.config(node).node_server(over));
        let registry = Registry::join(config).await.unwrap();
        assert!(registry.ready(TEST_DEADLINE).await.is_ok(), "{node} is ready: {:?}", registry.status());
        Self { registry, server }
    }

    async fn sessions(&self) -> Vec<Session> {
        call_t!(self.server, NodeServerMessage::GetSessions, 60_000).unwrap().into_values().collect()
    }

    /// The application's own remote reference, which `NodeServer` makes of every actor of every node.
    async fn application_reference(&self, actor: &ActorCell) -> ActorCell {
        for _ in 0..6000 {
            for session in self.sessions().await {
                let id = ActorId::Remote { node_id: session.node_id, pid: actor.get_id().pid() };
                if let Some(found) = session.actor.get_children().into_iter().find(|c| c.get_id() == id) {
                    return found;
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never: a reference");
    }
}

async fn linked(nodes: &[&Node]) {
    for node in nodes {
        let is_linked = || {
            let members = node.registry.members();
            members.len() == nodes.len() && members.iter().all(|member| member.linked)
        };
        until("every member is linked", is_linked).await;
    }
}

async fn two(cluster: &Cluster) -> (Node, Node) {
    let (a, b) = (Node::of(cluster, "a").await, Node::of(cluster, "b").await);
    linked(&[&a, &b]).await;
    (a, b)
}

/// A typed call from wherever the name leads; a timeout is a failed test.
async fn ask(node: &Node, name: &str) -> Option<i64> {
    let found: ActorRef<Counter> = node.registry.whereis(name).ok()?;
    match found.call(Counter::Get, Some(Duration::from_secs(600))).await {
        Ok(CallResult::Success(P(count))) => Some(count),
        Ok(CallResult::SenderError) | Err(_) => None,
        Ok(CallResult::Timeout) => panic!("waited for the timeout"),
    }
}

#[tokio::test(start_paused = true)]
async fn names_lead_to_their_actors_over_the_applications_sessions() {
    let cluster = Cluster::new();
    let nodes = [Node::of(&cluster, "a").await, Node::of(&cluster, "b").await, Node::of(&cluster, "c").await];
    linked(&[&nodes[0], &nodes[1], &nodes[2]]).await;
    let actor = counter().await;
    let token = nodes[0].registry.register("counter", &actor).await.unwrap().token();
    for node in &nodes {
        node.registry.wait_for(token, TEST_DEADLINE).await.unwrap();
        let found: ActorRef<Counter> = node.registry.whereis("counter").unwrap();
        found.cast(Counter::Add(P(1))).unwrap();
        assert!(ask(node, "counter").await.is_some());
        assert_eq!(node.sessions().await.len(), 2, "a session for each other node");
    }
    assert_eq!(ask(&nodes[2], "counter").await, Some(3));
    assert!(nodes[1].registry.register("counter", &counter().await).await.is_err());
    nodes[0].registry.leave().await.unwrap();
    until("the name is free", || nodes[1].registry.lookup("counter") == Ok(None)).await;
}

/// `ractor_cluster` gives a proxy its actor's name, and removes the *local* name of that spelling when the proxy dies.
#[tokio::test(start_paused = true)]
async fn a_lost_session_takes_local_names_with_it_but_none_of_the_registry() {
    let cluster = Cluster::new();
    let (a, b) = two(&cluster).await;
    let unnamed = ractor::registry::registered();
    assert!(unnamed.is_empty(), "nothing of ours has a name that could be lost: {unnamed:?}");
    let (named, _) = Actor::spawn(Some("pricing".into()), Named, ()).await.unwrap();
    let actor = counter().await;
    a.registry.register("pricing", &actor).await.unwrap();
    until("the name is on b", || b.registry.lookup("pricing").is_ok_and(|entry| entry.is_some())).await;
    b.application_reference(&named.get_cell()).await;

    cluster.network.cut(Cluster::address("a"), Cluster::address("b"));
    until("the link is down", || !b.registry.members().iter().all(|member| member.linked)).await;
    until("ractor has lost the name of an actor that runs", || {
        ractor::registry::where_is("pricing").is_none()
    })
    .await;
    assert_eq!(named.get_status(), ractor::ActorStatus::Running);
    for node in [&a, &b] {
        assert!(node.registry.lookup("pricing").unwrap().is_some());
    }
    assert_eq!(ask(&a, "pricing").await, Some(0));

    cluster.network.heal(Cluster::address("a"), Cluster::address("b"));
    linked(&[&a, &b]).await;
    assert_eq!(ask(&b, "pricing").await, Some(0));
}

/// Takes plain numbers, which `ractor_cluster` lets every node send.
struct Named;

impl Actor for Named {
    type Msg = u64;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<u64>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// `ractor_cluster` drops the whole session when one of its remote references is stopped.
#[tokio::test(start_paused = true)]
async fn a_stopped_reference_harms_nobody_and_the_applications_own_costs_a_link_that_comes_back() {
    let cluster = Cluster::new();
    let (a, b) = two(&cluster).await;
    let (one, other) = (counter().await, counter().await);
    a.registry.register("one", &one).await.unwrap();
    let token = a.registry.register("other", &other).await.unwrap().token();
    b.registry.wait_for(token, TEST_DEADLINE).await.unwrap();
    let link = b.registry.node.endpoint.link_to("a").unwrap().0;

    let mine: ActorRef<Counter> = b.registry.whereis("one").unwrap();
    mine.stop(None);
    mine.wait(None).await.unwrap();
    assert_eq!(ask(&b, "other").await, Some(0));
    assert_eq!(ask(&b, "one").await, Some(0), "the next reference works");
    assert_eq!(b.registry.node.endpoint.link_to("a").unwrap().0, link, "over the same link");

    b.application_reference(&one.get_cell()).await.stop(None);
    let now = || b.registry.node.endpoint.link_to("a").map(|(link, _)| link);
    until("the session is lost", || now() != Some(link)).await;
    assert!(b.registry.lookup("one").unwrap().is_some(), "its names are not");
    linked(&[&a, &b]).await;
    assert_eq!(ask(&b, "one").await, Some(0));
    assert_eq!(a.registry.count(), Ok(2));
    assert!(b.registry.register("three", &counter().await).await.is_ok());
}

#[derive(RactorClusterMessage)]
enum Brief {
    /// Answers, and stops.
    #[rpc]
    Last(RpcReplyPort<P<u64>>),
    /// Sends so many numbers to the actor of that name, and stops.
    Tell(P<(String, i64)>),
}
remote_message!(Brief, "test.brief/1");

struct BriefActor(Registry);

impl Actor for BriefActor {
    type Msg = Brief;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Brief>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        myself: ActorRef<Brief>,
        message: Brief,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Brief::Last(reply) => drop(reply.send(P(7))),
            Brief::Tell(P((name, count))) => {
                let found: ActorRef<Counter> = self.0.whereis(&name)?;
                for _ in 0..count {
                    found.cast(Counter::Add(P(1))).map_err(|_| "the link went down")?;
                }
            }
        }
        myself.stop(None);
        Ok(())
    }
}

/// Over `ractor_cluster`'s own references an actor's end overtakes its last answer and its last messages.
#[tokio::test(start_paused = true)]
async fn last_answers_and_last_messages_arrive_though_their_actor_ends_at_once() {
    let cluster = Cluster::new();
    let (a, b) = two(&cluster).await;
    let heard = counter().await;
    let token = b.registry.register("heard", &heard).await.unwrap().token();
    a.registry.wait_for(token, TEST_DEADLINE).await.unwrap();
    for n in 0..100_i64 {
        let (actor, _) = Actor::spawn(None, BriefActor(a.registry.clone()), ()).await.unwrap();
        let token = a.registry.register("brief", &actor).await.unwrap().token();
        b.registry.wait_for(token, TEST_DEADLINE).await.unwrap();
        let remote: ActorRef<Brief> = b.registry.whereis("brief").unwrap();
        if n % 2 == 0 {
            let P(answer) = call_t!(remote, Brief::Last, 600_000).unwrap();
            assert_eq!(answer, 7);
        } else {
            remote.cast(Brief::Tell(P(("heard".into(), 20)))).map_err(|_| "gone").unwrap();
        }
        until("it ended, and everybody knows", || {
            [&a, &b].iter().all(|node| node.registry.lookup("brief") == Ok(None))
        })
        .await;
    }
    let all = async {
        while call_t!(heard, Counter::Get, 5000).unwrap().0 != 50 * 20 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(TEST_DEADLINE, all).await.expect("every last message");
}

/// `ractor_cluster` never asks whether the session that it has to a node is alive, and may refuse the restarted node for ever.
async fn a_restarted_node_is_linked_past_its_dead_session(observer: &str, peer: &str) {
    let cluster = Cluster::new();
    // For an hour nobody could notice by himself.
    let patient = LinkTiming::default().with(|timing| timing.silence = Duration::from_secs(3600));
    let observer_address = Cluster::address(observer);
    let observer = Node::with(&cluster, observer, |config| config.link_timing(patient)).await;
    let former = Node::with(&cluster, peer, |config| config.link_timing(patient)).await;
    linked(&[&observer, &former]).await;
    let mut events = observer.registry.node.endpoint.subscribe("test");
    let Some(LinkEvent::Up { link, .. }) = events.recv().await else { panic!("no link") };

    cluster.network.hold(observer_address, Cluster::address(peer));
    cluster.network.hold(Cluster::address(peer), observer_address);
    cluster.store.connect(peer).outage();
    former.server.kill();
    drop(former);
    assert_eq!(observer.sessions().await.len(), 1, "nobody knows that it is dead");

    let elsewhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 7001));
    let store: SharedStore = Arc::new(cluster.store.connect("successor"));
    let successor = Node::with(&cluster, peer, |config| {
        let config = Config { store: store.into(), ..config };
        config.listen(elsewhere).link_timing(patient).join_timeout(Duration::from_secs(60))
    })
    .await;
    linked(&[&observer, &successor]).await;
    match events.recv().await {
        Some(LinkEvent::Down { link: ended, reason, .. }) => {
            assert_eq!((ended, reason), (link, DownReason::Evicted));
        }
        event => panic!("{event:?}"),
    }
    let actor = counter().await;
    let token = successor.registry.register("again", &actor).await.unwrap().token();
    observer.registry.wait_for(token, TEST_DEADLINE).await.unwrap();
    assert_eq!(ask(&observer, "again").await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_restarted_lesser_node_is_linked_past_its_dead_session() {
    a_restarted_node_is_linked_past_its_dead_session("z", "b").await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_greater_node_is_linked_past_its_dead_session() {
    a_restarted_node_is_linked_past_its_dead_session("a", "z").await;
}

/// One silent client blocks the accept loop of a `NodeServer` with TLS, and each may make it hold 16 MiB. Over TCP.
#[tokio::test]
async fn silent_and_hungry_strangers_keep_nobody_out() {
    use tokio::{io::AsyncWriteExt, net::TcpStream};
    let store = MemoryStore::new();
    let join = async |node: &str| {
        let server = node_server(node).await;
        let store: SharedStore = Arc::new(store.connect(node));
        let config = Config::new(node, store).node_server(server.clone()).clock(Clock::boot());
        let registry = Registry::join(config).await.unwrap();
        assert!(registry.ready(TEST_DEADLINE).await.is_ok());
        Node { registry, server }
    };
    let a = join("a").await;
    let mut strangers = Vec::new();
    for n in 0..50 {
        let mut stranger = TcpStream::connect(a.registry.local_addr()).await.unwrap();
        if n % 2 == 0 {
            stranger.write_all(&(16_u64 << 20).to_be_bytes()).await.unwrap();
        }
        strangers.push(stranger);
    }
    let b = join("b").await;
    linked(&[&a, &b]).await;
    let actor = counter().await;
    let token = b.registry.register("here", &actor).await.unwrap().token();
    a.registry.wait_for(token, TEST_DEADLINE).await.unwrap();
    assert_eq!(ask(&a, "here").await, Some(0));
    drop(strangers);
}

/// Frames of other channels than the registry's find their readers, too: the endpoint is the same.
#[tokio::test(start_paused = true)]
async fn an_application_may_send_frames_of_its_own() {
    let cluster = Cluster::new();
    let (a, b) = two(&cluster).await;
    let mut events = a.registry.node.endpoint.subscribe("application");
    assert!(matches!(events.recv().await, Some(LinkEvent::Up { .. })));
    let (link, _) = b.registry.node.endpoint.link_to("a").unwrap();
    b.registry.node.endpoint.send(link, Lane::Control, "application", "hello".into()).unwrap();
    match events.recv().await {
        Some(LinkEvent::Message { body, .. }) => assert_eq!(&body[..], b"hello"),
        event => panic!("{event:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_link_over_a_session_is_made_of_ends_its_node_if_it_panics() {
    for part in ["the gate of links over a NodeServer", "a connection under a NodeServer"] {
        let cluster = Cluster::new();
        let (a, b) = two(&cluster).await;
        let held = b.registry.register("held", &counter().await).await.unwrap();
        a.registry.wait_for(held.token(), TEST_DEADLINE).await.unwrap();
        b.registry.node.supervisor.sabotage(part);
        let failure = tokio::time::timeout(TEST_DEADLINE, b.registry.failed()).await.expect(part);
        assert_eq!((failure.part.as_str(), failure.reason.as_str()), (part, "panicked: sabotage"));
        assert!(held.check().is_err());
        until("its names are free", || a.registry.lookup("held") == Ok(None)).await;
        assert!(a.registry.ready(TEST_DEADLINE).await.is_ok());
    }
}
