//! What the nodes of a cluster recorded: replayed, and held against each other.
//!
//! A recording (see [`callsign_elector::recording`]) holds what one core was told and what it asked for.
//! [`replay`](mod@replay) shows that the cores which are checked here are the ones that ran: a fresh one asks for the
//! same, step by step. [`merged`] checks what no node can see alone: one log, one leader, one holder.
//!
//! Takes as given: the directory holds the recordings of *all* nodes of a run over *one* store, and their processes
//! share one boot-time clock, as on one machine. What a killed process did last may be missing; what reached others is not.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
};

use callsign::cores::{Effect, Input, MemberConfig, Now};
use callsign_elector::recording::{Core, Ending, Recording, RecordingError, read_header};
use callsign_store::ids::{ClusterName, RegistryName};

pub mod counts;
pub mod gather;
pub mod merged;
pub mod place;
pub mod replay;

pub use self::{
    counts::{Count, RecordingCounts},
    merged::Breach,
    replay::ReplayError,
};
use self::{
    gather::{OfElector, OfMember, OfSession},
    merged::{
        InCluster, InRegistry,
        messages::{Messages, Ways},
    },
    place::{Place, Process},
};

/// What was found, if nothing is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many recordings there are.
    pub recordings: usize,
    /// Of how many nodes.
    pub nodes: usize,
    /// How many ended in good order, behind a whole step, and within one.
    pub endings: [usize; 3],
    /// How often each check was exercised.
    pub counts: RecordingCounts,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [finished, cut, torn] = self.endings;
        writeln!(
            f,
            "{} recordings of {} nodes: {finished} finished, {cut} cut, {torn} torn",
            self.recordings, self.nodes
        )?;
        self.counts.fmt(f)
    }
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The directory cannot be read.
    #[error("{dir}: {error}")]
    Io {
        /// The directory.
        dir: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// There is no recording in it.
    #[error("{dir} holds no recordings")]
    Nothing {
        /// The directory.
        dir: PathBuf,
    },
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// A core asks for something else than it did.
    #[error(transparent)]
    Replay(#[from] Box<ReplayError>),
    /// The recordings contradict a promise, or each other.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Breaches(Vec<Breach>),
    /// Nothing is wrong, but little was looked at.
    #[error("never exercised: {}\n{report}", .missing.iter().map(|count| count.name()).collect::<Vec<_>>().join(", "))]
    NotExercised {
        /// The checks that had nothing to check.
        missing: Vec<Count>,
        /// What was found.
        report: Report,
    },
}

/// Replays every recording in a directory, and checks them all together. With more than one node, each check that
/// can be expected to have had something to check must have had it.
pub fn check(dir: &Path) -> Result<Report, CheckError> {
    let mut report = Report::default();
    let mut nodes = BTreeSet::new();
    let mut clusters: BTreeMap<ClusterName, InCluster> = BTreeMap::new();
    let mut registries: BTreeMap<(ClusterName, RegistryName), InRegistry> = BTreeMap::new();
    for path in recordings(dir)? {
        let header = read_header(&path)?;
        let cluster = clusters.entry(header.cluster.clone()).or_default();
        let counts = &mut report.counts;
        let of = header.registry.clone().map(|registry| (header.cluster.clone(), registry));
        let ending = match (header.core, of) {
            (Core::Elector, Some(of)) => {
                let mut seen = OfElector::new(&path, &header, cluster, registries.entry(of).or_default());
                replay::replay(&path, counts, |core, frame, step| seen.step(core, frame, step))?.1
            }
            (Core::Member, Some(of)) => {
                let mut seen = OfMember::new(&path, &header, cluster, registries.entry(of).or_default());
                let (core, ending) =
                    replay::replay(&path, counts, |core, frame, step| seen.step(core, frame, step))?;
                seen.finish(&core);
                ending
            }
            (Core::Session, _) => {
                let mut seen = OfSession::new(&header, cluster);
                replay::replay(&path, counts, |core, frame, step| seen.step(core, frame, step))?.1
            }
            (_, None) => return Err(RecordingError::NoRecording { path }.into()),
        };
        report.recordings += 1;
        nodes.insert(header.node);
        report.endings[match ending {
            Ending::Finished => 0,
            Ending::Cut => 1,
            Ending::Torn => 2,
        }] += 1;
    }
    report.nodes = nodes.len();
    let mut breaches = Vec::new();
    for ((cluster, _), registry) in registries {
        // There is one of each cluster that was met.
        let Some(cluster) = clusters.get(&cluster) else { continue };
        registry.finish(cluster, &mut report.counts, &mut breaches);
    }
    if !breaches.is_empty() {
        return Err(CheckError::Breaches(breaches));
    }
    let missing = report.counts.never();
    if report.nodes > 1 && !missing.is_empty() {
        return Err(CheckError::NotExercised { missing, report });
    }
    Ok(report)
}

/// Checks of the recordings in a directory only that each message reached the process that it was asked for, and says how many did: also
/// where the clocks of nodes are not one, and no replay is wanted.
pub fn check_messages(dir: &Path) -> Result<u64, CheckError> {
    let mut registries: BTreeMap<_, Messages> = BTreeMap::new();
    for path in recordings(dir)? {
        let header = read_header(&path)?;
        if header.core != Core::Member {
            continue;
        }
        let messages = registries.entry((header.cluster.clone(), header.registry.clone())).or_default();
        let (mut ways, begin) = (Ways::new(Process::of(&header)), Place::beginning(&path));
        let mut recording: Recording<MemberConfig, Now, Input, Effect> = Recording::open(&path, header.core)?;
        let mut frame = 0;
        while let Some(step) = recording.next_frame()? {
            frame += 1;
            ways.step(&begin.at(frame), &step.input, &step.effects, messages);
        }
    }
    let (mut counts, mut breaches) = (RecordingCounts::default(), Vec::new());
    for messages in registries.into_values() {
        messages.finish(&mut counts, &mut breaches);
    }
    if breaches.is_empty() { Ok(counts.get(Count::Messages)) } else { Err(CheckError::Breaches(breaches)) }
}

/// The recordings, in the order of their names. A process that was killed before it wrote anything left none.
fn recordings(dir: &Path) -> Result<Vec<PathBuf>, CheckError> {
    let fail = |error| CheckError::Io { dir: dir.to_owned(), error };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let is_recording = entry.path().extension().is_some_and(|extension| extension == "rec");
        if is_recording && entry.metadata().map_err(fail)?.len() > 0 {
            paths.push(entry.path());
        }
    }
    if paths.is_empty() {
        return Err(CheckError::Nothing { dir: dir.to_owned() });
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests;
