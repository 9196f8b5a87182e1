//! What an endpoint is told at its start.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{keys::Keys, net::MemoryNetwork, tasks::Tasks};

/// Everything an [`crate::Endpoint`] needs to know.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The cluster's name. Nodes of other clusters are refused.
    pub cluster: String,
    /// This node's name.
    pub node: Arc<str>,
    /// Drawn afresh at each start of the process.
    pub incarnation: u64,
    /// Where to listen. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// What the nodes of the cluster know each other by. Without any, nothing is encrypted and only loopback addresses
    /// are served.
    pub keys: Keys,
    /// Deadlines and intervals.
    pub timing: LinkTiming,
    /// Sizes.
    pub limits: LinkLimits,
    /// TCP, or a network inside the process for tests.
    pub network: Network,
    /// Seeds the jitter of redialling.
    pub seed: u64,
    /// Who starts the endpoint's tasks.
    pub tasks: Tasks,
}

impl EndpointConfig {
    /// A configuration with default timing and limits, over TCP, without keys.
    pub fn new(
        cluster: impl Into<String>,
        node: impl Into<Arc<str>>,
        incarnation: u64,
        listen: SocketAddr,
    ) -> Self {
        Self {
            cluster: cluster.into(),
            node: node.into(),
            incarnation,
            listen,
            keys: Keys::default(),
            timing: LinkTiming::default(),
            limits: LinkLimits::default(),
            network: Network::Tcp,
            seed: incarnation,
            tasks: Tasks::default(),
        }
    }
}

/// What carries the links.
#[derive(Clone, Debug)]
pub enum Network {
    /// Sockets.
    Tcp,
    /// Pipes inside the process: several endpoints in one test, under a paused clock, with faults.
    Memory(MemoryNetwork),
    /// The sessions of the application's own `NodeServer` (feature `node-server`).
    #[cfg(feature = "node-server")]
    NodeServer(crate::node_server::NodeServerNetwork),
}

/// What carries the frames of a link, once both sides know each other. Both must say the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Carrier {
    /// The connection itself.
    #[default]
    Connection,
    /// A session of `ractor_cluster` over it.
    NodeServer,
}

impl Carrier {
    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks for it
    pub(crate) fn is_connection(&self) -> bool {
        *self == Self::Connection
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connection => "a link of its own",
            Self::NodeServer => "the sessions of a NodeServer",
        })
    }
}

/// Deadlines and intervals of links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkTiming {
    /// Within this a connection must be made and authenticated; over a `NodeServer`, its session be ready, too.
    /// Smaller: slow networks never link up. Larger: an idle stranger is kept longer.
    pub handshake: Duration,
    /// How often each side says that it lives. Smaller: more packets. Larger than a third of `silence`: one lost
    /// packet ends a link.
    pub ping: Duration,
    /// A peer unheard for this long is given up. Smaller: a busy machine loses links. Larger: the dead are
    /// noticed later.
    pub silence: Duration,
    /// The first wait before dialling again. Smaller: a refusing address is hammered.
    pub redial_min: Duration,
    /// The longest wait before dialling again. Larger: a healed network is noticed later.
    pub redial_max: Duration,
    /// How long `leave` may take to send what is queued and say goodbye.
    pub leave: Duration,
}

impl Default for LinkTiming {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(3),
            ping: Duration::from_secs(1),
            silence: Duration::from_secs(5),
            redial_min: Duration::from_millis(50),
            redial_max: Duration::from_secs(2),
            leave: Duration::from_secs(2),
        }
    }
}

/// How much memory links may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkLimits {
    /// The largest message with its channel and framing, in bytes. All nodes of a cluster should have the same: a
    /// link ends when it brings a larger one.
    pub frame: usize,
    /// Bytes that may wait in a link's control lane.
    pub control_queue: usize,
    /// Bytes that may wait in a link's bulk lane.
    pub bulk_queue: usize,
    /// Bulk bytes that may be under way, sent and not read by the peer. This much may be ahead of a control
    /// message; this much per round trip is the most the bulk lane carries.
    pub bulk_window: usize,
    /// Bytes that may wait for one reader of [`crate::LinkEvents`]; each message counts its length and 1 KiB more.
    /// When they do, the links that bring more are not read from.
    pub inbox: usize,
    /// Accepted sockets that may be in their handshakes. One more, and one that waits longest is closed. Smaller: nodes that
    /// start all at once dial again. Larger: more memory for strangers, at most some 100 KiB each with certificates, 8 KiB
    /// without.
    pub unauthenticated: usize,
    /// How many of them may be of one address (of IPv6: of one network of 64 bits). Smaller: nodes of one machine, or behind
    /// one NAT, that start all at once dial again. Larger: one stranger may have more of the room.
    pub unauthenticated_per_address: usize,
    /// How many of them are kept for familiar addresses: those at which peers are dialled, and from which peers have
    /// authenticated. Smaller: strangers can make a node wait that comes back. Larger: new nodes wait for each other.
    pub reserved: usize,
    /// Handshakes that may begin in a second, for strangers and for familiar addresses each; twice as many at once. What
    /// comes faster is closed unread. Smaller: many nodes that start at once dial again. Larger: strangers may cost more
    /// processor time; each handshake is a key exchange, with certificates some signatures too.
    pub handshakes_per_second: u32,
    /// Bytes a second that are read from one peer, and as many at once. What comes faster waits in the network; nobody is
    /// declared dead for it. Smaller: snapshots and large batches take longer. Larger: one peer may cost more of this
    /// node's time.
    pub received_per_second: usize,
    /// Links that may be up. Those that this node dials always find room. Smaller than the cluster: nodes refuse each other.
    /// Larger: more memory for a peer that comes under ever new names, which a secret allows and certificates do not.
    pub links: usize,
    /// Bytes of calls to this node's actors that one peer may have open; each counts its length and 1 KiB more. One more,
    /// and it fails at once. Smaller: callers of slow actors are refused. Larger: more memory for them.
    pub open_calls: usize,
}

impl LinkLimits {
    /// What is meant where nothing is said.
    pub const DEFAULT: Self = Self {
        frame: 4 << 20,
        control_queue: 16 << 20,
        bulk_queue: 8 << 20,
        bulk_window: 512 << 10,
        inbox: 8 << 20,
        unauthenticated: 128,
        unauthenticated_per_address: 32,
        reserved: 64,
        handshakes_per_second: 100,
        received_per_second: 256 << 20,
        links: 1024,
        open_calls: 64 << 20,
    };
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Whether links are authenticated and encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Security {
    /// Neither: loopback only.
    Plain,
    /// A cluster secret.
    Secured,
    /// Certificates.
    Certified,
    /// Certificates, and a cluster secret.
    Both,
}

impl Security {
    /// Whether a cluster secret is asked for.
    pub fn has_secret(self) -> bool {
        matches!(self, Self::Secured | Self::Both)
    }

    /// Whether certificates are asked for.
    pub fn has_certificates(self) -> bool {
        matches!(self, Self::Certified | Self::Both)
    }
}

impl fmt::Display for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "neither secret nor certificates",
            Self::Secured => "a secret",
            Self::Certified => "certificates",
            Self::Both => "certificates and a secret",
        })
    }
}
