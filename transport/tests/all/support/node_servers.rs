//! `NodeServer`s for tests. All of a process share its names, numbers and groups, which is why endpoints use none of them.

use std::net::Ipv4Addr;

use callsign_transport::{
    EndpointConfig, Network, NodeServerNetwork,
    ractor_cluster::{NodeServer, NodeServerMessage, node::NodeConnectionMode},
};
use ractor::{Actor, ActorRef};

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
