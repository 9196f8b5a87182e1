use std::sync::Arc;

use super::*;

/// Two jugs, filled, emptied and poured into each other.
struct Jugs {
    sizes: [u32; 2],
    /// Nobody may have so much in the first.
    forbidden: Option<u32>,
    begin: Vec<[u32; 2]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pour {
    Fill(usize),
    Empty(usize),
    Over(usize),
    /// Offered, and never possible.
    Nowhere,
}

impl Space for Jugs {
    type State = [u32; 2];
    type Action = Pour;

    fn initial(&self) -> Vec<[u32; 2]> {
        self.begin.clone()
    }

    fn actions(&self, _: &[u32; 2], actions: &mut Vec<Pour>) {
        for jug in 0..2 {
            actions.extend([Pour::Fill(jug), Pour::Empty(jug), Pour::Over(jug), Pour::Nowhere]);
        }
    }

    fn next(&self, state: &[u32; 2], action: &Pour) -> Option<[u32; 2]> {
        let mut next = *state;
        match *action {
            Pour::Fill(jug) => next[jug] = self.sizes[jug],
            Pour::Empty(jug) => next[jug] = 0,
            Pour::Over(jug) => {
                let moved = state[jug].min(self.sizes[1 - jug] - state[1 - jug]);
                next[jug] -= moved;
                next[1 - jug] += moved;
            }
            Pour::Nowhere => return None,
        }
        Some(next)
    }

    fn violation(&self, state: &[u32; 2]) -> Option<String> {
        (Some(state[0]) == self.forbidden).then(|| format!("{} in the first", state[0]))
    }

    fn canary(&self, state: &[u32; 2]) -> bool {
        *state == self.sizes
    }
}

/// Counters that go up one at a time.
#[derive(Clone)]
struct Counters {
    count: usize,
    top: u16,
    forbidden: Vec<u16>,
    wanted: Vec<u16>,
}

impl Space for Counters {
    type State = Vec<u16>;
    type Action = usize;

    fn initial(&self) -> Vec<Vec<u16>> {
        vec![vec![0; self.count]]
    }

    fn actions(&self, state: &Vec<u16>, actions: &mut Vec<usize>) {
        actions.extend((0..self.count).filter(|counter| state[*counter] < self.top));
    }

    fn next(&self, state: &Vec<u16>, counter: &usize) -> Option<Vec<u16>> {
        let mut next = state.clone();
        next[*counter] += 1;
        Some(next)
    }

    fn violation(&self, state: &Vec<u16>) -> Option<String> {
        (*state == self.forbidden).then(|| "there".into())
    }

    fn canary(&self, state: &Vec<u16>) -> bool {
        *state == self.wanted
    }
}

/// What both say.
#[track_caller]
fn both<S>(space: S, bound: usize) -> SearchOutcome<S::Action>
where
    S: Space + Send + Sync + 'static,
    S::State: Send + Sync,
    S::Action: Send + Sync,
{
    let space = Arc::new(space);
    let own = breadth_first(&*space, bound);
    assert_eq!(own, stateright(&space, bound));
    own
}

fn jugs(sizes: [u32; 2]) -> Jugs {
    Jugs { sizes, forbidden: None, begin: vec![[0, 0]] }
}

fn counters(count: usize, top: u16) -> Counters {
    Counters { count, top, forbidden: vec![], wanted: vec![] }
}

#[test]
fn a_clean_space_is_counted_to_the_state() {
    let outcome = both(jugs([5, 3]), usize::MAX);
    assert_eq!((outcome.unique, outcome.generated, outcome.depth), (16, 1 + 16 * 6, 8));
    assert!(outcome.complete && outcome.canary && outcome.violation.is_none());

    let outcome = both(counters(4, 9), usize::MAX);
    assert_eq!((outcome.unique, outcome.generated, outcome.depth), (10_000, 1 + 4 * 9 * 1_000, 37));
    assert!(outcome.complete && !outcome.canary);
}

#[test]
fn the_shortest_way_to_a_violation_is_told() {
    let outcome = both(Jugs { forbidden: Some(4), ..jugs([5, 3]) }, usize::MAX);
    let trace = outcome.violation.unwrap();
    assert_eq!(
        trace.actions,
        [Pour::Fill(0), Pour::Over(0), Pour::Empty(1), Pour::Over(0), Pour::Fill(0), Pour::Over(0)]
    );
    assert_eq!((outcome.depth, outcome.complete), (7, false));
    assert_eq!(trace.broken, "4 in the first");
    assert!(trace.to_string().starts_with("from initial state 0:\n   1  Fill(0)\n"));
}

#[test]
fn a_violation_ends_the_search_wherever_it_is() {
    for counter in 0..8 {
        for other in 0..8 {
            let goal = vec![counter, other, 3];
            let space = Counters { forbidden: goal.clone(), wanted: goal.clone(), ..counters(3, 20) };
            let outcome = both(space, usize::MAX);
            let steps = usize::from(counter + other + 3);
            assert_eq!((outcome.violation.unwrap().actions.len(), outcome.depth), (steps, steps + 1));
            assert!(outcome.canary && !outcome.complete);
        }
    }
}

#[test]
fn a_canary_beyond_the_violation_is_not_met() {
    let space = Counters { forbidden: vec![1, 0], wanted: vec![0, 1], ..counters(2, 3) };
    assert!(!both(space, usize::MAX).canary);
    let space = Counters { forbidden: vec![0, 1], wanted: vec![1, 0], ..counters(2, 3) };
    assert!(both(space, usize::MAX).canary);
}

#[test]
fn the_very_first_state_may_be_wrong() {
    let outcome = both(Jugs { forbidden: Some(0), ..jugs([5, 3]) }, usize::MAX);
    assert_eq!((outcome.unique, outcome.generated, outcome.depth), (1, 1, 1));
    assert_eq!(outcome.violation.unwrap().actions, []);
}

#[test]
fn initial_states_count_once() {
    let begin = vec![[0, 0], [0, 0], [5, 0], [1, 1], [0, 0]];
    let outcome = both(Jugs { begin: begin.clone(), ..jugs([5, 3]) }, usize::MAX);
    assert_eq!((outcome.unique, outcome.generated), (17, 3 + 17 * 6));
    let outcome = both(Jugs { begin, forbidden: Some(1), ..jugs([5, 3]) }, usize::MAX);
    let trace = outcome.violation.unwrap();
    assert_eq!((trace.initial, trace.actions), (3, vec![]));
    let outcome = both(Jugs { begin: vec![], ..jugs([5, 3]) }, usize::MAX);
    assert_eq!((outcome.unique, outcome.depth, outcome.complete), (0, 0, true));
}

#[test]
fn a_bound_is_never_taken_for_the_end() {
    for bound in [0, 1, 100, 4_000, 10_000, 30_000] {
        let outcome = both(counters(4, 9), bound);
        assert!(!outcome.complete && outcome.unique < 10_000 && outcome.generated >= bound, "{outcome:?}");
    }
    for bound in [36_002, 100_000] {
        let outcome = both(counters(4, 9), bound);
        assert!(outcome.complete && outcome.unique == 10_000, "{outcome:?}");
    }
    // Smaller than the first look-up: all was seen before the bound was.
    assert!(both(jugs([5, 3]), 1).complete);
}

#[test]
fn a_violation_beyond_the_bound_is_not_told() {
    let space = Counters { forbidden: vec![9; 4], ..counters(4, 9) };
    assert!(both(space.clone(), 5_000).violation.is_none());
    assert_eq!(both(space, usize::MAX).violation.unwrap().actions.len(), 36);
}
