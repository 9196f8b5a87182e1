//! What carries out what cores ask for, and what applications call.

pub(crate) mod actor;
#[cfg(feature = "admin")]
pub mod admin;
pub(crate) mod explain;
pub(crate) mod group;
pub(crate) mod inbox;
pub mod metrics;
pub(crate) mod name_ref;
pub(crate) mod node;
#[cfg(feature = "election")]
pub(crate) mod oracle;
pub(crate) mod outage;
pub(crate) mod reads;
pub(crate) mod receive;
pub(crate) mod registration;
pub(crate) mod registry;
pub(crate) mod remote;
pub(crate) mod seat;
pub(crate) mod semaphore;
pub(crate) mod shared;
#[cfg(feature = "election")]
pub(crate) mod singleton;
pub(crate) mod start;
pub(crate) mod take;
pub(crate) mod traces;
pub(crate) mod watch;
