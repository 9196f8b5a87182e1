//! Seeded simulation and exhaustive checking of the very cores that ship.

#![forbid(unsafe_code)]

#[path = "../../cli/src/colour.rs"] // as `progress` below
pub mod colour;
pub mod cost;
pub mod counted;
pub mod drawing;
pub mod elections;
pub mod exhaustive;
pub mod histories;
pub mod linear;
pub mod longest;
pub mod mutants;
pub mod nodes;
pub mod oracle;
#[path = "../../cli/src/progress.rs"] // one for the command, which is published, and for what is not
pub mod progress;
pub mod recording;
pub mod references;
pub mod rng;
pub mod rows;
pub mod run;
pub mod scenario;
pub mod schedule;
pub mod search;
pub mod shared;
pub mod shrink;
pub mod simulated;
pub mod sweep;
pub mod timeline;
pub mod trace;
pub mod world;
