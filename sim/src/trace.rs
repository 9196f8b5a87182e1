//! A trace in a file: what failed once is kept, and replayed by a test from then on.
//!
//! The trace is kept, not only the seed: what a seed means changes with every change of the simulator.

use std::{fs, io, path::Path};

use serde::{Deserialize, Serialize};

use crate::{run::replay, scenario::Scenario, simulated::Simulated, world::World};

/// A trace of the registry's world.
pub type Trace = TraceOf<Scenario>;

/// What a file has.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct TraceOf<S: Simulated> {
    /// The scenario, by its name on the command line.
    pub scenario: String,
    /// The seed, which says in which world the trace begins.
    pub seed: u64,
    /// What it found when it was kept.
    pub found: String,
    /// Everything that happened, before the healing.
    pub actions: Vec<S::Action>,
}

/// Why a file is no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It could not be read or written.
    #[error("{0}")]
    File(#[from] io::Error),
    /// What it has is no trace.
    #[error("it is no trace: {0}")]
    Json(#[from] serde_json::Error),
    /// It names a scenario that there is not.
    #[error("there is no scenario {0:?}")]
    Scenario(String),
}

impl<S: Simulated> TraceOf<S> {
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
    pub fn scenario(&self) -> Result<S, TraceError> {
        S::from_str(&self.scenario, false).map_err(|_| TraceError::Scenario(self.scenario.clone()))
    }
}

impl Trace {
    /// Replays it, and heals what it left.
    pub fn replay(&self, with_notes: bool) -> Result<World, TraceError> {
        Ok(replay(self.scenario()?, self.seed, &self.actions, with_notes).0)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::run::{Templates, run};

    #[test]
    fn a_trace_survives_its_file_and_replays_to_the_same_end() {
        let ran = run(Scenario::Standard, 7, &mut Templates::default());
        let trace = Trace {
            scenario: Scenario::Standard.name(),
            seed: 7,
            found: String::new(),
            actions: ran.trace[..ran.faulty].to_vec(),
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.json");
        trace.write(&path).unwrap();
        let again = Trace::read(&path).unwrap();
        assert_eq!(again.actions, trace.actions);
        let (one, other) = (trace.replay(false).unwrap(), again.replay(false).unwrap());
        assert_eq!(one, other);
        assert!(one.oracle.violation().is_none());
    }

    /// What failed once does not fail any more.
    #[test]
    fn pinned_traces_are_clean() {
        let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("traces");
        let mut count = 0;
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                let world = Trace::read(&path).unwrap().replay(false).unwrap();
                assert_eq!(world.oracle.violation(), None, "{}", path.display());
                count += 1;
            }
        }
        assert!(count > 0, "no trace in {}", dir.display());
    }
}
