//! One file for each command.

pub(crate) mod ask;
pub(crate) mod bench;
pub(crate) mod bench_node;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod explained;
pub(crate) mod hold;
mod lag;
mod members;
pub(crate) mod node;
pub(crate) mod registries;
pub(crate) mod run;
pub(crate) mod top;
pub(crate) mod watch;
pub(crate) mod wipe;
pub(crate) mod witness;
