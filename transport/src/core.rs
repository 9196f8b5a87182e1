//! What is decided, as pure cores: the folder `driver` carries it out.

pub(crate) mod admission;
pub(crate) mod agreed;
pub(crate) mod bucket;
pub(crate) mod ends;
#[cfg(feature = "node-server")]
pub(crate) mod flow;
pub(crate) mod frame;
pub(crate) mod headers;
pub(crate) mod held;
pub(crate) mod hello;
pub(crate) mod link;
pub(crate) mod links;
pub(crate) mod outbox;
pub(crate) mod peer;
pub(crate) mod permits;
pub(crate) mod refusals;
pub(crate) mod trace;
pub(crate) mod variant;
pub(crate) mod versions;
