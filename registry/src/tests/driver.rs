//! Several nodes in one process, under a paused clock: real drivers, links in memory, the store in memory.

use std::{net::SocketAddr, sync::Arc, sync::Mutex, time::Duration};

use bytes::Bytes;
use callsign_elector::record::{LogEnd, SessionRecord};
use callsign_store::{
    Clock, CommitOutcome, SharedStore, Store, Transaction, Write,
    ids::{Epoch, NodeName, Nonce, Position},
    keys::RegistryKeys,
    memory::MemoryStore,
    record::Record,
};
use callsign_transport::{
    Endpoint, EndpointConfig, Lane, LinkEvent, LinkEvents, MemoryNetwork, Network, P, RactorClusterMessage,
    RemoteMessage, remote_message,
};
use futures::{FutureExt, future::BoxFuture};
use metrics_exporter_prometheus::PrometheusBuilder;
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, call_t};

use crate::{
    BadName, Config, ConsistentError, ElectorTiming, JoinError, LookupError, NotHeld, Notice, OnOutage,
    RegisterError, RegisterOptions, Registry, UnregisterError, WhenLapsed, WhereisError,
    core::message::Message,
};

#[derive(RactorClusterMessage)]
pub(crate) enum Counter {
    Add(P<i64>),
    #[rpc]
    Get(RpcReplyPort<P<i64>>),
}
remote_message!(Counter, "test.counter/1");

#[derive(RactorClusterMessage)]
pub(crate) enum Other {
    #[allow(dead_code)]
    Nothing,
}
remote_message!(Other, "test.other/1");

struct CounterActor;

impl Actor for CounterActor {
    type Msg = Counter;
    type State = i64;
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Counter>, (): ()) -> Result<i64, ActorProcessingErr> {
        Ok(0)
    }

    async fn handle(
        &self,
        _: ActorRef<Counter>,
        message: Counter,
        count: &mut i64,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            Counter::Add(P(by)) => *count += by,
            Counter::Get(reply) => {
                let _ = reply.send(P(*count));
            }
        }
        Ok(())
    }
}

pub(crate) async fn counter() -> ActorRef<Counter> {
    Actor::spawn(None, CounterActor, ()).await.unwrap().0
}

pub(crate) const TEST_DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Cluster {
    pub(crate) store: MemoryStore,
    pub(crate) network: MemoryNetwork,
    clock: Clock,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self { store: MemoryStore::new(), network: MemoryNetwork::new(), clock: Clock::runtime() }
    }

    pub(crate) fn address(node: &str) -> SocketAddr {
        let port = 7000 + u16::from(node.as_bytes()[0]);
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    pub(crate) fn config(&self, node: &str) -> Config {
        let store: SharedStore = Arc::new(self.store.connect(node));
        Config::new(node, store)
            .listen(Self::address(node))
            .network(Network::Memory(self.network.clone()))
            .clock(self.clock.clone())
    }

    pub(crate) async fn node(&self, node: &str) -> Registry {
        let registry = Registry::join(self.config(node)).await.unwrap();
        assert!(registry.ready(TEST_DEADLINE).await.is_ok(), "{node} is ready: {:?}", registry.status());
        registry
    }

    pub(crate) async fn three(&self) -> [Registry; 3] {
        [self.node("a").await, self.node("b").await, self.node("c").await]
    }
}

/// Waits for a condition, at most a minute of virtual time.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..6000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// Here the store and the network need no time, and the clock goes on only when everybody waits for it.
#[tokio::test(start_paused = true)]
async fn what_is_sent_waits_for_no_timer() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    for node in &nodes {
        let (name, actor) = (node.status().node.to_string(), counter().await);
        let begin = tokio::time::Instant::now();
        let registration = node.register(&name, &actor).await.unwrap();
        for other in &nodes {
            other.wait_for(registration.token(), TEST_DEADLINE).await.unwrap();
        }
        assert_eq!(begin.elapsed(), Duration::ZERO, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_name_leads_to_its_actor_from_every_node_and_calls_cross() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let actor = counter().await;
    let registration = nodes[0].register("counter", &actor).await.unwrap();
    assert_eq!(registration.check(), Ok(()));
    for node in &nodes {
        node.wait_for(registration.token(), TEST_DEADLINE).await.unwrap();
        let found: ActorRef<Counter> = node.whereis("counter").unwrap();
        found.cast(Counter::Add(P(1))).unwrap();
        let P(_) = call_t!(found, Counter::Get, 5000).unwrap();
        let entry = node.lookup("counter").unwrap().unwrap();
        assert_eq!((entry.node.as_str(), entry.token), ("a", registration.token()));
        let entry = node.lookup_consistent("counter", TEST_DEADLINE).await.unwrap().unwrap();
        assert_eq!(entry.token, registration.token());
    }
    let P(count) = call_t!(actor, Counter::Get, 5000).unwrap();
    assert_eq!(count, 3);
}

#[tokio::test(start_paused = true)]
async fn refusals_say_what_happened() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let (mine, theirs) = (counter().await, counter().await);
    let token = nodes[0].register("x", &mine).await.unwrap().token();
    let taken = nodes[1].register("x", &theirs).await;
    assert!(matches!(taken, Err(RegisterError::Taken { holder, .. }) if holder.token == token));
    // The same again is the same.
    assert_eq!(nodes[0].register("x", &mine).await.unwrap().token(), token);
    let not_here = nodes[1].unregister("x").await;
    assert!(matches!(not_here, Err(UnregisterError::NotHeldHere { holder: Some(_), .. })));
    let long = "x".repeat(513);
    assert_eq!(nodes[0].register("", &mine).await.unwrap_err(), RegisterError::BadName(BadName::Empty));
    let error = nodes[0].register(&long, &mine).await.unwrap_err();
    assert_eq!(error, RegisterError::BadName(BadName::TooLong { length: 513 }));
    assert!(matches!(nodes[0].lookup(&long), Err(LookupError::BadName(_))));
    let error = nodes[0].lookup_consistent("", TEST_DEADLINE).await;
    assert_eq!(error, Err(ConsistentError::BadName(BadName::Empty)));
    assert!(matches!(nodes[2].whereis::<Counter>("nobody"), Err(WhereisError::NotFound { .. })));
    nodes[2].wait_for(token, TEST_DEADLINE).await.unwrap();
    assert!(matches!(nodes[2].whereis::<Other>("x"), Err(WhereisError::Unreachable { .. })));
    // Nor by a reference that somebody has from an address with another kind in it.
    let mut lie = nodes[2].lookup("x").unwrap().unwrap().address().unwrap();
    lie.kind = <Other as RemoteMessage>::kind();
    nodes[2].remote().resolve::<Other>(&lie).unwrap();
    assert!(matches!(nodes[2].whereis::<Other>("x"), Err(WhereisError::Unreachable { .. })));
    theirs.stop(None);
    theirs.wait(None).await.unwrap();
    assert_eq!(nodes[1].register("y", &theirs).await.unwrap_err(), RegisterError::ActorEnded);
    // Nothing of all that changed anything.
    assert_eq!(nodes[0].count(), Ok(1));
}

#[tokio::test(start_paused = true)]
async fn an_actor_that_ends_is_unregistered() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let actor = counter().await;
    let token = nodes[0].register("x", &actor).await.unwrap().token();
    nodes[1].wait_for(token, TEST_DEADLINE).await.unwrap();
    actor.stop(None);
    until("the name is free on b", || nodes[1].lookup("x") == Ok(None)).await;
    assert!(nodes[1].register("x", &counter().await).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_frees_its_names_and_the_seat() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let leader = nodes.iter().position(|n| n.status().leads).unwrap();
    let other = (leader + 1) % 3;
    let actor = counter().await;
    nodes[leader].register("x", &actor).await.unwrap();
    nodes[leader].leave().await.unwrap();
    actor.wait(None).await.unwrap();
    until("another leads", || {
        nodes[other].leader().is_some_and(|l| l.serving && l.node.as_str() != nodes[leader].node())
    })
    .await;
    until("x is free", || nodes[other].lookup("x") == Ok(None)).await;
    assert!(nodes[other].register("x", &counter().await).await.is_ok());
    assert_eq!(nodes[leader].register("y", &counter().await).await.unwrap_err(), RegisterError::Left);
    assert_eq!(nodes[other].members().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn two_nodes_of_one_name_are_refused_and_the_first_stays() {
    let cluster = Cluster::new();
    let first = cluster.node("a").await;
    let second = cluster.config("a").listen(SocketAddr::from(([127, 0, 0, 1], 7999)));
    let refused = Registry::join(second).await;
    assert!(matches!(refused, Err(JoinError::NameInUse { .. })), "{:?}", refused.err());
    assert!(first.register("x", &counter().await).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_store_outage_lapses_the_session_stops_the_actor_and_tells_the_other_which_resumes() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let (stopped, told) = (counter().await, counter().await);
    node.register("stopped", &stopped).await.unwrap();
    let notices: Arc<Mutex<Vec<Notice>>> = Arc::default();
    let listener = notices.clone();
    let options = RegisterOptions {
        when_lapsed: WhenLapsed::Tell(Arc::new(move |notice| listener.lock().unwrap().push(notice))),
        ..RegisterOptions::default()
    };
    let registration = node.register_with("told", &told, options).await.unwrap();

    cluster.store.outage_for_all();
    stopped.wait(None).await.unwrap();
    until("it is told", || *notices.lock().unwrap() == [Notice::Lapsed]).await;
    assert_eq!(registration.check(), Err(NotHeld::NotTrusted), "it may be held again, so it has not ended");
    assert!(
        matches!(node.lookup("told"), Err(LookupError::Lapsed { last_known: Some(_) })),
        "reads are marked"
    );
    let unread = node.whereis::<Counter>("told");
    assert!(
        matches!(&unread, Err(WhereisError::Lookup(LookupError::Lapsed { last_known: Some(_) }))),
        "also where it is known how to reach the actor: {unread:?}"
    );
    let refused = node.register("z", &counter().await).await.unwrap_err();
    assert!(matches!(refused, RegisterError::StoreUnavailable { .. }), "{refused}");
    let unread = node.lookup_consistent("told", Duration::from_secs(2)).await;
    assert!(matches!(unread, Err(ConsistentError::StoreUnavailable { .. })), "{unread:?}");

    cluster.store.heal_all();
    until("it is told again", || notices.lock().unwrap().len() == 2).await;
    assert_eq!(*notices.lock().unwrap(), [Notice::Lapsed, Notice::Resumed]);
    assert_eq!(registration.check(), Ok(()));
    until("the stopped actor's name is free", || node.lookup("stopped") == Ok(None)).await;
    assert!(node.lookup("told").unwrap().is_some(), "the told one kept its name");
}

#[tokio::test(start_paused = true)]
async fn a_call_made_while_the_store_is_gone_is_done_when_it_is_back_or_fails_at_once_as_configured() {
    let cluster = Cluster::new();
    let waits = cluster.node("a").await;
    let fails = Registry::join(cluster.config("b").on_outage(OnOutage::Fail)).await.unwrap();
    assert!(fails.ready(TEST_DEADLINE).await.is_ok());
    let kept = counter().await;
    let tell =
        || RegisterOptions { when_lapsed: WhenLapsed::Tell(Arc::new(|_| ())), ..RegisterOptions::default() };
    fails.register_with("kept", &kept, tell()).await.unwrap();

    cluster.store.outage_for_all();
    until("both have lapsed", || [&waits, &fails].iter().all(|n| n.lookup("kept").is_err())).await;
    let before = tokio::time::Instant::now();
    let refused = fails.register("x", &counter().await).await.unwrap_err();
    assert!(matches!(refused, RegisterError::StoreUnavailable { .. }), "{refused}");
    let refused = fails.unregister("kept").await.unwrap_err();
    assert!(matches!(refused, UnregisterError::StoreUnavailable { .. }), "{refused}");
    assert_eq!(before.elapsed(), Duration::ZERO, "it has waited");

    let actor = counter().await;
    let patient = RegisterOptions { wait: Some(TEST_DEADLINE), ..RegisterOptions::default() };
    let later = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cluster.store.heal_all();
    };
    let (registered, ()) = tokio::join!(waits.register_with("y", &actor, patient), later);
    assert_eq!(registered.unwrap().check(), Ok(()));
    until("the other serves again", || fails.lookup("kept").is_ok_and(|entry| entry.is_some())).await;
    assert!(fails.unregister("kept").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_before_the_outage_was_noticed_is_unknown_and_asking_again_finds_out() {
    let cluster = Cluster::new();
    let node = Registry::join(cluster.config("a").on_outage(OnOutage::Fail)).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    cluster.store.outage_for_all();
    let actor = counter().await;
    let short = RegisterOptions {
        wait: Some(Duration::from_millis(500)),
        when_lapsed: WhenLapsed::Tell(Arc::new(|_| ())),
        ..RegisterOptions::default()
    };
    let sent = node.register_with("x", &actor, short.clone()).await.unwrap_err();
    assert!(matches!(sent, RegisterError::Unknown { .. }), "{sent}");
    cluster.store.heal_all();
    until("it is held", || node.lookup("x").is_ok_and(|entry| entry.is_some())).await;
    assert!(node.register_with("x", &actor, short).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_follower_behind_a_cut_link_still_reads_consistently_and_heals() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let leader = nodes.iter().position(|n| n.status().leads).unwrap();
    let other = (leader + 1) % 3;
    let names = ["a", "b", "c"];
    cluster.network.cut(Cluster::address(names[leader]), Cluster::address(names[other]));
    until("the link is down", || {
        nodes[other].members().iter().any(|m| m.node.as_str() == names[leader] && !m.linked)
    })
    .await;
    let actor = counter().await;
    let token = nodes[leader].register("x", &actor).await.unwrap().token();
    let entry = nodes[other].lookup_consistent("x", TEST_DEADLINE).await.unwrap().unwrap();
    assert_eq!(entry.token, token);
    cluster.network.heal(Cluster::address(names[leader]), Cluster::address(names[other]));
    until("linked again", || nodes[other].members().iter().all(|m| m.linked)).await;
    assert!(nodes[other].whereis::<Counter>("x").is_ok());
}

#[tokio::test(start_paused = true)]
async fn registries_of_one_node_share_nothing_but_the_session() {
    let cluster = Cluster::new();
    let nodes = cluster.three().await;
    let mut orders = Vec::new();
    for node in &nodes {
        orders.push(node.join_beside("orders").await.unwrap());
    }
    for order in &orders {
        assert!(order.ready(TEST_DEADLINE).await.is_ok());
    }
    let again = nodes[0].join_beside("orders").await;
    assert!(matches!(again, Err(JoinError::AlreadyJoined { .. })));
    let (one, two) = (counter().await, counter().await);
    nodes[0].register("x", &one).await.unwrap();
    orders[1].register("x", &two).await.unwrap();
    let here = nodes[2].lookup_consistent("x", TEST_DEADLINE).await.unwrap().unwrap();
    let there = orders[2].lookup_consistent("x", TEST_DEADLINE).await.unwrap().unwrap();
    assert_eq!((here.node.as_str(), there.node.as_str()), ("a", "b"));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_was_closed_is_noticed_long_before_the_poll() {
    let cluster = Cluster::new();
    let slow = ElectorTiming::default().with(|timing| timing.poll = Duration::from_secs(3600));
    let node = Registry::join(cluster.config("a").elector_timing(slow)).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    let _silent = cluster.node("b").await;
    // It writes nothing more that would wake the other.
    cluster.store.connect("b").outage();
    until("it is a member no more", || node.members().iter().all(|member| member.node.as_str() != "b")).await;
}

#[tokio::test(start_paused = true)]
async fn the_present_incarnation_of_a_node_is_linked_again_though_a_former_one_came_behind_it() {
    let cluster = Cluster::new();
    let node = cluster.node("a").await;
    let linked = || node.node.endpoint.link_to("b").map(|(_, peer)| peer.incarnation);
    // It meets the present one without having read of it.
    cluster.store.connect("a").outage();
    let other = Registry::join(cluster.config("b")).await.unwrap();
    until("it has met the present one", || linked() == Some(other.incarnation())).await;
    // A process that was stopped for long, and does not know yet that it was replaced.
    let address = SocketAddr::from(([127, 0, 0, 1], 7998));
    let config = EndpointConfig {
        network: Network::Memory(cluster.network.clone()),
        ..EndpointConfig::new(node.node.cluster.to_string(), "b", 1, address)
    };
    let former = Endpoint::start(config).await.unwrap();
    former.set_peers(vec![("a".into(), Cluster::address("a").to_string())]);
    until("the former one is taken for the newer", || linked() == Some(1)).await;
    cluster.store.connect("a").heal();
    until("the present one is linked again", || linked() == Some(other.incarnation())).await;
}

/// Somebody whom a node believes, and who says what the test says.
struct Peer {
    endpoint: Endpoint,
    channel: String,
    answers: LinkEvents,
}

impl Peer {
    /// It is linked to node `b`.
    async fn of(cluster: &Cluster, b: &Registry) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], 7998));
        let config = EndpointConfig {
            network: Network::Memory(cluster.network.clone()),
            ..EndpointConfig::new(b.node.cluster.to_string(), "peer", 1, address)
        };
        let endpoint = Endpoint::start(config).await.unwrap();
        endpoint.set_peers(vec![("b".into(), Cluster::address("b").to_string())]);
        until("they are linked", || b.node.endpoint.link_to("peer").is_some()).await;
        let channel = format!("registry/{}", b.shared.registry);
        let answers = endpoint.subscribe(&channel);
        Self { endpoint, channel, answers }
    }

    /// Says so, and then asks something. Messages come in order: the former were taken when the question is answered.
    async fn says(&mut self, messages: impl IntoIterator<Item = Bytes>) {
        let (link, _) = self.endpoint.link_to("b").unwrap();
        let question = Message::SnapshotWanted { id: 1, below: 1 }.encode();
        for said in messages.into_iter().chain([question]) {
            self.endpoint.send(link, Lane::Control, &self.channel, said).unwrap();
        }
        let answered =
            async { while !matches!(self.answers.recv().await, Some(LinkEvent::Message { .. })) {} };
        tokio::time::timeout(TEST_DEADLINE, answered).await.expect("the host answers");
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_lies_about_its_epoch_redirects_nobody() {
    let cluster = Cluster::new();
    let (_leader, host) = (cluster.node("a").await, cluster.node("b").await);
    let epoch = Epoch(1 << 62);
    let end = LogEnd { position: Position(1 << 62), nonce: Nonce(1) };
    let lies = [
        Message::Heartbeat { epoch, end },
        Message::TransferSnapshot { epoch },
        Message::RunHandoff { epoch },
    ];
    Peer::of(&cluster, &host).await.says(lies.iter().map(Message::encode)).await;
    host.register("n", &counter().await).await.unwrap();
    assert!(host.ready(TEST_DEADLINE).await.is_ok(), "{:?}", host.status());
}

#[tokio::test(start_paused = true)]
async fn what_a_peer_says_that_cannot_be_read_is_counted_and_the_rest_is_taken() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _here = ::metrics::set_default_local_recorder(&recorder);
    let cluster = Cluster::new();
    let (_leader, host) = (cluster.node("a").await, cluster.node("b").await);
    let unread = (0..5).map(|n| Bytes::from(vec![0xff, n]));
    Peer::of(&cluster, &host).await.says(unread).await;
    let counted = recorder.handle().render();
    let of_unread = |line: &&str| line.starts_with("callsign_registry_messages_unread_total{");
    let count = counted.lines().find(of_unread).and_then(|line| line.rsplit(' ').next());
    assert_eq!(count, Some("5"), "{counted}");
    host.register("n", &counter().await).await.unwrap();
}

/// Notes when commits were sent and answered.
#[derive(Debug)]
struct Tapped {
    store: MemoryStore,
    keys: RegistryKeys,
    said: Arc<Mutex<Vec<&'static str>>>,
}

impl Store for Tapped {
    fn commit(&self, transaction: Transaction) -> BoxFuture<'static, CommitOutcome> {
        let (queue, session) = (self.keys.queue(), self.keys.cluster().session(&NodeName::new("b").unwrap()));
        let closes = |value: &Vec<u8>| SessionRecord::from_value(value).is_ok_and(|record| !record.open);
        let what = transaction.writes.iter().find_map(|write| match write {
            Write::Append { prefix, .. } if *prefix == queue => Some("enqueued"),
            Write::Put { key, value } if *key == session && closes(value) => Some("closes"),
            _ => None,
        });
        let (commit, said) = (self.store.commit(transaction), self.said.clone());
        if what == Some("closes") {
            said.lock().unwrap().push("closes");
        }
        async move {
            let outcome = commit.await;
            if what == Some("enqueued") && matches!(outcome, CommitOutcome::Committed(_)) {
                said.lock().unwrap().push("enqueued");
            }
            outcome
        }
        .boxed()
    }

    callsign_store::forward_to_store! { store: read watch nature }
}

#[tokio::test(start_paused = true)]
async fn a_node_has_said_in_the_queue_that_it_leaves_before_it_closes_its_session() {
    let cluster = Cluster::new();
    let first = cluster.node("a").await;
    let keys = first.shared.keys.clone();
    let said: Arc<Mutex<Vec<&str>>> = Arc::default();
    let store = Tapped { store: cluster.store.connect("b"), keys, said: said.clone() };
    let store: SharedStore = Arc::new(store);
    let node = Registry::join(Config { store: store.into(), ..cluster.config("b") }).await.unwrap();
    assert!(node.ready(TEST_DEADLINE).await.is_ok());
    node.drain().await;
    cluster.store.connect("b").set_latency(Duration::from_millis(20));
    said.lock().unwrap().clear();
    node.leave().await.unwrap();
    assert_eq!(*said.lock().unwrap(), ["enqueued", "closes"]);
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_is_a_typed_error() {
    let missing = Registry::join(Config::new("a", "sqlite:/nowhere/at/all/x.db")).await;
    assert!(matches!(missing, Err(JoinError::Store(_))), "{:?}", missing.err());
    let unknown = Registry::join(Config::new("a", "carrier-pigeon:coop")).await;
    assert!(matches!(unknown, Err(JoinError::Store(_))));
    let bad = Registry::join(Config::new("a node", "memory:")).await;
    assert!(matches!(bad, Err(JoinError::BadName(_))));
    let open = Config::new("a", "memory:").listen(SocketAddr::from(([0, 0, 0, 0], 0)));
    assert!(matches!(Registry::join(open).await, Err(JoinError::Transport(_))), "no secret, no open port");
}
