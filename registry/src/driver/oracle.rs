//! A registry as an oracle, and as a source of signals for others.
//!
//! - [`RegistryOracle`]: whoever holds a name leads. As safe as the name: while its node's session is trusted.
//! - [`QueueOracle`]: whoever leads the registry leads. No clock ends it, so it is for work whose sink checks the fence.
//! - [`Monitored`]: any oracle, and claims as soon as the leader is seen to be gone.

#[cfg(test)]
mod conformance_tests;
mod monitor;
mod name;
mod queue;

pub use monitor::{MonitorEvent, MonitorSettings, Monitored};
pub use name::RegistryOracle;
pub use queue::{ChecksFence, QueueOracle};
