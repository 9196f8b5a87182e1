//! What carries out what cores ask for, and what applications call.

pub(crate) mod endpoint;
pub(crate) mod events;
pub(crate) mod handle;
pub(crate) mod inner;
pub(crate) mod net;
#[cfg(feature = "node-server")]
pub(crate) mod node_server;
pub(crate) mod reach;
pub(crate) mod remote;
#[cfg(feature = "noise")]
pub(crate) mod secret;
#[cfg(not(feature = "noise"))]
#[path = "driver/absent/secret.rs"]
pub(crate) mod secret;
pub(crate) mod subscribers;
pub(crate) mod tasks;
#[cfg(feature = "tls")]
pub(crate) mod tls;
#[cfg(not(feature = "tls"))]
#[path = "driver/absent/tls.rs"]
pub(crate) mod tls;
pub mod trace;
