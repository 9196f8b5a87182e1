//! What carries out what cores ask for, and what applications call.

pub mod campaign;
pub mod conformance;
pub mod fenced;
pub mod follow;
pub mod lease;
pub mod metrics;
#[cfg(any(test, feature = "wall-clock-pool"))]
pub mod pool;
#[cfg(feature = "postgres")]
pub mod postgres_lease;
pub mod sink;
