//! `NodeServer`s for tests. All of a process share its names, numbers and groups, which is why endpoints use none of them.

use std::{net::Ipv4Addr, time::Duration};

use callsign_transport::{
    EndpointConfig, Network, NodeServerNetwork,
    ractor_cluster::{
        BoxRead, BoxWrite, ClusterBidiStream, NodeServer, NodeServerMessage,
        node::{NodeConnectionMode, NodeServerSessionInformation as Session},
    },
};
use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, call_t};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

pub const COOKIE: &str = "the cookie of the test cluster";

/// An application's `NodeServer`, as it should be set up: isolated, its own listener on loopback.
pub async fn node_server(node: &str, cookie: &str) -> ActorRef<NodeServerMessage> {
    let mode = Some(NodeConnectionMode::Isolated);
    let server = NodeServer::new(0, cookie.into(), node.into(), format!("{node}.test"), None, mode)
        .with_listen_addr(Ipv4Addr::LOCALHOST.into());
    Actor::spawn(None, server, ()).await.unwrap().0
}

/// The network of a configuration, with a `NodeServer` of its own over it.
pub async fn above_a_node_server(config: &EndpointConfig) -> Network {
    let server = node_server(&config.node, COOKIE).await;
    Network::NodeServer(match &config.network {
        Network::Tcp => NodeServerNetwork::new(server),
        Network::Memory(network) => NodeServerNetwork::over_memory(server, network.clone()),
        Network::NodeServer(already) => already.clone(),
    })
}

/// The authenticated sessions of a `NodeServer`, oldest first.
pub async fn sessions(server: &ActorRef<NodeServerMessage>) -> Vec<Session> {
    let mut sessions: Vec<_> =
        call_t!(server, NodeServerMessage::GetSessions, 60_000).unwrap().into_values().collect();
    sessions.sort_by_key(|session| session.node_id);
    sessions
}

/// Waits for a number of sessions.
pub async fn sessions_are(server: &ActorRef<NodeServerMessage>, count: usize) -> Vec<Session> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let sessions = sessions(server).await;
        if sessions.len() == count {
            return sessions;
        }
        assert!(tokio::time::Instant::now() < deadline, "{count} sessions, not {sessions:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A session's proxy of an actor, once it is there.
pub async fn proxy(session: &Session, pid: u64) -> ActorCell {
    let id = ActorId::Remote { node_id: session.node_id, pid };
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(proxy) = session.actor.get_children().into_iter().find(|child| child.get_id() == id) {
            return proxy;
        }
        assert!(tokio::time::Instant::now() < deadline, "no proxy of {pid}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What gates send each other.
#[derive(callsign_transport::RactorClusterMessage)]
pub enum GateMessage {
    Part(Vec<u8>),
}

/// Where a stream's end is: the first frame after the hello.
#[derive(Serialize, Deserialize)]
struct Through {
    gate: u64,
    stream: u128,
}

/// Takes everything, answers nothing.
struct DeafGate;

impl Actor for DeafGate {
    type Msg = GateMessage;
    type State = ();
    type Arguments = ();

    async fn pre_start(&self, _: ActorRef<GateMessage>, (): ()) -> Result<(), ActorProcessingErr> {
        Ok(())
    }
}

/// A peer that does by hand what an endpoint does over a `NodeServer`. Its session ends when it is dropped.
pub struct SessionByHand {
    server: ActorRef<NodeServerMessage>,
    gate: ActorRef<GateMessage>,
    stream: u128,
}

struct Tcp(TcpStream);

impl ClusterBidiStream for Tcp {
    fn split(self: Box<Self>) -> (BoxRead, BoxWrite) {
        let (read, write) = self.0.into_split();
        (Box::new(read), Box::new(write))
    }
}

async fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    let length = stream.read_u32().await.unwrap();
    let mut frame = vec![0; usize::try_from(length).unwrap()];
    stream.read_exact(&mut frame).await.unwrap();
    frame
}

impl SessionByHand {
    /// Over a connection on which everything is said that comes before the session.
    pub async fn over(mut connection: TcpStream) -> Self {
        let own = Actor::spawn(None, DeafGate, ()).await.unwrap().0;
        let mine = rmp_serde::to_vec(&Through { gate: own.get_id().pid(), stream: 7 }).unwrap();
        connection.write_u32(u32::try_from(mine.len()).unwrap()).await.unwrap();
        connection.write_all(&mine).await.unwrap();
        let (_preamble, _hello) = (read_frame(&mut connection).await, read_frame(&mut connection).await);
        let theirs: Through = rmp_serde::from_slice(&read_frame(&mut connection).await).unwrap();
        let server = node_server("z", COOKIE).await;
        let stream = Box::new(Tcp(connection));
        let opened = NodeServerMessage::ConnectionOpenedExternal { stream, is_server: false };
        server.cast(opened).map_err(|_| "gone").unwrap();
        let session = sessions_are(&server, 1).await.remove(0);
        let gate = proxy(&session, theirs.gate).await.into();
        Self { server, gate, stream: theirs.stream }
    }

    /// Sends bytes of the stream.
    pub fn write(&self, bytes: &[u8]) {
        self.part(0, bytes);
    }

    /// Sends whatever is asked for: 0 is bytes, 1 a count of bytes read, 2 the end, 3 that the end was seen.
    pub fn part(&self, tag: u8, body: &[u8]) {
        let part = [&self.stream.to_be_bytes()[..], &[tag], body].concat();
        self.gate.cast(GateMessage::Part(part)).map_err(|_| "gone").unwrap();
    }
}

impl Drop for SessionByHand {
    fn drop(&mut self) {
        self.server.kill();
    }
}
