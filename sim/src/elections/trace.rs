//! A trace in a file, as those of the registry's world are kept.

use std::{fs, path::Path};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::{action::Action, run::replay, setup::Scenario, world::World};
use crate::trace::TraceError;

/// What a file has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Trace {
    /// The scenario, by its name on the command line.
    pub scenario: String,
    /// The seed, which says in which world the trace begins.
    pub seed: u64,
    /// What it found when it was kept.
    pub found: String,
    /// Everything that happened, before the healing.
    pub actions: Vec<Action>,
}

impl Trace {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, TraceError> {
        Ok(serde_json::from_str(&fs::read_to_string(path)?)?)
    }

    /// Writes a file, a line for each action.
    pub fn write(&self, path: &Path) -> Result<(), TraceError> {
        let mut text = format!(
            "{{\"scenario\": {}, \"seed\": {}, \"found\": {},\n\"actions\": [\n",
            serde_json::to_string(&self.scenario)?,
            self.seed,
            serde_json::to_string(&self.found)?,
        );
        let lines: Result<Vec<String>, _> = self.actions.iter().map(serde_json::to_string).collect();
        text.push_str(&lines?.join(",\n"));
        text.push_str("\n]}\n");
        Ok(fs::write(path, text)?)
    }

    /// Its scenario.
    pub fn scenario(&self) -> Result<Scenario, TraceError> {
        Scenario::from_str(&self.scenario, false).map_err(|_| TraceError::Scenario(self.scenario.clone()))
    }

    /// Replays it, and heals what it left.
    pub fn replay(&self) -> Result<World, TraceError> {
        Ok(replay(self.scenario()?, self.seed, &self.actions).0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    /// What failed once does not fail any more.
    #[test]
    fn pinned_traces_of_elections_are_clean() {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("traces/elections");
        let mut count = 0;
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let world = Trace::read(&path).unwrap().replay().unwrap();
            assert_eq!(world.judge.violation(), None, "{}", path.display());
            count += 1;
        }
        assert!(count > 0, "no trace in {}", dir.display());
    }
}
