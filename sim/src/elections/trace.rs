//! A trace in a file, as those of the registry's world are kept.

use super::{run::replay, setup::ElectionScenario, world::ElectionWorld};
use crate::trace::{TraceError, TraceOf};

/// A trace of elections.
pub type ElectionTrace = TraceOf<ElectionScenario>;

impl ElectionTrace {
    /// Replays it, and heals what it left.
    pub fn replay(&self) -> Result<ElectionWorld, TraceError> {
        Ok(replay(self.scenario()?, self.seed, &self.actions).0)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    /// What failed once does not fail any more.
    #[test]
    fn pinned_traces_of_elections_are_clean() {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("traces/elections");
        let mut count = 0;
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let world = ElectionTrace::read(&path).unwrap().replay().unwrap();
            assert_eq!(world.judge.violation(), None, "{}", path.display());
            count += 1;
        }
        assert!(count > 0, "no trace in {}", dir.display());
    }
}
