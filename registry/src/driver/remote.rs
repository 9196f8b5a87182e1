//! Actors that no name leads to: what users may do with the links of their node.
//!
//! A node's endpoint can do more (end links, dial others, send what members send), and each of that would break the node. So
//! nobody outside is given one.

use std::{sync::Arc, time::Duration};

use callsign_transport::{ActorAddress, LinkStatus, Permits, RefusalCounts, RemoteMessage, ResolveError};
use ractor::ActorRef;

use crate::driver::{node::Node, registry::Registry};

/// Actors of other nodes that no name leads to, and the links to these nodes. Of one node; cheap to clone.
#[derive(Clone)]
pub struct Remote {
    node: Arc<Node>,
}

impl Registry {
    /// Actors of other nodes that no name leads to, and what the node's links are like.
    pub fn remote(&self) -> Remote {
        Remote { node: self.node.clone() }
    }
}

impl Remote {
    /// The address of an actor, to be sent to others, who make a reference of it. Has peers reach it, if it is of this node: with
    /// messages of this type only.
    ///
    /// Of a reference to an actor of another node it is that actor's address, while the link is up; afterwards an address that
    /// leads nowhere.
    pub fn address_of<M: RemoteMessage>(&self, actor: &ActorRef<M>) -> ActorAddress {
        self.node.endpoint.address_of(actor)
    }

    /// Makes a reference of an address. Does not wait. If the actor has ended, and this node does not know it yet, the reference
    /// ends as soon as the actor's node says so.
    ///
    /// The reference ends with its actor, as the actor did, so that ractor's `monitor`, `link` and `wait` work. It ends with
    /// the link, too: then the actor may live, and is resolved again once there is another link.
    pub fn resolve<M: RemoteMessage>(&self, address: &ActorAddress) -> Result<ActorRef<M>, ResolveError> {
        self.node.endpoint.resolve(address)
    }

    /// As [`resolve`](Self::resolve), but asks the actor's node first, and waits for its answer for at most `wait`. An actor that has
    /// ended is [`ResolveError::Gone`] at once.
    pub async fn resolve_live<M: RemoteMessage>(
        &self,
        address: &ActorAddress,
        wait: Duration,
    ) -> Result<ActorRef<M>, ResolveError> {
        self.node.endpoint.resolve_live(address, wait).await
    }

    /// The links that are up, oldest first.
    pub fn links(&self) -> Vec<LinkStatus> {
        self.node.endpoint.links()
    }

    /// How many actors of this node there are of whose end some other node is to be told.
    pub fn watched(&self) -> usize {
        self.node.endpoint.watched()
    }

    /// Accepted sockets that are in their handshakes right now.
    pub fn unauthenticated(&self) -> usize {
        self.node.endpoint.unauthenticated()
    }

    /// How many connections did not become links, by a word for why, since the node began; and how many messages for actors that
    /// peers cannot reach were refused, as `no-such-actor`, and calls, as `too-many-calls`.
    pub fn refusal_counts(&self) -> RefusalCounts {
        self.node.endpoint.refusal_counts()
    }

    /// What this node may do, by its certificate.
    pub fn permits(&self) -> Permits {
        self.node.endpoint.permits()
    }

    /// For how long the node's certificate is still valid. `None`: it has none, or that cannot be told.
    pub fn certificate_expires_in(&self) -> Option<Duration> {
        self.node.endpoint.keys().tls.and_then(|tls| tls.expires_in())
    }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Remote({:?})", self.node.endpoint)
    }
}
