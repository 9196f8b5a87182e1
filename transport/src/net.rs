//! Connections: sockets, or pipes inside the process.
#![allow(clippy::disallowed_methods)] // the driver is where time and tasks come from

pub(crate) mod connection;
pub(crate) mod handshake;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod stream;
mod tls;
pub(crate) mod wire;
