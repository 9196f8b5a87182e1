//! Asking the store whether an incarnation is proven dead.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use callsign_store::{
    Proof,
    ids::{Incarnation, NodeName},
    time::Time,
};

use super::Effect;

/// The pauses between the questions about one suspect: the kernel drops what proves a death some time after it
/// closed the link, and a large process takes a while to end. Afterwards it is asked with each observation.
const PAUSES: [Duration; 8] = [
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
];

type Suspect = (NodeName, Incarnation);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Suspicion {
    /// How many pauses were used.
    pauses: usize,
    state: SuspicionState,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SuspicionState {
    /// Ask at this time. Then `Asked`.
    Due(Time),
    /// No answer until this time is as good as no proof. Then `Due`, `Idle`, or gone because it is dead.
    Asked(Time),
    /// Ask with the next observation. Then `Asked`, or gone because it moved.
    Idle,
}

/// Who is asked about, and who is proven dead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Suspicions {
    suspects: BTreeMap<Suspect, Suspicion>,
    dead: BTreeSet<Suspect>,
}

impl Suspicions {
    /// Asks now, and again with growing pauses.
    pub(super) fn suspect(&mut self, now: Time, node: &NodeName, incarnation: Incarnation) {
        let suspect = (node.clone(), incarnation);
        if !self.dead.contains(&suspect) {
            self.suspects.insert(suspect, Suspicion { pauses: 0, state: SuspicionState::Due(now) });
        }
    }

    /// Asks once, unless a question is under way. For each observation of a beat that does not move.
    pub(super) fn ask(&mut self, now: Time, node: &NodeName, incarnation: Incarnation) {
        let suspect = (node.clone(), incarnation);
        if self.dead.contains(&suspect) {
            return;
        }
        let suspicion = self
            .suspects
            .entry(suspect)
            .or_insert(Suspicion { pauses: PAUSES.len(), state: SuspicionState::Idle });
        if suspicion.state == SuspicionState::Idle {
            suspicion.state = SuspicionState::Due(now);
        }
    }

    /// Whether the pauses are used up without proof, so that it is asked with each observation.
    pub(super) fn is_idle(&self, node: &NodeName, incarnation: Incarnation) -> bool {
        self.suspects.get(&(node.clone(), incarnation)).is_some_and(|s| s.state == SuspicionState::Idle)
    }

    /// It moved: whoever is asked about with each observation lives.
    pub(super) fn acquit(&mut self, node: &NodeName, incarnation: Incarnation) {
        if self.is_idle(node, incarnation) {
            self.suspects.remove(&(node.clone(), incarnation));
        }
    }

    /// Keeps those whose sessions may be open, and those that are still asked about.
    pub(super) fn retain(&mut self, may_be_open: impl Fn(&NodeName, Incarnation) -> bool) {
        self.suspects.retain(|(node, incarnation), s| {
            s.state != SuspicionState::Idle || may_be_open(node, *incarnation)
        });
        self.dead.retain(|(node, incarnation)| may_be_open(node, *incarnation));
    }

    /// Takes an answer of the store. True if the incarnation is now known to be dead.
    pub(super) fn answer(
        &mut self,
        now: Time,
        node: &NodeName,
        incarnation: Incarnation,
        proof: Proof,
    ) -> bool {
        let suspect = (node.clone(), incarnation);
        match proof {
            Proof::Dead => {
                self.suspects.remove(&suspect);
                self.dead.insert(suspect);
                true
            }
            Proof::None => {
                if let Some(suspicion) = self.suspects.get_mut(&suspect) {
                    suspicion.pause(now);
                }
                false
            }
        }
    }

    /// Whether the incarnation is proven dead.
    pub(super) fn is_dead(&self, node: &NodeName, incarnation: Incarnation) -> bool {
        self.dead.contains(&(node.clone(), incarnation))
    }

    /// Asks what is due. A question waits for its answer for at most `patience`.
    pub(super) fn act(&mut self, now: Time, patience: Duration, effects: &mut Vec<Effect>) {
        for ((node, incarnation), suspicion) in &mut self.suspects {
            if matches!(suspicion.state, SuspicionState::Asked(until) if until <= now) {
                suspicion.pause(now);
            }
            if matches!(suspicion.state, SuspicionState::Due(at) if at <= now) {
                suspicion.state = SuspicionState::Asked(now + patience);
                effects.push(Effect::Prove { node: node.clone(), incarnation: *incarnation });
            }
        }
    }

    /// When there is something to do next.
    pub(super) fn wake_at(&self) -> Option<Time> {
        self.suspects
            .values()
            .filter_map(|s| match s.state {
                SuspicionState::Due(at) | SuspicionState::Asked(at) => Some(at),
                SuspicionState::Idle => None,
            })
            .min()
    }
}

impl Suspicion {
    fn pause(&mut self, now: Time) {
        if !matches!(self.state, SuspicionState::Asked(_)) {
            return;
        }
        self.state =
            PAUSES.get(self.pauses).map_or(SuspicionState::Idle, |&pause| SuspicionState::Due(now + pause));
        self.pauses += 1;
    }
}
