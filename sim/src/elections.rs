//! Elections: campaigns and the lease's operations as they ship, over the store as it ships, in a world of their own.
//!
//! An [`ElectionWorld`] is a value: machines with clocks of their own, a process on each with its campaign, its role,
//! its worker and its subscribers, a store, and a sink that checks epochs. [`ElectionWorld::apply`] does one
//! [`ElectionAction`]; what is not possible is not done. An [`ElectionScheduler`] draws actions from a seed, [`run()`]
//! lets it go on for a while, heals everything, and looks at what is left. The [`Judge`] sees true time, every commit,
//! every answer and every handle, which nobody in the world does.
//!
//! The checks are those of the design, by the same names (Inv1 to Inv14; Inv15 is the registry's, Inv16 is what a sweep must meet).

mod action;
mod carry;
mod checks;
mod judge;
mod process;
mod run;
mod scheduler;
mod setup;
mod space;
mod store;
mod trace;
mod world;

pub use self::{
    action::{Channel, ElectionAction, ElectionFate, Order, Slot},
    checks::{Check, ElectionCounts},
    judge::Judge,
    process::{
        Asking, Author, Doing, ElectionProcess, ElectionRequest, Intent, OracleCallKind, Pending, Role,
        Subscriber, Watch,
    },
    run::{ElectionPlan, ElectionRan, ElectionSwept, replay, run, run_caught},
    scheduler::ElectionScheduler,
    setup::{DRIFT_PPM, ElectionFaults, ElectionScenario, ElectionSetup, Rates, SeatedMember},
    space::{ElectionBudget, SMALL, Small, SpaceState},
    trace::ElectionTrace,
    world::{ElectionMachine, ElectionOrphan, ElectionWorld, Sink, Written},
};
pub use crate::sweep::sweep;
