//! Whoever watches the registry on a node: some readers for each process, quick and slow ones.
//!
//! Nothing is drawn for them, and nothing happens because of them: what they ask for goes to the member with the next input that comes
//! to it anyway. So a trace does not depend on them.

use std::collections::BTreeMap;

use callsign::{
    Select,
    cores::{Effect, Given, Input, Now, RegistryEffect, Told, WatchId},
};
use callsign_store::ids::{NodeName, Position};

use super::{NameId, Parts, is_member, name_of_id};
use crate::oracle::Judged;

/// Room for all that may come between two inputs.
const PLENTY: usize = 10_000;

/// A slow reader takes one event at every twelfth input.
const SLOW_TAKES: usize = 1;
const SLOW_EVERY: u32 = 12;

/// One that goes and comes back does so after so many inputs.
const STAYS: u32 = 24;

/// Which names a reader wants to see.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    /// All.
    All,
    /// Those whose actors run on this node.
    Node(NodeName),
    /// Those that begin with `n1`.
    Ones,
}

impl Filter {
    fn select(&self) -> Select {
        match self {
            Self::All => Select::all(),
            Self::Node(node) => Select::all().node(node.as_str()),
            Self::Ones => Select::prefix("n1"),
        }
    }

    /// Whether a name is asked for that is held on this node.
    pub(crate) fn has(&self, name: NameId, node: &NodeName) -> bool {
        match self {
            // Nobody selects memberships.
            _ if is_member(name) => false,
            Self::All => true,
            Self::Node(only) => only == node,
            Self::Ones => name_of_id(name).starts_with("n1"),
        }
    }
}

/// How a reader behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Pace {
    Quick,
    Slow,
    ComesBack,
}

/// One reader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reader {
    id: WatchId,
    pace: Pace,
    /// What it was given since it last said that it has room.
    taken: usize,
    /// What it knows, and whether that is so.
    pub judged: Judged,
}

impl Reader {
    /// Whether it is given what changes at once.
    pub(crate) fn is_quick(&self) -> bool {
        self.pace != Pace::Slow
    }
}

/// All readers of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Readers {
    pub(crate) all: Vec<Reader>,
    inputs: u32,
    opened: u64,
}

impl Readers {
    fn open(&mut self, filter: Filter, pace: Pace, from: Option<Position>) -> (Reader, Input) {
        self.opened += 1;
        let id = WatchId(self.opened);
        let room = if pace == Pace::Slow { SLOW_TAKES } else { PLENTY };
        let input = Input::OpenWatch { id, select: filter.select(), from, room };
        (Reader { id, pace, taken: 0, judged: Judged::new(filter, from) }, input)
    }

    /// What the readers ask of the member before the next input.
    fn ask(&mut self, first: &NodeName) -> Vec<Input> {
        self.inputs = self.inputs.wrapping_add(1);
        if self.all.is_empty() {
            let kinds = [
                (Filter::All, Pace::Quick),
                (Filter::All, Pace::Slow),
                (Filter::Node(first.clone()), Pace::Quick),
                (Filter::Ones, Pace::Slow),
                (Filter::All, Pace::ComesBack),
            ];
            let opened = kinds.map(|(filter, pace)| self.open(filter, pace, None));
            let (readers, inputs): (Vec<_>, Vec<_>) = opened.into_iter().unzip();
            self.all = readers;
            return inputs;
        }
        let (inputs, mut asked) = (self.inputs, Vec::new());
        let is_time_to_go = inputs % STAYS == 0;
        for nth in 0..self.all.len() {
            let reader = &mut self.all[nth];
            if reader.pace == Pace::ComesBack && is_time_to_go && reader.judged.position().is_some() {
                asked.push(Input::CloseWatch { id: reader.id });
                let (filter, from) = (reader.judged.filter().clone(), reader.judged.position());
                let (reader, input) = self.open(filter, Pace::ComesBack, from);
                self.all[nth] = reader;
                asked.push(input);
                continue;
            }
            let events = match reader.pace {
                Pace::Slow if inputs % SLOW_EVERY == 0 => reader.taken.min(SLOW_TAKES),
                Pace::Slow => 0,
                Pace::Quick | Pace::ComesBack => reader.taken,
            };
            if events > 0 {
                reader.taken -= events;
                asked.push(Input::ReadWatch { id: reader.id, events });
            }
        }
        asked
    }

    /// All of them take everything.
    fn ask_for_all(&mut self) -> Vec<Input> {
        let take = |reader: &mut Reader| {
            reader.taken = 0;
            Input::ReadWatch { id: reader.id, events: PLENTY }
        };
        self.all.iter_mut().map(take).collect()
    }

    /// Who is given something.
    pub(crate) fn given<'a>(&mut self, effect: &'a RegistryEffect) -> Option<(&mut Reader, &'a [Given])> {
        let RegistryEffect::Member(Effect::Given { watch, events }) = effect else { return None };
        let reader = self.all.iter_mut().find(|reader| reader.id == *watch)?;
        reader.taken += events.len();
        Some((reader, events))
    }
}

impl Parts {
    /// What the readers ask goes to the member ahead of its next input.
    pub(super) fn ask_of_readers(&mut self, now: Now, first: &NodeName) {
        for input in self.readers.ask(first) {
            self.core.step(now, Told::Member(input), &mut Vec::new());
        }
    }

    /// All readers take all that there is. What else the member asks for is done by nobody.
    pub(crate) fn read_all(&mut self, now: Now, mut judge: impl FnMut(&mut Self, Vec<RegistryEffect>)) {
        let mut quiet = 0;
        // Each sweeps a slice, or gives what there is.
        for _ in 0..500 {
            for input in self.readers.ask_for_all() {
                self.core.step(now, Told::Member(input), &mut Vec::new());
            }
            let mut effects = Vec::new();
            self.core.step(now, Told::Member(Input::Idle), &mut effects);
            let is_given =
                |effect: &RegistryEffect| matches!(effect, RegistryEffect::Member(Effect::Given { .. }));
            quiet =
                if effects.iter().any(is_given) || self.core.member().is_sweeping() { 0 } else { quiet + 1 };
            judge(self, effects);
            if quiet > 2 {
                return;
            }
        }
    }

    /// What the replica has, with where each name was changed last, and where it is held.
    pub(crate) fn rows(&self) -> BTreeMap<NameId, (Position, NodeName)> {
        let rows = self.core.member().replica().rows();
        rows.map(|(name, row)| (super::number_of(name), (row.revision(), row.session.node.clone()))).collect()
    }
}
