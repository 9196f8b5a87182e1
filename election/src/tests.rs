//! What tests share, and tests of what is in several modules.

pub(crate) mod clock;
mod golden;
pub(crate) mod stores;
