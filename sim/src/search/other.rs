//! The same search by stateright.

use std::{
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::{SearchOutcome, Space, StatePath, distinct};

const SAFE: &str = "no violation";
const CANARY: &str = "canary";

/// As [`super::breadth_first`]. It also keeps the way to every state that still has to be looked at.
pub fn stateright<S>(space: &Arc<S>, bound: usize) -> SearchOutcome<S::Action>
where
    S: Space + Send + Sync + 'static,
    S::State: Send + Sync + 'static,
    S::Action: Send + Sync + 'static,
{
    let seen = Arc::new(Progress::default());
    let checker = ShownSpace { space: Arc::clone(space), seen: Arc::clone(&seen) }
        .checker()
        .threads(1)
        .finish_when(HasDiscoveries::AnyFailures)
        .target_state_count(bound.max(1)) // 0 would be no bound
        .spawn_bfs()
        .join();
    // From here on it asks only for the way to what it found.
    let violated = seen.violated.swap(false, Relaxed);
    let violation = checker.discovery(SAFE).map(|path| {
        let broken = space.violation(path.last_state()).unwrap_or_default();
        let states = path.into_vec();
        let initial = space.initial().iter().position(|state| *state == states[0].0).unwrap_or(0);
        let actions = states.into_iter().filter_map(|(_, action)| action).collect();
        StatePath { initial, actions, broken }
    });
    let depth = violation.as_ref().map_or_else(|| checker.max_depth(), |trace| trace.actions.len() + 1);
    let unique = checker.unique_state_count();
    SearchOutcome {
        unique,
        generated: checker.state_count(),
        depth,
        canary: seen.canary.load(Relaxed),
        violation,
        complete: !violated && seen.looked_at.load(Relaxed) == unique,
    }
}

/// What its thread has seen.
#[derive(Debug, Default)]
struct Progress {
    looked_at: AtomicUsize,
    canary: AtomicBool,
    violated: AtomicBool,
}

/// A space as stateright sees it: after the first violation nothing happens any more.
struct ShownSpace<S> {
    space: Arc<S>,
    seen: Arc<Progress>,
}

impl<S> Model for ShownSpace<S>
where
    S: Space + Send + Sync + 'static,
    S::State: Hash + Send + Sync + 'static,
{
    type State = S::State;
    type Action = S::Action;

    fn init_states(&self) -> Vec<S::State> {
        // It begins with the last of these.
        distinct(&*self.space).into_iter().rev().map(|(_, state)| state).collect()
    }

    fn actions(&self, state: &S::State, actions: &mut Vec<S::Action>) {
        if !self.seen.violated.load(Relaxed) {
            self.space.actions(state, actions);
        }
    }

    fn next_state(&self, state: &S::State, action: S::Action) -> Option<S::State> {
        self.space.next(state, &action)
    }

    /// It asks for each of these once for every state that it looks at, in this order.
    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // True once only: every further time it would copy the way to the state.
            Property::sometimes(CANARY, |shown: &Self, state| {
                let Progress { canary, violated, .. } = &*shown.seen;
                !canary.load(Relaxed)
                    && !violated.load(Relaxed)
                    && shown.space.canary(state)
                    && !canary.swap(true, Relaxed)
            }),
            Property::always(SAFE, |shown: &Self, state| {
                if shown.seen.violated.load(Relaxed) {
                    return true;
                }
                shown.seen.looked_at.fetch_add(1, Relaxed);
                let broken = shown.space.violation(state).is_some();
                shown.seen.violated.store(broken, Relaxed);
                !broken
            }),
        ]
    }
}
