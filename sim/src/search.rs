//! Exhaustive search, twice: by our own breadth-first search and by stateright, which must count alike.
//!
//! What both count, as stateright does:
//! - `generated`: the initial states, and every `next` that gave a state, seen before or not;
//! - `unique`: states with different fingerprints;
//! - `depth`: states on the longest of the shortest paths looked at, so 1 for an initial state.
//!
//! What stateright 0.31 does otherwise, and what is done about it:
//! - It looks at its bound and at what it has found only after every 1500 states. Our search looks at its bound as
//!   often. A violation ends both at once: after the first, the model shown to stateright has no actions left.
//! - A later violation in the same 1500 replaces the first. The model shows only the first, so the trace is the
//!   shortest.
//! - Equal initial states count once as unique and are expanded as often as they were given. They are given once.
//! - Its `timeout` is ignored with one thread, so the bound is a number of states.

use std::{
    fmt::{self, Debug, Display},
    hash::Hash,
};

mod breadth;
mod fingerprint;
mod other;
#[cfg(test)]
mod tests;
mod visited;

pub use breadth::breadth_first;
pub use fingerprint::{Fingerprint, fingerprint};
pub use other::stateright;

/// What can be searched.
pub trait Space {
    /// All that decides what can happen next.
    type State: Clone + Eq + Hash + Debug;
    /// One thing that can happen.
    type Action: Clone + Eq + Debug;

    /// Where it begins.
    fn initial(&self) -> Vec<Self::State>;
    /// Adds what can happen in a state, always in the same order.
    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>);
    /// What an action leads to; `None` if to nothing.
    fn next(&self, state: &Self::State, action: &Self::Action) -> Option<Self::State>;
    /// The rule that a state breaks.
    fn violation(&self, state: &Self::State) -> Option<String>;
    /// Whether a state is one that must be reachable, or the space is emptier than it looks.
    fn canary(&self, state: &Self::State) -> bool;
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct SearchOutcome<A> {
    /// States with different fingerprints.
    pub unique: usize,
    /// States made, repeats included.
    pub generated: usize,
    /// States on the longest path looked at; with a violation, on the path to it.
    pub depth: usize,
    /// Whether the canary was met.
    pub canary: bool,
    /// The way to the nearest state that breaks a rule.
    pub violation: Option<StatePath<A>>,
    /// Whether every state was looked at. Never so with a violation.
    pub complete: bool,
}

/// The way to a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatePath<A> {
    /// Which of the initial states.
    pub initial: usize,
    /// What happened then.
    pub actions: Vec<A>,
    /// The rule that is broken in the end.
    pub broken: String,
}

/// Stateright looks up from its work after so many states.
const BLOCK: usize = 1500;

/// The initial states without repeats, each with its place.
fn distinct<S: Space>(space: &S) -> Vec<(usize, S::State)> {
    let mut states: Vec<(usize, S::State)> = Vec::new();
    for (index, state) in space.initial().into_iter().enumerate() {
        if states.iter().all(|(_, known)| *known != state) {
            states.push((index, state));
        }
    }
    states
}

impl<A: Debug> Display for StatePath<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "from initial state {}:", self.initial)?;
        for (step, action) in self.actions.iter().enumerate() {
            writeln!(f, "{:>4}  {action:?}", step + 1)?;
        }
        write!(f, "      {}", self.broken)
    }
}
