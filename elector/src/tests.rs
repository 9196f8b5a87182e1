//! Tests of what is in several modules.

mod golden;
pub(crate) mod store;
