//! What the simulator promises of itself: seeds are clean, runs repeat, and what must not happen is seen when it does. And stories of
//! cores, which a test tells step by step in a [`cluster`].
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod answers;
mod cluster;
mod commits;
mod determinism;
mod draining;
mod elections;
mod elections_fire;
mod failover;
mod fires;
mod late;
mod log;
mod nodes;
mod output;
mod seeds;
mod sources;
mod spaces;
mod traps;
