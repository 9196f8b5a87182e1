//! A trace in a file, as those of the registry's world are kept.

use super::{run::replay, setup::Scenario, world::World};
use crate::trace::{TraceError, TraceOf};

/// A trace of elections.
pub type Trace = TraceOf<Scenario>;

impl Trace {
    /// Replays it, and heals what it left.
    pub fn replay(&self) -> Result<World, TraceError> {
        Ok(replay(self.scenario()?, self.seed, &self.actions).0)
    }
}
