//! Elections for everyone: who of several may do what only one may do, now.
//!
//! Eight concepts. What else is public serves one of them: how it is set up ([`config`], [`timing`]), oracles that are there
//! ([`lease`], [`follow`], [`fenced`]), and the suite for those that are not ([`conformance`]).
//!
//! 1. **Identity**: a [`MemberId`](callsign_store::ids::MemberId) and a fresh [`Incarnation`](callsign_store::ids::Incarnation) per start.
//! 2. **[`Term`]** and **[`Fence`]**: one counter with two views. The ballot moves with every win and every refresh,
//!    the epoch is the ballot at the win. Neither ever goes back.
//! 3. **[`Policy`]**: who should have the seat, a pure function of the candidates.
//! 4. **[`ElectionState`](state::ElectionState)**: what is kept of an election, and its pure `apply(evidence, command)`.
//! 5. **[`Oracle`]**: the only part that can be exchanged. It claims, refreshes and gives back, and answers
//!    [`Verdict::Granted`], [`Verdict::Denied`], or a [`Fault`]: "don't know" is never "no".
//! 6. **[`Campaign`]**: the only loop, and the only local clock. It measures trust, and on a loss it lapses, tells, stops
//!    the work and gives back, in that order.
//! 7. **[`Role`]**: what leading means.
//! 8. **[`FencedCell`](sink::FencedCell)**: the check at the place that is written to.

#![forbid(unsafe_code)]

mod core;
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // where time, tasks and randomness come from
mod driver;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
pub mod oracle;
pub mod role;
#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types)] // tests drive
mod tests;

#[cfg(any(test, feature = "wall-clock-pool"))]
#[doc(inline)]
pub use self::driver::pool;
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use self::driver::postgres_lease;
#[doc(inline)]
pub use self::{
    core::{config, policy, state, term, timing},
    driver::{campaign, conformance, fenced, follow, lease, metrics, sink},
};
pub use campaign::{Campaign, CampaignSettings, CampaignStarted, Leadership};
pub use config::ElectionConfig;
pub use lease::{Election, LeaseOptions, LeaseOracle};
pub use oracle::{
    Attempt, Context, Denial, Fault, Grant, Init, Oracle, Reaction, Refusal, Signal, Validity, Verdict,
};
pub use policy::Policy;
pub use role::{Abort, Lost, Role};
pub use state::{Candidate, Disable};
pub use term::{AuthorityTime, Fence, Term};
pub use timing::{Timing, TimingError};
