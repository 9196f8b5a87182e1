//! Tests of whole nodes, and of cores that talk to each other.

mod beside;
mod claims;
mod configuring;
mod defaults;
mod draining;
pub(crate) mod driver;
mod edges;
mod explaining;
mod failing;
mod faults;
mod golden;
mod groups;
mod joining;
mod limits;
mod lineage;
mod metadata;
mod moving;
mod name_ref;
#[cfg(feature = "node-server")]
mod node_server;
mod orders;
mod recorded;
mod refused;
mod resting;
mod shown;
#[cfg(feature = "election")]
mod singleton;
mod start;
mod status;
mod take;
mod told;
mod traced;
mod turns;
mod watching;
