//! Ordered, authenticated links between incarnations of nodes, and typed references to actors behind them.
//!
//! An [`Endpoint`] is a node's end of all its links. It dials the nodes that it is told of, is dialled by others, and
//! keeps at most one link up to each. What comes over a link is read by channel, in order, with the link's beginning
//! and end in the same stream ([`LinkEvents`]); nothing overtakes them. Of actors on other nodes it makes ordinary
//! `ActorRef`s ([`Endpoint::resolve`]).
//!
//! Takes as given: a network that may drop connections, hold them back for any time in either direction, and be
//! listened to and meddled with; peers that may stop for any time; strangers who connect. Not given: that a link
//! which ended means a peer that ended.
//!
//! Promises:
//! - *order*: one link and lane is FIFO without gaps; for each link `Up`, its messages, `Down`, and then the next link's
//!   `Up`; nothing of a link is delivered after its `Down`;
//! - *one incarnation*: a node's former incarnation never takes the place of its successor;
//! - *notice*: a peer that is unheard for [`LinkTiming::silence`] is down;
//! - *authentication*: both sides know the cluster secret (`Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`), or have certificates that
//!   name their nodes (TLS 1.3), or both; everything after that is encrypted; without either only loopback addresses are
//!   served. The secret says "of this cluster", a certificate says which node ([`Keys`]);
//! - *bounds*: memory per link, per reader and per stranger is limited; bad input costs the connection it came by, nothing
//!   else.
//!
//! Does not promise that a message arrives: what is queued or under way when a link ends is lost, and the sender is
//! told no more than `Down`.
//!
//! The rules are in cores without I/O (`bucket`, `doors`, `frame`, `hello`, `link`, `links`, `outbox`, `refusals`); `net`, `handle`,
//! `inner`, `endpoint` and `remote` drive them. With the feature `node-server` the frames of a link may travel in a session of
//! the application's own `ractor_cluster::NodeServer` instead of over the connection itself (`NodeServerNetwork`);
//! everything else is the same.
//!
//! **ractor's `cluster` feature** is on, so every message type of a program that uses this crate needs a derive:
//! [`RactorMessage`] for local ones, [`RactorClusterMessage`] for those that travel.

#![forbid(unsafe_code)]
#![allow(unreachable_pub)] // the cores are `pub` for the feature `cores`
#![cfg_attr(feature = "cores", allow(missing_docs))]

mod agreed;
mod bucket;
mod config;
#[cfg(feature = "cores")]
#[doc(hidden)]
pub mod cores;
mod doors;
mod draws;
mod endpoint;
mod error;
mod events;
mod frame;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod golden_tests;
mod handle;
mod hello;
mod inner;
mod keys;
mod link;
mod links;
mod lock;
mod net;
#[cfg(feature = "node-server")]
mod node_server;
mod outbox;
mod peer;
mod refusals;
mod remote;
mod secret;
mod subscribers;
mod tasks;
mod tls;
mod tuning;
mod variant;
mod versions;

pub use agreed::{Carrier, Security};
pub use config::EndpointConfig;
pub use draws::Draws;
pub use endpoint::{Endpoint, LinkStatus};
pub use error::{CertificateFault, DownReason, KeysRefused, Refused, SendError, StartError, Whose};
pub use events::LinkEvents;
pub use keys::Keys;
pub use net::{memory::MemoryNetwork, network::Network};
#[cfg(feature = "node-server")]
pub use node_server::NodeServerNetwork;
pub use peer::{Lane, LinkId, MAX_NAME, PeerId};
#[cfg(feature = "node-server")]
#[doc(no_inline)]
pub use ractor_cluster;
pub use ractor_cluster_derive::{RactorClusterMessage, RactorMessage};
pub use refusals::{Refusal, RefusalCounts};
pub use remote::{ActorAddress, Kind, P, RemoteMessage, ResolveError};
pub use secret::{BadSecret, MAX_SECRETS, Secret};
pub use subscribers::LinkEvent;
pub use tasks::Tasks;
pub use tls::{BadTls, Tls};
pub use tuning::{LinkLimits, LinkTiming};
#[doc(hidden)]
pub use variant::VariantName;
pub use versions::Versions;
