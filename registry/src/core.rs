//! What is decided of a node, as pure cores: `actor` and `node` carry it out.

pub(crate) mod caller;
pub(crate) mod leaving;
pub(crate) mod node;
pub(crate) mod registry;
