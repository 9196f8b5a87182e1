//! A fresh part of a node, fed what one core of a recorded one was told: that core has to ask for the same.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    ops::Deref,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::Duration,
};

use callsign::{
    Name,
    cores::{
        LeavingTimes, Member, MemberConfig, NodeCore, NodeEffect, NodeInput, Now, QUEUES, RegistryCore,
        RegistryEffect, Row, Told, Tuning,
    },
};
use callsign_elector::{
    elector::{self, ElectorConfig},
    recording::{Core, Ending, Frame, Recording},
    session::{self, SessionConfig},
};
use callsign_store::{Time, ids::Incarnation, keys::ClusterKeys};
use serde::de::DeserializeOwned;

use super::{
    CheckError,
    counts::{Count, RecordingCounts},
};

type ReplayedRows = BTreeMap<Name, Row>;

/// The part of a node with the session that is replayed.
#[derive(Debug)]
pub struct ReplayedSession(NodeCore);

/// The part of a node with the elector that is replayed. Its member is told nothing.
#[derive(Debug)]
pub struct ReplayedElector(RegistryCore<ReplayedRows>);

/// The part of a node with the member that is replayed. Its elector is told nothing. Its table does in order what that of a member
/// which records does in order.
#[derive(Debug)]
pub struct ReplayedMember(RegistryCore<ReplayedRows>);

impl Deref for ReplayedMember {
    type Target = Member<ReplayedRows>;

    fn deref(&self) -> &Member<ReplayedRows> {
        self.0.member()
    }
}

/// A core that can be replayed.
pub trait Replayed: Sized {
    /// Which it is.
    const CORE: Core;
    /// What it is made with.
    type Config: DeserializeOwned + Clone;
    /// When something happens to it.
    type Now: DeserializeOwned + Copy;
    /// What can happen to it.
    type Input: DeserializeOwned + Clone + Debug;
    /// What it can ask for.
    type Effect: DeserializeOwned + PartialEq + Debug;

    /// A fresh one, or why there is none with this configuration.
    fn fresh(config: Self::Config) -> Result<Self, String>;

    /// Takes one input.
    fn take(&mut self, now: Self::Now, input: Self::Input, effects: &mut Vec<Self::Effect>);
}

/// One step of a core.
pub type StepOf<R> = Frame<<R as Replayed>::Now, <R as Replayed>::Input, <R as Replayed>::Effect>;

impl Replayed for ReplayedSession {
    const CORE: Core = Core::Session;
    type Config = SessionConfig;
    type Now = Time;
    type Input = session::Input;
    type Effect = session::Effect;

    fn fresh(config: SessionConfig) -> Result<Self, String> {
        // It leaves nothing: whoever leaves tells the session so, and that was recorded.
        let [drain, decide, say, close] = [Duration::ZERO; 4];
        let node = NodeCore::new(config, LeavingTimes { drain, decide, say, close });
        node.map(Self).map_err(|error| error.to_string())
    }

    fn take(&mut self, now: Time, input: session::Input, effects: &mut Vec<session::Effect>) {
        let mut asked = Vec::new();
        self.0.step(now, NodeInput::Session(input), &mut asked);
        effects.extend(asked.into_iter().filter_map(|effect| match effect {
            NodeEffect::Session(effect) => Some(effect),
            _ => None,
        }));
    }
}

impl Replayed for ReplayedElector {
    const CORE: Core = Core::Elector;
    type Config = ElectorConfig;
    type Now = Time;
    type Input = elector::Input;
    type Effect = elector::Effect;

    fn fresh(config: ElectorConfig) -> Result<Self, String> {
        let member = MemberConfig {
            me: config.node.clone(),
            incarnation: Incarnation(0),
            keys: ClusterKeys::new(&config.cluster).registry(&config.registry),
            seed: 0,
            tuning: Tuning::default(),
        };
        Ok(Self(RegistryCore::new(config, member, ReplayedRows::new())))
    }

    fn take(&mut self, time: Time, input: elector::Input, effects: &mut Vec<elector::Effect>) {
        let mut asked = Vec::new();
        self.0.step(Now { time, trusted: None }, Told::Elector(input), &mut asked);
        while QUEUES.iter().any(|queue| self.0.take(*queue).is_some()) {}
        effects.extend(asked.into_iter().filter_map(|effect| match effect {
            RegistryEffect::Elector(effect) => Some(effect),
            _ => None,
        }));
    }
}

impl Replayed for ReplayedMember {
    const CORE: Core = Core::Member;
    type Config = MemberConfig;
    type Now = Now;
    type Input = callsign::cores::Input;
    type Effect = callsign::cores::Effect;

    fn fresh(config: MemberConfig) -> Result<Self, String> {
        Ok(Self(RegistryCore::of_member(config, ReplayedRows::new())))
    }

    fn take(&mut self, now: Now, input: Self::Input, effects: &mut Vec<Self::Effect>) {
        self.0.step_member(now, input, effects);
    }
}

/// Where a core that is replayed differs from the one that ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The core refuses the configuration with which it ran.
    #[error("{}: the core refuses its configuration: {reason}", path.display())]
    Config {
        /// The recording.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It asks for something else.
    #[error(
        "{}, frame {frame}: after {input}\neffect {effect} was recorded as {recorded}\nand is now {replayed}",
        path.display()
    )]
    Differs {
        /// The recording.
        path: PathBuf,
        /// Which frame; 1 is the first step.
        frame: u64,
        /// What the core was told.
        input: String,
        /// The first effect that differs, counted from 0.
        effect: usize,
        /// What was recorded, if so many were.
        recorded: String,
        /// What it asks for now, if for so many.
        replayed: String,
    },
    /// It panics.
    #[error("{}, frame {frame}: the core panics after {input}", path.display())]
    Panics {
        /// The recording.
        path: PathBuf,
        /// Which frame.
        frame: u64,
        /// What the core was told.
        input: String,
    },
}

/// Replays a recording, and shows each step with the core as it is after it. Returns the core as it is at the end.
pub fn replay<R: Replayed>(
    path: &Path,
    counts: &mut RecordingCounts,
    mut seen: impl FnMut(&R, u64, &StepOf<R>),
) -> Result<(R, Ending), CheckError> {
    let mut recording: Recording<R::Config, R::Now, R::Input, R::Effect> = Recording::open(path, R::CORE)?;
    let fresh = R::fresh(recording.config.clone());
    let mut core = fresh.map_err(|reason| Box::new(ReplayError::Config { path: path.to_owned(), reason }))?;
    let mut frame = 0;
    while let Some(step) = recording.next_frame()? {
        frame += 1;
        let mut effects = Vec::new();
        let took = catch_unwind(AssertUnwindSafe(|| {
            core.take(step.now, step.input.clone(), &mut effects);
        }));
        if took.is_err() {
            let (path, input) = (path.to_owned(), shown(&step.input));
            return Err(Box::new(ReplayError::Panics { path, frame, input }).into());
        }
        if effects != step.effects {
            return Err(Box::new(difference::<R>(path, frame, &step, &effects)).into());
        }
        counts.add(Count::Steps, 1);
        counts.add(Count::Effects, effects.len() as u64);
        seen(&core, frame, &step);
    }
    // It is known once there are no more steps.
    Ok((core, recording.ending().unwrap_or(Ending::Cut)))
}

fn difference<R: Replayed>(path: &Path, frame: u64, step: &StepOf<R>, effects: &[R::Effect]) -> ReplayError {
    let equal = step.effects.iter().zip(effects).take_while(|(recorded, replayed)| recorded == replayed);
    let effect = equal.count();
    let nth = |effects: &[R::Effect]| effects.get(effect).map_or_else(|| "nothing".into(), shown);
    ReplayError::Differs {
        path: path.to_owned(),
        frame,
        input: shown(&step.input),
        effect,
        recorded: nth(&step.effects),
        replayed: nth(effects),
    }
}

/// A value for people: what has thousands of names in it is cut.
fn shown(value: &impl Debug) -> String {
    const MOST_CHARACTERS: usize = 2000;
    let text = format!("{value:?}");
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
