//! Links over the sessions of an application's own `NodeServer` (feature `node-server`).
//!
//! ```text
//!   Endpoint: links, lanes, references        the same as over a connection of its own
//!      | a stream of bytes, with a window       (flow, tunnel)
//!   Gate ==== casts ====> proxy of the peer's gate
//!      |                                        the application's own remote actors and groups
//!   NodeServer: a session                       <---'
//!      | its bytes, by an external stream       (carrier)
//!   connection: our listener, deadline, hello, incarnation, Noise
//! ```
//!
//! The endpoint listens and dials, as it always does, and makes sure who is at the other end, in which incarnation. Then it
//! hands the connection to the `NodeServer` as an external stream. When the session is ready, the link's frames travel
//! in casts between the two nodes' gates.
//!
//! What is known to hurt in `ractor_cluster` 0.16.5, and what is done about it:
//! - *a lost session takes local names with it*: the gate has no name; references that the endpoint makes are its own;
//! - *stopping a remote reference ends the session*: nothing here stops one; the endpoint's own may be stopped;
//! - *a death overtakes replies and last words*: there is no death to overtake anything: frames, replies and ends of
//!   links are one stream, and an end is acknowledged before its session is closed;
//! - *a dead session keeps the restarted peer out*: a session lives as long as its link; a link is given up after
//!   [`crate::LinkTiming::silence`]; and before a peer's next session begins, the former one is ended
//!   ([`Links`](crate::core::links): `MakeWay`);
//! - *a silent or hungry stranger*: no connection reaches the `NodeServer` before its peer is known, by our listener's
//!   deadlines and limits.
//!
//! Sessions are counted by a label of their stream, never by the peer's name. Nothing is called over a session, only cast;
//! calls to the `NodeServer` itself have a timeout.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use callsign_store::{Entropy, lock::lock};
use ractor::{ActorCell, ActorId, ActorRef, rpc::CallResult};
use ractor_cluster::{NodeServerMessage, node::NodeServerSessionInformation as Session};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::{
    core::peer::PeerId,
    driver::{
        net::{
            handshake,
            memory::MemoryNetwork,
            stream::Connection,
            wire::{WireRead, WireWrite},
        },
        tasks::Tasks,
    },
    error::{Refused, StartError},
    tuning::LinkTiming,
};

mod carrier;
mod gate;
mod tunnel;
mod watch;

use carrier::Pumps;
use gate::{Gate, Registered};
use tunnel::{ReadHalf, WriteHalf};
use watch::{SessionSubscription, Watch};

/// A `NodeServer` that does not answer within this is taken for gone. Shorter: a busy one costs a link.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The sessions of an application's `NodeServer`, as what carries links.
///
/// The `NodeServer` must be `Isolated`: in transitive mode it dials its peers' peers by itself, past everything that is
/// done here. Its own listener cannot be switched off, so bind it to loopback (`with_listen_addr`). Dial the cluster's
/// nodes through the endpoint only; to one node there is one session, and the application uses it too. A session
/// ends with its link. `with_max_inbound_frame_size` must not be below 64 KiB. Cloning gives another handle to the same.
#[derive(Clone)]
pub struct NodeServerNetwork {
    server: Arc<Mutex<ActorRef<NodeServerMessage>>>,
    memory: Option<MemoryNetwork>,
}

impl From<ActorRef<NodeServerMessage>> for NodeServerNetwork {
    fn from(server: ActorRef<NodeServerMessage>) -> Self {
        Self::new(server)
    }
}

impl NodeServerNetwork {
    /// Connections are TCP.
    pub fn new(server: ActorRef<NodeServerMessage>) -> Self {
        Self { server: Arc::new(Mutex::new(server)), memory: None }
    }

    /// Connections are pipes inside the process, for tests.
    pub fn over_memory(server: ActorRef<NodeServerMessage>, network: MemoryNetwork) -> Self {
        Self { memory: Some(network), ..Self::new(server) }
    }

    /// The application has started its `NodeServer` again: a panic in a subscription, or in the application's supervisor,
    /// ends it and all its sessions. Links come back over the new one; until then they are refused.
    pub fn replace(&self, server: ActorRef<NodeServerMessage>) {
        *lock(&self.server) = server;
    }

    pub(crate) fn memory(&self) -> Option<&MemoryNetwork> {
        self.memory.as_ref()
    }
}

impl std::fmt::Debug for NodeServerNetwork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeServerNetwork").field("memory", &self.memory).finish_non_exhaustive()
    }
}

/// The first frame after the hello: where this side's end of the stream is.
#[derive(Serialize, Deserialize)]
struct Through {
    gate: u64,
    stream: u128,
}

/// An endpoint's dealings with the `NodeServer`.
pub(crate) struct Sessions {
    network: NodeServerNetwork,
    /// The one that tells `watch` of its sessions.
    subscribed: Mutex<Option<ActorRef<NodeServerMessage>>>,
    gate: Gate,
    watch: Arc<Watch>,
    /// How the labels of this endpoint begin.
    prefix: String,
    last: AtomicU64,
    /// By label: ends the connection under a session.
    cuts: Cuts,
    /// For how long a link that gives way may say why.
    grace: Duration,
    /// Starts what runs below links.
    tasks: Tasks,
}

type Cuts = Arc<Mutex<BTreeMap<String, CancellationToken>>>;

impl Sessions {
    pub(crate) async fn start(
        network: &NodeServerNetwork,
        timing: LinkTiming,
        tasks: Tasks,
        entropy: Entropy,
    ) -> Result<Self, StartError> {
        static ENDPOINTS: AtomicU64 = AtomicU64::new(0);
        let unusable = |why| StartError::NodeServer { why };
        let gate = Gate::start(tasks.clone(), entropy).await;
        let gate = gate.map_err(|_| unusable("has no gate: its actor did not start"))?;
        let sessions = Self {
            network: network.clone(),
            subscribed: Mutex::new(None),
            gate,
            watch: Arc::default(),
            prefix: format!("callsign/{}/", ENDPOINTS.fetch_add(1, Relaxed)),
            last: AtomicU64::new(0),
            cuts: Cuts::default(),
            grace: timing.handshake / 4,
            tasks,
        };
        let server = sessions.server().map_err(|_| unusable("has ended"))?;
        labels(&server).await.map_err(|_| unusable("does not answer"))?;
        Ok(sessions)
    }

    /// The `NodeServer` that there is, which tells of its sessions.
    fn server(&self) -> Result<ActorRef<NodeServerMessage>, Refused> {
        let server = lock(&self.network.server).clone();
        let mut subscribed = lock(&self.subscribed);
        if subscribed.as_ref().map(|server| server.get_id()) != Some(server.get_id()) {
            let (watch, prefix) = (self.watch.clone(), self.prefix.clone());
            let subscription = Box::new(SessionSubscription::new(watch, prefix.clone()));
            let subscribe = NodeServerMessage::SubscribeToEvents { id: prefix, subscription };
            server.cast(subscribe).map_err(|_| gone())?;
            *subscribed = Some(server.clone());
        }
        Ok(server)
    }

    /// Makes a session of an authenticated connection, and a stream of bytes over it. Has no deadline of its own: the
    /// caller drops it.
    pub(crate) async fn carry(
        &self,
        dialled: bool,
        peer: &PeerId,
        remote: SocketAddr,
        (mut read, mut write): (WireRead, WireWrite),
    ) -> Result<(Connection, Carried), Refused> {
        let registered = self.gate.tunnel();
        let mine = Through { gate: self.gate.pid(), stream: registered.stream };
        let frame = rmp_serde::to_vec(&mine).map_err(|error| Refused::Malformed(error.to_string()))?;
        handshake::send(&mut write, &frame).await?;
        let frame = handshake::next_frame(&mut read).await?;
        let theirs: Through = rmp_serde::from_slice(&frame)
            .map_err(|_| Refused::Malformed("where the stream ends is not said".into()))?;

        let server = self.server()?;
        let of_node = format!("{}{}@", self.prefix, peer.node);
        self.wait_for_former(&server, &of_node).await?;

        let label = format!("{of_node}{}/{}", peer.incarnation, self.last.fetch_add(1, Relaxed));
        let tunnel = registered.tunnel.clone();
        let (pumps, stream) = Pumps::start(&self.tasks, label.clone(), read, write, tunnel.clone());
        let ended = pumps.ended.clone();
        lock(&self.cuts).insert(label.clone(), ended.clone());
        self.watch.expect(&label);
        let (watch, cuts) = (self.watch.clone(), self.cuts.clone());
        let carried = Carried { label, watch, cuts, _pumps: pumps, _registered: registered };

        let opened =
            NodeServerMessage::ConnectionOpenedExternal { stream: Box::new(stream), is_server: !dialled };
        server.cast(opened).map_err(|_| gone())?;
        let session = tokio::select! {
            biased;
            session = self.watch.ready(&carried.label) => session,
            () = ended.cancelled() => None,
        };
        let session = session.ok_or_else(|| {
            Refused::Session(format!("the NodeServers did not agree on one with {}", peer.node))
        })?;
        let gate = proxy(&session, theirs.gate)
            .ok_or_else(|| Refused::Session(format!("{} has no gate in it", peer.node)))?;
        tunnel.open(gate.into(), theirs.stream);
        let read = Box::new(ReadHalf(tunnel.clone()));
        Ok((Connection { read, write: Box::new(WriteHalf(tunnel)), remote }, carried))
    }

    /// Waits until the `NodeServer` has no session of a former link to the node. Those that do not end in time are cut.
    async fn wait_for_former(
        &self,
        server: &ActorRef<NodeServerMessage>,
        of_node: &str,
    ) -> Result<(), Refused> {
        let cut_at = Instant::now() + self.grace;
        loop {
            let changed = self.watch.changed();
            tokio::pin!(changed);
            changed.as_mut().enable(); // before the look
            let former = labels(server).await?;
            if !former.iter().any(|label| label.starts_with(of_node)) {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = changed.as_mut() => {}
                () = sleep_until(cut_at) => {
                    for (label, cut) in &*lock(&self.cuts) {
                        if label.starts_with(of_node) {
                            cut.cancel();
                        }
                    }
                    changed.await;
                }
            }
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        if let Some(server) = &*lock(&self.subscribed) {
            let unsubscribe = NodeServerMessage::UnsubscribeToEvents(self.prefix.clone());
            let _ = server.cast(unsubscribe); // it may have ended
        }
    }
}

/// What a link over a session needs below it. Dropping it ends the session.
pub(crate) struct Carried {
    label: String,
    watch: Arc<Watch>,
    cuts: Cuts,
    _pumps: Pumps,
    _registered: Registered,
}

impl Drop for Carried {
    fn drop(&mut self) {
        lock(&self.cuts).remove(&self.label);
        self.watch.forget(&self.label);
    }
}

fn gone() -> Refused {
    Refused::Session("the NodeServer has ended".into())
}

/// The labels of all sessions that are authenticated.
async fn labels(server: &ActorRef<NodeServerMessage>) -> Result<Vec<String>, Refused> {
    match server.call(NodeServerMessage::GetSessions, Some(ANSWER_TIMEOUT)).await {
        Ok(CallResult::Success(sessions)) => {
            Ok(sessions.into_values().map(|session| session.peer_addr).collect())
        }
        Ok(CallResult::Timeout | CallResult::SenderError) | Err(_) => {
            Err(Refused::Session("the NodeServer does not answer".into()))
        }
    }
}

/// The proxy of an actor, by session and number: names and groups are the process's, not the session's.
fn proxy(session: &Session, pid: u64) -> Option<ActorCell> {
    let id = ActorId::Remote { node_id: session.node_id, pid };
    session.actor.get_children().into_iter().find(|child| child.get_id() == id)
}
