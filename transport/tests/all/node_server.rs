//! What is peculiar to links over the sessions of an application's `NodeServer`. Everything else is in the suite that
//! runs over both.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests wait, and may panic

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::support::*;
use callsign_transport::{
    Carrier, DownReason, Endpoint, MemoryNetwork, Network, NodeServerNetwork, P, RactorClusterMessage,
    Refused, StartError,
    ractor_cluster::{
        NodeEventSubscription, NodeServerMessage, node::NodeServerSessionInformation as Session,
    },
};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort, call_t, rpc::CallResult};

/// An endpoint, and the application's `NodeServer` under it.
struct Node {
    endpoint: Endpoint,
    server: ActorRef<NodeServerMessage>,
}

impl Node {
    async fn over(network: &MemoryNetwork, node: &str, incarnation: u64) -> Self {
        Self::with(network, node, incarnation, |_| {}).await
    }

    async fn with(
        network: &MemoryNetwork,
        node: &str,
        incarnation: u64,
        change: impl FnOnce(&mut Settings),
    ) -> Self {
        let server = node_server(node, COOKIE).await;
        let over = NodeServerNetwork::over_memory(server.clone(), network.clone());
        let over = Over { carrier: Carrier::NodeServer, network: Network::NodeServer(over) };
        let mut settings = config(node, incarnation, &over);
        change(&mut settings);
        Self { endpoint: start(settings).await, server }
    }
}

async fn two(network: &MemoryNetwork) -> (Node, Node) {
    let (a, b) = (Node::over(network, "a", 1).await, Node::over(network, "b", 2).await);
    dial(&b.endpoint, &[&a.endpoint]);
    tokio::join!(link(&a.endpoint, &b.endpoint), link(&b.endpoint, &a.endpoint));
    (a, b)
}

/// An actor of the application that knows nothing of endpoints.
struct Doubler;

#[derive(RactorClusterMessage)]
enum Double {
    #[rpc]
    This(P<u64>, RpcReplyPort<P<u64>>),
}

impl Actor for Doubler {
    type Msg = Double;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<Double>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }

    async fn handle(
        &self,
        _: ActorRef<Double>,
        Double::This(P(number), reply): Double,
        (): &mut (),
    ) -> Result<(), ActorProcessingErr> {
        let _ = reply.send(P(2 * number));
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn there_is_one_session_and_the_application_uses_it_too() {
    let network = MemoryNetwork::new();
    let (a, b) = two(&network).await;
    let of_b = sessions_are(&b.server, 1).await.remove(0);
    assert_eq!(sessions(&a.server).await.len(), 1);
    assert_eq!(of_b.peer_name.as_ref().unwrap().name, "a@a.test");
    let (doubler, _) = Actor::spawn(None, Doubler, ()).await.unwrap();
    let remote: ActorRef<Double> = proxy(&of_b, doubler.get_id().pid()).await.into();
    let P(number) = call_t!(remote, Double::This, 5000, P(21)).unwrap();
    assert_eq!(number, 42);
    // Frames go the same way: nothing else joins the two.
    let mut events = a.endpoint.subscribe(CHANNEL);
    up(&mut events).await;
    let (to_a, _) = b.endpoint.link_to("a").unwrap();
    of_b.actor.stop(None);
    assert_eq!(down(&mut events).await.2, DownReason::Closed);
    assert!(control(&b.endpoint, to_a, "x").is_err());
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_node_server_is_refused_on_both_sides() {
    let network = MemoryNetwork::new();
    let a = Node::over(&network, "a", 1).await;
    let plain = Over { carrier: Carrier::Connection, network: Network::Memory(network.clone()) };
    let b = start(config("b", 2, &plain)).await;
    dial(&b, &[&a.endpoint]);
    let (ours, theirs) = (Carrier::NodeServer, Carrier::Connection);
    refused(&a.endpoint, |why| *why == Refused::Carrier { ours, theirs }).await;
    refused(&b, |why| *why == Refused::Carrier { ours: theirs, theirs: ours }).await;
}

#[tokio::test(start_paused = true)]
async fn another_cookie_is_no_session_and_never_looks_like_a_link() {
    let network = MemoryNetwork::new();
    let a = Node::over(&network, "a", 1).await;
    let stranger = node_server("b", "another cookie").await;
    let over = NodeServerNetwork::over_memory(stranger, network.clone());
    let over = Over { carrier: Carrier::NodeServer, network: Network::NodeServer(over) };
    let b = start(config("b", 2, &over)).await;
    let mut events = a.endpoint.subscribe(CHANNEL);
    dial(&b, &[&a.endpoint]);
    refused(&a.endpoint, |why| matches!(why, Refused::Session(_))).await;
    refused(&b, |why| matches!(why, Refused::Session(_))).await;
    let link = tokio::time::timeout(Duration::from_secs(60), events.recv()).await;
    assert!(link.is_err(), "{link:?}");
    sessions_are(&a.server, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_server_that_is_gone_is_a_typed_error_and_one_that_comes_back_brings_the_links_back() {
    let network = MemoryNetwork::new();
    let gone = node_server("a", COOKIE).await;
    gone.stop(None);
    gone.wait(None).await.unwrap();
    let above = NodeServerNetwork::over_memory(gone.clone(), network.clone());
    let over = Over { carrier: Carrier::NodeServer, network: Network::NodeServer(above.clone()) };
    let refused_start = try_start(config("a", 1, &over)).await;
    assert!(matches!(refused_start, Err(StartError::NodeServer { .. })), "{refused_start:?}");

    let server = node_server("a", COOKIE).await;
    above.replace(server.clone());
    let a = start(config("a", 1, &over)).await;
    let b = Node::over(&network, "b", 2).await;
    dial(&b.endpoint, &[&a]);
    let mut events = a.subscribe(CHANNEL);
    up(&mut events).await;
    server.kill();
    assert_eq!(down(&mut events).await.2, DownReason::Closed);
    refused(&a, |why| matches!(why, Refused::Session(_))).await;
    above.replace(node_server("a", COOKIE).await);
    assert_eq!(up(&mut events).await.0, *b.endpoint.peer_id());
    control(&b.endpoint, link(&b.endpoint, &a).await, "back").unwrap();
    assert_eq!(&message(&mut events).await[..], b"back");
}

#[tokio::test(start_paused = true)]
async fn the_session_of_a_silent_peer_ends_with_its_link() {
    let network = MemoryNetwork::new();
    let (a, b) = two(&network).await;
    let mut events = a.endpoint.subscribe(CHANNEL);
    up(&mut events).await;
    for (from, to) in [(&a, &b), (&b, &a)] {
        network.hold(address(&from.endpoint), address(&to.endpoint));
    }
    assert_eq!(down(&mut events).await.2, DownReason::Silent);
    sessions_are(&a.server, 0).await;
    sessions_are(&b.server, 0).await;
}

/// "observer" is linked to "peer", which dies without anybody noticing and comes back elsewhere.
async fn restarted_past_a_dead_session(observer: &str, peer: &str) {
    let network = MemoryNetwork::new();
    let observer = Node::with(&network, observer, 1, |s| s.timing.silence = Duration::from_secs(3600)).await;
    let former = Node::over(&network, peer, 2).await;
    let meet = |other: &Node| {
        dial(&observer.endpoint, &[&other.endpoint]);
        dial(&other.endpoint, &[&observer.endpoint]);
    };
    meet(&former);
    let mut events = observer.endpoint.subscribe(CHANNEL);
    assert_eq!(up(&mut events).await.0, *former.endpoint.peer_id());
    for (from, to) in [(&observer, &former), (&former, &observer)] {
        network.hold(address(&from.endpoint), address(&to.endpoint));
    }
    drop(former.endpoint);
    former.server.kill();
    assert_eq!(sessions(&observer.server).await.len(), 1, "nobody knows that it is dead");

    let successor = Node::over(&network, peer, 3).await;
    let start = tokio::time::Instant::now();
    meet(&successor);
    assert_eq!(down(&mut events).await.2, DownReason::Evicted);
    assert_eq!(up(&mut events).await.0, *successor.endpoint.peer_id());
    assert!(start.elapsed() < Duration::from_secs(3600), "it did not wait for the silence limit");
    let link = link(&successor.endpoint, &observer.endpoint).await;
    control(&successor.endpoint, link, "hello").unwrap();
    assert_eq!(&message(&mut events).await[..], b"hello");
    assert_eq!(sessions_are(&observer.server, 1).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_lesser_node_gets_in_past_a_session_that_nobody_knows_to_be_dead() {
    restarted_past_a_dead_session("z", "b").await;
}

#[tokio::test(start_paused = true)]
async fn a_restarted_greater_node_gets_in_past_a_session_that_nobody_knows_to_be_dead() {
    restarted_past_a_dead_session("a", "z").await;
}

#[tokio::test(start_paused = true)]
async fn an_application_that_stops_a_remote_reference_costs_a_session_which_comes_back() {
    let network = MemoryNetwork::new();
    let (a, b) = two(&network).await;
    let mut events = a.endpoint.subscribe(CHANNEL);
    let (_, first) = up(&mut events).await;
    let (doubler, _) = Actor::spawn(None, Doubler, ()).await.unwrap();
    let session = sessions_are(&b.server, 1).await.remove(0);
    proxy(&session, doubler.get_id().pid()).await.stop(None);
    assert_eq!(down(&mut events).await.2, DownReason::Closed);
    assert_ne!(up(&mut events).await.1, first);
}

#[tokio::test(start_paused = true)]
async fn calls_fail_when_their_session_ends_and_do_not_wait() {
    let network = MemoryNetwork::new();
    let (a, b) = two(&network).await;
    let (doubler, _) = Actor::spawn(None, Doubler, ()).await.unwrap();
    let session = sessions_are(&b.server, 1).await.remove(0);
    let remote: ActorRef<Double> = proxy(&session, doubler.get_id().pid()).await.into();
    a.server.kill();
    until("the link is down", || b.endpoint.link_to("a").is_none().then_some(())).await;
    let answer = remote.call(|reply| Double::This(P(1), reply), Some(Duration::from_secs(600))).await;
    assert!(matches!(answer, Err(_) | Ok(CallResult::SenderError)));
}

/// Counts the sessions that a `NodeServer` began.
struct Opened(Arc<AtomicUsize>);

impl NodeEventSubscription for Opened {
    fn node_session_opened(&self, _: Session) {
        self.0.fetch_add(1, SeqCst);
    }

    fn node_session_disconnected(&self, _: Session) {}

    fn node_session_authenticated(&self, _: Session) {}
}

#[tokio::test]
async fn strangers_never_get_as_far_as_the_node_server() {
    use tokio::{io::AsyncWriteExt, net::TcpStream};
    let server = node_server("a", COOKIE).await;
    let opened = Arc::new(AtomicUsize::new(0));
    let (id, subscription) = ("test".into(), Box::new(Opened(opened.clone())));
    server.cast(NodeServerMessage::SubscribeToEvents { id, subscription }).map_err(|_| "gone").unwrap();
    let over = Network::NodeServer(NodeServerNetwork::new(server.clone()));
    let a = start(config("a", 1, &Over { carrier: Carrier::NodeServer, network: over })).await;
    let mut strangers = Vec::new();
    for n in 0..40 {
        let mut stranger = TcpStream::connect(address(&a)).await.unwrap();
        if n % 2 == 0 {
            // Sixteen megabytes of a session's frame are announced, as `NodeServer` would take them from anybody.
            stranger.write_all(&(16_u64 << 20).to_be_bytes()).await.unwrap();
        }
        strangers.push(stranger);
    }
    let b = start(config("b", 2, &tcp(Carrier::NodeServer))).await;
    dial(&b, &[&a]);
    link(&a, &b).await;
    assert_eq!(sessions_are(&server, 1).await.len(), 1);
    assert_eq!(opened.load(SeqCst), 1, "that of the one node");
    drop(strangers);
}

/// Links up by hand, does something, and returns how the link ended.
async fn by_hand(act: impl FnOnce(&SessionByHand)) -> DownReason {
    let mut config = config("a", 1, &tcp(Carrier::NodeServer));
    config.keys.secrets.clear();
    let a = start(config).await;
    let mut events = a.subscribe(CHANNEL);
    let crate::strangers::Hand::Session(hand) =
        crate::strangers::linked_by_hand(Carrier::NodeServer, &a).await
    else {
        panic!("no session")
    };
    up(&mut events).await;
    act(&hand);
    down(&mut events).await.2
}

#[tokio::test]
async fn a_peer_that_breaks_the_rules_of_the_stream_loses_its_link_and_the_reason_is_said() {
    let protocol = |why: &str| DownReason::Protocol(why.into());
    let read = by_hand(|hand| hand.part(1, &u32::MAX.to_be_bytes())).await;
    assert_eq!(read, protocol("more bytes of a stream read than were sent"));
    let seen = by_hand(|hand| hand.part(3, &[])).await;
    assert_eq!(seen, protocol("the end of a stream seen before it was there"));
    let ended = by_hand(|hand| hand.part(2, &[])).await;
    assert_eq!(ended, DownReason::Closed);
    // What is no part of a stream concerns nobody.
    let ignored = by_hand(|hand| {
        hand.part(9, b"?");
        hand.part(1, b"short");
        hand.part(2, &[]);
    });
    assert_eq!(ignored.await, DownReason::Closed);
}
