//! What is decided of a node, as pure cores: `actor` and `node` carry it out.

pub(crate) mod common;
pub(crate) mod registry;
