//! Whole nodes under seeds: the drivers that ship, on one thread.
//!
//! `ractor`, `tokio` under a paused clock, the network and the store in memory, three to five nodes of the public crate: nothing
//! here knows what a core asks for. Faults act where a node meets its world: at its store ([`edge`]), its links, its clock, and at
//! the one place where its tasks are polled ([`life`]). What its clients were told is a history, for the same judge as that of
//! real processes ([`crate::histories`]).
//!
//! ```text
//! nemesis --------> life: clock, turns ---+
//!    |                                    v
//!    +--> edge: store ------------> callsign::Registry <---- clients, acting actors
//!    +--> MemoryNetwork ----------------> ^                        | events
//!                                                                  v
//!                                                         judge of histories
//! ```
//!
//! A seed means the same run in every process of one build: what a run draws, it draws from the seed. `ractor` numbers its actors
//! for the whole process, so one process runs one seed ([`run`](mod@run)).
//!
//! In one of ten seeds the nodes join a second registry, with clients and a history of its own ([`second`]).

pub mod audit;
pub mod clock;
pub mod counts;
pub mod crowd;
pub mod edge;
pub mod life;
pub mod nemesis;
pub mod office;
pub mod plan;
pub mod queues;
pub mod run;
pub mod second;
pub mod trace;
pub mod world;
