//! Why something was refused, and why a link ended.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    core::{
        agreed::{Carrier, Security},
        peer::LinkId,
        permits::BadPermits,
        versions::Versions,
    },
    driver::secret::MAX_SECRETS,
};

/// Why an endpoint did not start. Nothing was left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A node or cluster name is not 1 to 100 ASCII letters, digits, `.`, `_` and `-`.
    #[error("{name:?} is not a name: use 1 to 100 of A-Z a-z 0-9 . _ -")]
    BadName {
        /// The refused name.
        name: String,
    },
    /// Without keys an endpoint listens on loopback addresses only.
    #[error("listening on {listen}, which is not a loopback address, needs a cluster secret or certificates")]
    SecretNeeded {
        /// The address asked for.
        listen: std::net::SocketAddr,
    },
    /// Two settings contradict each other.
    #[error("settings that contradict each other: {why}")]
    BadSettings {
        /// Which.
        why: &'static str,
    },
    /// The keys cannot be used.
    #[error(transparent)]
    Keys(#[from] KeysRefused),
    /// The address could not be listened on.
    #[error("cannot listen on {listen}")]
    Listen {
        /// The address asked for.
        listen: std::net::SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The actor that hears of the ends of this node's actors did not start.
    #[error("the watcher of actors did not start")]
    Watcher(#[from] ractor::SpawnErr),
    /// The application's `NodeServer` does not run, or does not answer.
    #[error("the NodeServer {why}")]
    NodeServer {
        /// What is wrong with it.
        why: &'static str,
    },
}

/// Why new keys were not taken. The former ones are in force.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysRefused {
    /// A running node has secrets or has none, has certificates or has none: nodes that differ in it refuse each other.
    #[error("a running node cannot go from {now} to {wanted}")]
    OtherSecurity {
        /// What is in force.
        now: Security,
        /// What was asked for.
        wanted: Security,
    },
    /// Too many secrets.
    #[error("{count} secrets, {MAX_SECRETS} may be valid at once")]
    TooManySecrets {
        /// How many were given.
        count: usize,
    },
    /// The certificate is not this node's.
    #[error("the certificate is for {}, not for {wanted}", certified.join(", "))]
    NotThisNode {
        /// The name that was looked for, `callsign://CLUSTER/NODE`.
        wanted: String,
        /// The names that it has.
        certified: Vec<String>,
    },
}

/// Why a message was not queued. Nothing of it was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The link is not up, or not any more. A `Down` for it was or is being delivered.
    #[error("{link} is not up")]
    NotUp {
        /// The link.
        link: LinkId,
    },
    /// The lane's queue has no room for it: the peer, or the network, is slower than the sender. Later may do.
    #[error("{queued} bytes wait already, {limit} may")]
    QueueFull {
        /// Bytes in the queue.
        queued: usize,
        /// How many may be.
        limit: usize,
    },
    /// The message is larger than any that may be sent. Sending it again will not help.
    #[error("a message of {length} bytes is too large, {limit} may be sent")]
    TooLarge {
        /// Its length with its channel and framing, in bytes.
        length: usize,
        /// The most.
        limit: usize,
    },
}

/// Why two nodes did not link up. Sent to the other side where there is one that understands it, so that both
/// sides' operators read the same reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Whatever is at the other end does not speak this protocol.
    #[error("the other side does not speak Callsign")]
    NotCallsign,
    /// There is no version of the protocol that both sides speak.
    #[error("protocol {theirs} there, {ours} here")]
    Version {
        /// Of this node.
        ours: Versions,
        /// Of the other side.
        theirs: Versions,
    },
    /// The other side belongs to another cluster.
    #[error("cluster {theirs:?} there, {ours:?} here")]
    Cluster {
        /// Of this node.
        ours: String,
        /// Of the other side.
        theirs: String,
    },
    /// One side has a cluster secret, or certificates, and the other has not.
    #[error("{theirs} there, {ours} here")]
    Security {
        /// Of this node.
        ours: Security,
        /// Of the other side.
        theirs: Security,
    },
    /// One side uses the sessions of a `NodeServer`, the other does not.
    #[error("{theirs} there, {ours} here")]
    Carrier {
        /// Of this node.
        ours: Carrier,
        /// Of the other side.
        theirs: Carrier,
    },
    /// The `NodeServer` of one side did not take the session. Perhaps the cookies differ, both have one name or one `host:port`, or
    /// the application has a session of its own with that node.
    #[error("no session: {0}")]
    Session(String),
    /// The two sides have different secrets: the one that the dialler shows is none that the listener accepts.
    #[error("the cluster secrets differ")]
    Secret,
    /// One side does not believe the other's certificate, or it is not for the node that shows it.
    #[error("{of} certificate {why}")]
    Certificate {
        /// Whose certificate it is.
        of: Whose,
        /// What is wrong with it.
        why: CertificateFault,
    },
    /// TLS failed, for something that is not a certificate.
    #[error("TLS: {0}")]
    Tls(String),
    /// Without a secret and certificates, only peers on loopback addresses are talked to.
    #[error("a peer that is not on a loopback address needs a cluster secret or certificates")]
    SecretNeeded,
    /// The other side has this node's own name.
    #[error("both sides are called {node:?}")]
    OwnName {
        /// The name.
        node: Arc<str>,
    },
    /// The other side's name is not a name.
    #[error("the name given is not a name")]
    BadName,
    /// At the dialled address lives another node than the one looked for.
    #[error("{found:?} answered where {expected:?} was looked for")]
    WrongNode {
        /// Who was dialled.
        expected: Arc<str>,
        /// Who answered.
        found: Arc<str>,
    },
    /// The node with the lesser name dialled. It must wait to be dialled, so that dials do not cross.
    #[error("the node with the lesser name waits to be dialled")]
    WrongDirection,
    /// A newer incarnation of the same node was linked since: this one was declared over.
    #[error("a newer incarnation of that node has taken its place")]
    Superseded,
    /// The handshake did not end in time.
    #[error("the handshake did not end in time")]
    Deadline,
    /// Too many sockets wait in their handshakes; this was the one that had waited longest.
    #[error("too many unauthenticated connections")]
    Crowded,
    /// Too many handshakes have begun within a second. This one was closed unread.
    #[error("too many connections at once")]
    TooFast,
    /// The other side refused, for a reason that only newer versions know.
    #[error("refused for a reason that this version does not know: {0}")]
    Unknown(String),
    /// The node has as many links as it may have.
    #[error("{limit} links are up, and no more may be")]
    Full {
        /// How many may be.
        limit: usize,
    },
    /// What was received makes no sense at that point of the handshake.
    #[error("malformed handshake: {0}")]
    Malformed(String),
    /// The connection could not be made, or ended within the handshake.
    #[error("no connection: {0}")]
    Unreachable(String),
    /// The endpoint is leaving.
    #[error("the node is leaving")]
    Leaving,
}

impl Refused {
    /// A word for it that stays the same, for counters.
    pub fn word(&self) -> &'static str {
        match self {
            Self::NotCallsign => "not-callsign",
            Self::Version { .. } => "version",
            Self::Cluster { .. } => "cluster",
            Self::Security { .. } => "security",
            Self::Carrier { .. } => "carrier",
            Self::Session(_) => "session",
            Self::Secret => "secret",
            Self::Certificate { .. } => "certificate",
            Self::Tls(_) => "tls",
            Self::SecretNeeded => "secret-needed",
            Self::OwnName { .. } => "own-name",
            Self::BadName => "bad-name",
            Self::WrongNode { .. } => "wrong-node",
            Self::WrongDirection => "wrong-direction",
            Self::Superseded => "superseded",
            Self::Deadline => "deadline",
            Self::Crowded => "crowded",
            Self::TooFast => "too-fast",
            Self::Unknown(_) => "unknown",
            Self::Full { .. } => "full",
            Self::Malformed(_) => "malformed",
            Self::Unreachable(_) => "unreachable",
            Self::Leaving => "leaving",
        }
    }
}

/// One of the two sides of a connection, as the reader sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Whose {
    /// This node.
    Ours,
    /// The other side.
    Theirs,
}

impl Whose {
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Self::Ours => Self::Theirs,
            Self::Theirs => Self::Ours,
        }
    }
}

impl std::fmt::Display for Whose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ours => "this node's",
            Self::Theirs => "the other side's",
        })
    }
}

/// What is wrong with a certificate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateFault {
    /// It is not good any more.
    #[error("has expired{}", .at_unix.map(|at| format!(" (at {at} s, Unix time)")).unwrap_or_default())]
    Expired {
        /// When it, or one between it and its authority, ran out, in seconds since 1970. `None`: the other side knows.
        at_unix: Option<u64>,
    },
    /// It is not good yet. Is a clock wrong?
    #[error("is not good yet")]
    NotYetValid,
    /// No authority that is believed has issued it.
    #[error("is of an authority that is not believed")]
    UnknownIssuer,
    /// There was none.
    #[error("is missing")]
    Missing,
    /// It says what it may be used for, and that is not both sides of a connection.
    #[error("is not for this use: it must be for clients and servers")]
    Purpose,
    /// It is for no node of this cluster.
    #[error("is for no node of cluster {cluster:?}: it is for [{}]", certified.join(", "))]
    OtherCluster {
        /// The cluster.
        cluster: String,
        /// What it is for, `callsign://CLUSTER/NODE` each.
        certified: Vec<String>,
    },
    /// It is for other nodes than the one that showed it says to be.
    #[error("is not for {said:?}: it is for [{}]", certified.join(", "))]
    OtherNode {
        /// Who the node says that it is.
        said: String,
        /// What it is for, `callsign://CLUSTER/NODE` each.
        certified: Vec<String>,
    },
    /// What it says that a node may do cannot be read.
    #[error("says of {name} what cannot be read: {why}")]
    Permits {
        /// The node, `callsign://CLUSTER/NODE`.
        name: String,
        /// What is wrong with it.
        why: BadPermits,
    },
    /// Something else.
    #[error("cannot be used: {0}")]
    Other(String),
}

/// Why a link ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum DownReason {
    /// The connection ended without a word. The peer may be dead or alive.
    #[error("the connection closed")]
    Closed,
    /// Nothing was heard for the silence limit. The peer may be dead or alive.
    #[error("the peer was silent for too long")]
    Silent,
    /// The peer said goodbye: it left, and everything it had queued arrived before.
    #[error("the peer left")]
    Goodbye,
    /// A newer incarnation of the node took its place; on the evicted side: it was told so.
    #[error("a newer incarnation took the node's place")]
    Evicted,
    /// A newer link to the same incarnation took its place.
    #[error("a newer link took its place")]
    Replaced,
    /// The peer sent what the protocol does not allow. Nothing of it was delivered.
    #[error("protocol violation: {0}")]
    Protocol(String),
    /// This endpoint forgot the node, or the peer did.
    #[error("the node was forgotten")]
    Forgotten,
    /// This endpoint left.
    #[error("this node left")]
    Left,
}
