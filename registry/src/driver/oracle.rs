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

use callsign_election::{Context, Fault, Init};

use crate::driver::registry::Registry;

pub use monitor::{MonitorEvent, MonitorSettings, Monitored};
pub use name::RegistryOracle;
pub use queue::{ChecksFence, QueueOracle};

/// The member of an election that a registry decides is the node.
fn init(registry: &Registry, context: &Context) -> Result<Init, Fault> {
    let node = registry.node();
    if context.member.as_str() == node {
        return Ok(Init::Ready);
    }
    Err(Fault::Fatal(format!("the member is {}, and has to be the node, {node}", context.member)))
}
