//! What carries out what cores ask for.

pub mod elector;
pub mod metrics;
pub mod recording;
pub(crate) mod session;
pub(crate) mod trust;
