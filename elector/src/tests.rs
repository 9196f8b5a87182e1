//! Tests of what is in several modules.

pub(crate) mod bare;
mod golden;
pub(crate) mod store;
