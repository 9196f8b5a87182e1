//! Who is a member of a registry, who leads it, and whose session still counts.
//!
//! Everything here is decided in the [`store`]; this crate knows no names and no sockets. Four parts, each a pure
//! core with `step(now, input) -> effects` and a thin driver:
//!
//! - [`session`]: a node's lease in the store. While it is trusted, what the node holds is its own.
//! - membership and the seat of the leader: [`policy`] decides, [`state`] applies, [`elector`] drives the durable
//!   queue and the lock that covers a handoff.
//! - [`election`]: elections for everyone: leases, ranks, trust windows, oracles, and what leading means.
//! - [`store`]: ordered keys, transactions as data, watches, and the backends.
//!
//! Promises: at most one leader per epoch, epochs only grow, a leader stays while it is a member (P2, P8). Does not
//! promise that a leader knows it was deposed: that its writes fail is the business of the fence.

#![cfg_attr(not(feature = "any-fdb"), forbid(unsafe_code))]

pub mod clock;
pub mod election;
pub mod elector;
pub mod entropy;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod golden_tests;
pub mod ids;
pub mod keys;
pub mod lineage;
#[doc(hidden)]
pub mod lock;
pub mod metrics;
pub mod past;
pub mod policy;
pub mod random;
pub mod record;
pub mod recording;
pub mod session;
pub mod sessions;
pub mod settings;
pub mod state;
pub mod store;
pub mod supervision;
mod sweep;
#[cfg(test)]
mod test_log;
pub mod time;
pub mod wipe;

pub use clock::Clock;
pub use entropy::Entropy;
pub use time::Time;
