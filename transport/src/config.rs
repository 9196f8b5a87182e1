//! What an endpoint is told at its start.

use std::{net::SocketAddr, sync::Arc};

use callsign_store::Entropy;

use crate::{
    driver::{net::network::Network, tasks::Tasks},
    keys::Keys,
    tuning::{LinkLimits, LinkTiming},
};

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
    /// Who draws the keys of Noise's handshakes, and the numbers of streams over a `NodeServer`. What TLS draws is always the
    /// system's: its library makes the keys of a handshake itself, and takes nobody's numbers for them.
    pub entropy: Entropy,
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
            entropy: Entropy::default(),
            tasks: Tasks::default(),
        }
    }
}
