//! The commands of `callsign-sim`.

pub(crate) mod arguments;
pub(crate) mod check_recordings;
pub(crate) mod cost;
pub(crate) mod crowd;
mod elections;
pub(crate) mod exhaustive;
#[cfg(feature = "planted")]
pub(crate) mod mutants;
pub(crate) mod nodes;
pub(crate) mod replay;
pub(crate) mod rows;
pub(crate) mod run;
mod seeds;
mod short;
