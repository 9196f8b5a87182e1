//! What the simulator promises of itself: seeds are clean, runs repeat, and what must not happen is seen when it does.
#![allow(clippy::unwrap_used)] // helpers of tests are tests

mod cluster;
mod determinism;
mod elections;
mod elections_fire;
mod fires;
mod nodes;
mod output;
mod seeds;
mod sources;
mod traps;
