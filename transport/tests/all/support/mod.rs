//! Endpoints for tests: over TCP or memory, with links of their own or over the sessions of `NodeServer`s.
#![allow(dead_code, unreachable_pub)] // which parts are used depends on features

use std::{net::SocketAddr, ops, sync::Arc, time::Duration};

use bytes::Bytes;
use callsign_transport::{
    ActorAddress, Carrier, DownReason, Endpoint, EndpointConfig, Lane, LinkEvent, LinkEvents, LinkId,
    MemoryNetwork, Network, PeerId, Refused, Secret, SendError, StartError,
};

mod authority;
mod certificates;
#[cfg(feature = "node-server")]
mod node_servers;
pub mod spans;

pub use authority::{Authority, Wish};
pub use certificates::*;

#[cfg(feature = "node-server")]
pub use node_servers::*;

/// The tests of a module, once per carrier: `own_links::NAME`, `node_server::NAME`. By the clock and threads they
/// take: `paused` (one thread, virtual time), `threads` (two), `real` (one).
macro_rules! suite {
    ($($kind:ident: [$($name:ident),* $(,)?];)*) => {
        mod own_links {
            $($($crate::support::test_over!($kind, Connection, $name);)*)*
        }
        #[cfg(feature = "node-server")]
        mod node_server {
            $($($crate::support::test_over!($kind, NodeServer, $name);)*)*
        }
    };
}

macro_rules! test_over {
    (paused, $carrier:ident, $name:ident) => {
        #[tokio::test(start_paused = true)]
        async fn $name() {
            super::$name(callsign_transport::Carrier::$carrier).await;
        }
    };
    (threads, $carrier:ident, $name:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            super::$name(callsign_transport::Carrier::$carrier).await;
        }
    };
    (real, $carrier:ident, $name:ident) => {
        #[tokio::test]
        async fn $name() {
            super::$name(callsign_transport::Carrier::$carrier).await;
        }
    };
}

pub(crate) use {suite, test_over};

/// What carries the links of a test, and over what.
#[derive(Clone)]
pub struct Over {
    pub carrier: Carrier,
    pub network: Network,
}

/// A configuration, and whether a `NodeServer` belongs to it.
pub struct Settings {
    pub config: EndpointConfig,
    pub carrier: Carrier,
}

impl ops::Deref for Settings {
    type Target = EndpointConfig;

    fn deref(&self) -> &EndpointConfig {
        &self.config
    }
}

impl ops::DerefMut for Settings {
    fn deref_mut(&mut self) -> &mut EndpointConfig {
        &mut self.config
    }
}

pub const CHANNEL: &str = "registry/orders";

pub fn config(node: &str, incarnation: u64, over: &Over) -> Settings {
    let mut config = EndpointConfig::new("prod", node, incarnation, "127.0.0.1:0".parse().unwrap());
    config.keys.secrets = vec![Secret::new("a secret of the test cluster").unwrap()];
    config.network = over.network.clone();
    Settings { config, carrier: over.carrier }
}

pub fn memory(carrier: Carrier) -> (MemoryNetwork, Over) {
    let network = MemoryNetwork::new();
    (network.clone(), Over { carrier, network: Network::Memory(network) })
}

pub fn tcp(carrier: Carrier) -> Over {
    Over { carrier, network: Network::Tcp }
}

pub async fn start(settings: Settings) -> Endpoint {
    try_start(settings).await.unwrap()
}

pub async fn try_start(settings: Settings) -> Result<Endpoint, StartError> {
    #[allow(unused_mut)]
    let Settings { mut config, carrier } = settings;
    match carrier {
        Carrier::Connection => {}
        #[cfg(feature = "node-server")]
        Carrier::NodeServer => config.network = above_a_node_server(&config).await,
        #[cfg(not(feature = "node-server"))]
        Carrier::NodeServer => unreachable!("needs the feature `node-server`"),
    }
    Endpoint::start(config).await
}

/// Makes `dialler` dial the others.
pub fn dial(dialler: &Endpoint, others: &[&Endpoint]) {
    dialler
        .set_peers(others.iter().map(|e| (e.peer_id().node.clone(), e.local_addr().to_string())).collect());
}

/// "a" and "b", where "b" dials "a".
pub async fn pair(network: &Over) -> (Endpoint, Endpoint) {
    let (a, b) = (start(config("a", 1, network)).await, start(config("b", 2, network)).await);
    dial(&b, &[&a]);
    (a, b)
}

/// "b" has dialled "a", whose reader of [`CHANNEL`] has heard that they are linked.
pub struct Linked {
    pub a: Endpoint,
    pub b: Endpoint,
    pub events: LinkEvents,
    pub to_a: LinkId,
    pub to_b: LinkId,
}

pub async fn linked(a: Settings, b: Settings) -> Linked {
    let (a, b) = (start(a).await, start(b).await);
    dial(&b, &[&a]);
    let mut events = a.subscribe(CHANNEL);
    let (to_a, to_b) = (link(&b, &a).await, link(&a, &b).await);
    up(&mut events).await;
    Linked { a, b, events, to_a, to_b }
}

pub async fn linked_over(network: &Over) -> Linked {
    linked(config("a", 1, network), config("b", 2, network)).await
}

pub async fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(tokio::time::Instant::now() < deadline, "never came: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub async fn link(from: &Endpoint, to: &Endpoint) -> LinkId {
    let peer = to.peer_id().clone();
    let what = format!("a link from {} to {peer}", from.peer_id());
    until(&what, || from.link_to(&peer.node).filter(|(_, linked)| *linked == peer)).await.0
}

pub async fn next(events: &mut LinkEvents) -> LinkEvent {
    let event = tokio::time::timeout(Duration::from_secs(60), events.recv()).await;
    event.expect("no event came").expect("the endpoint is gone")
}

pub async fn up(events: &mut LinkEvents) -> (PeerId, LinkId) {
    match next(events).await {
        LinkEvent::Up { peer, link, .. } => (peer, link),
        event => panic!("not up: {event:?}"),
    }
}

pub async fn message(events: &mut LinkEvents) -> Bytes {
    match next(events).await {
        LinkEvent::Message { body, .. } => body,
        event => panic!("not a message: {event:?}"),
    }
}

pub async fn down(events: &mut LinkEvents) -> (PeerId, LinkId, DownReason) {
    match next(events).await {
        LinkEvent::Down { peer, link, reason } => (peer, link, reason),
        event => panic!("not down: {event:?}"),
    }
}

pub fn control(from: &Endpoint, link: LinkId, text: &str) -> Result<(), SendError> {
    from.send(link, Lane::Control, CHANNEL, Bytes::copy_from_slice(text.as_bytes()))
}

pub fn number(body: &[u8]) -> u64 {
    u64::from_be_bytes(body[..8].try_into().unwrap())
}

/// Waits until the endpoint has refused somebody for a reason that `fits`.
pub async fn refused(endpoint: &Endpoint, fits: impl Fn(&Refused) -> bool) -> Refused {
    let found = || endpoint.refusals().into_iter().map(|refusal| refusal.why).find(|why| fits(why));
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(why) = found() {
            return why;
        }
        let now = tokio::time::Instant::now();
        assert!(now < deadline, "{:?} has only {:?}", endpoint, endpoint.refusals());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Two nodes that are linked must stay so: a message gets through over the very same link.
pub struct Bystanders {
    pub a: Endpoint,
    c: Endpoint,
    link: LinkId,
    events: LinkEvents,
}

impl Bystanders {
    pub async fn of(a: &Endpoint, network: &Over) -> Self {
        let c = start(config("c", 3, network)).await;
        dial(&c, &[a]);
        let mut events = a.subscribe("bystanders");
        let link = link(&c, a).await;
        while up(&mut events).await.0.node != Arc::from("c") {}
        Self { a: a.clone(), c, link, events }
    }

    pub async fn assert_unaffected(&mut self) {
        assert_eq!(self.c.link_to("a").map(|(link, _)| link), Some(self.link));
        self.c.send(self.link, Lane::Control, "bystanders", Bytes::from_static(b"still here")).unwrap();
        loop {
            match next(&mut self.events).await {
                LinkEvent::Message { body, peer, .. } if peer.node == Arc::from("c") => {
                    return assert_eq!(&body[..], b"still here");
                }
                LinkEvent::Down { peer, .. } if peer.node == Arc::from("c") => panic!("went down"),
                _ => {}
            }
        }
    }
}

pub fn address(endpoint: &Endpoint) -> SocketAddr {
    endpoint.local_addr()
}

/// The address with something else in it, as a peer that lies would say it.
pub fn altered(address: &ActorAddress, alter: impl FnOnce(&mut ActorAddress)) -> ActorAddress {
    let mut altered = address.clone();
    alter(&mut altered);
    altered
}
