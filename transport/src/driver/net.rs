//! Connections: sockets, or pipes inside the process.

pub(crate) mod connection;
pub(crate) mod handshake;
pub(crate) mod memory;
pub(crate) mod network;
#[cfg(feature = "noise")]
pub(crate) mod noise;
#[cfg(not(feature = "noise"))]
#[path = "net/absent/noise.rs"]
pub(crate) mod noise;
mod sealed;
pub(crate) mod stream;
#[cfg(feature = "tls")]
mod tls;
#[cfg(not(feature = "tls"))]
#[path = "net/absent/tls.rs"]
mod tls;
pub(crate) mod wire;
