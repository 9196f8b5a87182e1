//! Endpoints over TCP on loopback and over the network in memory; over links of their own and, with the feature
//! `node-server`, over the sessions of `NodeServer`s.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests wait, and may panic

mod actors;
mod admission;
mod by_hand;
mod certificates;
mod ends;
mod incarnations;
mod logged;
#[cfg(feature = "node-server")]
mod node_server;
mod order;
mod rotation;
mod slow;
mod strangers;
mod support;
mod traced;
