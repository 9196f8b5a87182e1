//! Our own search.

use std::collections::VecDeque;

use super::{
    BLOCK, Fingerprint, SearchOutcome, Space, StatePath, distinct, fingerprint,
    visited::{NOBODY, Number, Visited},
};

/// Looks at states in the order of their distance, until all were seen, one breaks a rule, or at least `bound` were
/// generated (noticed after every 1500 states).
///
/// It keeps the states that still have to be looked at, and less than 40 bytes for each that was seen.
pub fn breadth_first<S: Space>(space: &S, bound: usize) -> SearchOutcome<S::Action> {
    let mut visited = Visited::new();
    let mut frontier = VecDeque::new();
    for (_, state) in distinct(space) {
        if let Some(number) = visited.insert(fingerprint(&state), NOBODY) {
            frontier.push_back((state, number, 1_usize));
        }
    }
    let mut outcome = SearchOutcome {
        unique: visited.len(),
        generated: visited.len(),
        depth: 0,
        canary: false,
        violation: None,
        complete: false,
    };
    let mut actions = Vec::new();
    let mut looked_at = 0_usize;
    while let Some((state, number, depth)) = frontier.pop_front() {
        looked_at += 1;
        outcome.depth = depth;
        outcome.canary = outcome.canary || space.canary(&state);
        if let Some(broken) = space.violation(&state) {
            outcome.unique = visited.len();
            outcome.violation = Some(way_to(space, &visited, number, broken));
            return outcome;
        }
        actions.clear();
        space.actions(&state, &mut actions);
        for action in &actions {
            let Some(next) = space.next(&state, action) else { continue };
            if visited.is_full() {
                outcome.unique = visited.len();
                return outcome;
            }
            outcome.generated += 1;
            if let Some(number) = visited.insert(fingerprint(&next), number) {
                frontier.push_back((next, number, depth + 1));
            }
        }
        if looked_at.is_multiple_of(BLOCK) && outcome.generated >= bound {
            break;
        }
    }
    outcome.unique = visited.len();
    outcome.complete = frontier.is_empty();
    outcome
}

/// Goes the way once more, to learn the actions.
fn way_to<S: Space>(space: &S, visited: &Visited, number: Number, broken: String) -> StatePath<S::Action> {
    let path: Vec<Fingerprint> =
        visited.path_to(number).into_iter().map(|at| visited.fingerprint(at)).collect();
    let mut trace = StatePath { initial: 0, actions: Vec::new(), broken };
    let begin = distinct(space).into_iter().find(|(_, state)| fingerprint(state) == path[0]);
    let Some((initial, mut state)) = begin else { return trace };
    trace.initial = initial;
    let mut actions = Vec::new();
    for step in &path[1..] {
        actions.clear();
        space.actions(&state, &mut actions);
        let found = actions.drain(..).find_map(|action| {
            let next = space.next(&state, &action)?;
            (fingerprint(&next) == *step).then_some((action, next))
        });
        // Always there, unless the space answers differently when asked again.
        let Some((action, next)) = found else {
            trace.broken.push_str(" (the space did not repeat itself: the way is cut short)");
            break;
        };
        trace.actions.push(action);
        state = next;
    }
    trace
}
