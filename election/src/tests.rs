//! What tests share, and tests of what is in several modules.

use std::time::Duration;

use crate::{Abort, Grant, Lost, Role};

pub(crate) mod clock;
mod golden;
pub(crate) mod stores;

/// A role that does nothing.
pub(crate) struct Idle;

impl<F: Sync> Role<F> for Idle {
    async fn activate(&mut self, _: &Grant<F>) -> Result<(), Abort> {
        Ok(())
    }

    async fn deactivate(&mut self, _: Lost, _: Duration) {}
}
