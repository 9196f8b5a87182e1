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
//! - *notice*: a peer from which nothing comes for [`LinkTiming::silence`] is down;
//! - *authentication*: both sides know the cluster secret (`Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`), or have certificates that
//!   name their nodes (TLS 1.3), or both; everything after that is encrypted; without either only loopback addresses are
//!   served. The secret says "of this cluster", a certificate says which node ([`Keys`]);
//! - *bounds*: memory per link, per reader and per stranger is limited; bad input costs the connection it came by, nothing
//!   else.
//!
//! Does not promise that a message arrives: what is queued or under way when a link ends is lost, and the sender is
//! told no more than `Down`.
//!
//! The rules are in `core`, without I/O; `driver` drives them. With the feature `node-server` the frames of a link may travel in a session of
//! the application's own `ractor_cluster::NodeServer` instead of over the connection itself (`NodeServerNetwork`);
//! everything else is the same.
//!
//! **ractor's `cluster` feature** is on, so every message type of a program that uses this crate says how it travels: [`message`] for those that
//! do (or [`RactorClusterMessage`], with [`P`] and [`remote_message!`]), [`RactorMessage`] for those that do not.

#![forbid(unsafe_code)]
#![allow(unreachable_pub)] // the cores are `pub` for the feature `cores`
#![cfg_attr(feature = "cores", allow(missing_docs))]

mod config;
mod core;
#[cfg(feature = "cores")]
#[doc(hidden)]
pub mod cores;
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // where time, tasks and randomness come from
mod driver;
mod error;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod keys;
#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests drive
mod tests;
mod tuning;

pub use callsign_macros::message;
pub use config::EndpointConfig;
pub use core::agreed::{Carrier, Security};
pub use core::peer::{Lane, LinkId, MAX_NAME, PeerId};
pub use core::permits::{BadPermits, Permits};
pub use core::refusals::{Refusal, RefusalCounts};
#[doc(hidden)]
pub use core::variant::VariantName;
pub use core::versions::Versions;
pub use driver::endpoint::{Endpoint, LinkStatus};
pub use driver::events::{LinkEvents, Subscription};
pub use driver::net::{
    memory::{MemoryNetwork, Traffic},
    network::Network,
};
#[cfg(feature = "node-server")]
pub use driver::node_server::NodeServerNetwork;
#[doc(hidden)]
pub use driver::remote::message as __message;
pub use driver::remote::{
    ActorAddress, BroadcastError, Broadcasted, Kind, P, RemoteMessage, ResolveError, Watches,
};
#[cfg(feature = "noise")]
pub use driver::secret::BadSecret;
pub use driver::secret::{MAX_SECRETS, Secret};
pub use driver::subscribers::{LinkEvent, RoomTaken};
pub use driver::tasks::Tasks;
#[cfg(feature = "tls")]
pub use driver::tls::BadTls;
pub use driver::tls::Tls;
pub use driver::trace;
pub use error::{CertificateFault, DownReason, KeysRefused, Refused, SendError, StartError, Whose};
pub use keys::Keys;
#[cfg(feature = "node-server")]
#[doc(no_inline)]
pub use ractor_cluster;
pub use ractor_cluster_derive::{RactorClusterMessage, RactorMessage};
pub use tuning::{LinkLimits, LinkTiming};
