//! Who is a member of a registry, who leads it, and whose session still counts.
//!
//! Everything here is decided in the [store](callsign_store); this crate knows no names and no sockets. Two parts, each a
//! pure core with `step(now, input) -> effects` and a thin driver:
//!
//! - [`session`]: a node's lease in the store. While it is trusted, what the node holds is its own.
//! - membership and the seat of the leader: [`policy`] decides, [`state`] applies, [`elector`] drives the durable
//!   queue and the lock that covers a handoff.
//!
//! Promises: at most one leader per epoch, epochs only grow, a leader stays while it is a member (P2, P8). Does not
//! promise that a leader knows it was deposed: that its writes fail is the business of the fence.

#![forbid(unsafe_code)]

mod core;
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // where time, tasks and randomness come from
mod driver;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod session;

/// One member's part in membership, and in who leads: a pure core, and its driver.
pub mod elector {
    #[doc(inline)]
    pub use crate::core::elector::*;
    #[doc(inline)]
    pub use crate::driver::elector as driver;
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests drive
mod tests;

#[doc(inline)]
pub use self::{
    core::{lineage, member_rows, past, policy, record, sessions, settings, state, wipe},
    driver::{metrics, recording},
};
