//! Makes a failing trace short, by leaving things out.
//!
//! Delta debugging: first large pieces, then smaller ones, down to single actions, until no single one can be left
//! out. Replaying skips what is not enabled, so any part of a trace is a trace.

/// A shorter trace that still fails.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Shrunk<A> {
    /// What is left.
    pub actions: Vec<A>,
    /// How often the trace was replayed.
    pub tries: usize,
    /// Whether none of the actions can be left out. False if the tries were used up before that was known, or if the
    /// whole trace does not fail.
    pub minimal: bool,
}

/// Shortens a trace that fails, replaying at most `tries` times. The same trace gives the same result, if `fails`
/// does.
pub fn shrink<A: Clone>(trace: &[A], tries: usize, mut fails: impl FnMut(&[A]) -> bool) -> Shrunk<A> {
    let mut best = trace.to_vec();
    let mut used = 0;
    if used < tries {
        used += 1;
        if !fails(&best) {
            return Shrunk { actions: best, tries: used, minimal: false };
        }
    }
    let mut without = Vec::with_capacity(best.len());
    let mut piece = best.len().div_ceil(2);
    while piece > 0 {
        let mut shorter = false;
        // From the end: what comes after the failure goes at once.
        let mut end = best.len();
        while end > 0 {
            let begin = end.saturating_sub(piece);
            if used == tries {
                return Shrunk { actions: best, tries: used, minimal: false };
            }
            without.clear();
            without.extend_from_slice(&best[..begin]);
            without.extend_from_slice(&best[end..]);
            used += 1;
            if fails(&without) {
                std::mem::swap(&mut best, &mut without);
                shorter = true;
            }
            end = begin;
        }
        // Single actions are tried again as long as one goes: it may have held another.
        piece = if piece > 1 { piece / 2 } else { usize::from(shorter) };
    }
    Shrunk { actions: best, tries: used, minimal: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contains(actions: &[u32], wanted: &[u32]) -> bool {
        let mut wanted = wanted.iter().peekable();
        for action in actions {
            wanted.next_if_eq(&action);
        }
        wanted.peek().is_none()
    }

    #[test]
    fn what_matters_stays() {
        let trace: Vec<u32> = (0..200).collect();
        for wanted in [&[0][..], &[199], &[17, 18], &[3, 90, 150], &[0, 50, 100, 150, 199]] {
            let shrunk = shrink(&trace, 10_000, |actions| contains(actions, wanted));
            assert_eq!(shrunk.actions, wanted);
            assert!(shrunk.minimal && shrunk.tries < 500, "{} tries", shrunk.tries);
        }
    }

    #[test]
    fn a_failure_that_needs_nothing_leaves_nothing() {
        let shrunk = shrink(&[1, 2, 3], 100, |_| true);
        assert_eq!((shrunk.actions, shrunk.minimal), (vec![], true));
        let shrunk = shrink(&[] as &[u32], 100, |_| true);
        assert_eq!((shrunk.actions, shrunk.tries, shrunk.minimal), (vec![], 1, true));
    }

    #[test]
    fn what_does_not_fail_is_left_alone() {
        let shrunk = shrink(&[1, 2, 3], 100, |_| false);
        assert_eq!(shrunk, Shrunk { actions: vec![1, 2, 3], tries: 1, minimal: false });
    }

    /// Only the first may go, and its going lets the next.
    #[test]
    fn single_actions_are_tried_until_none_goes() {
        let trace: Vec<u32> = (0..10).collect();
        let shrunk = shrink(&trace, 10_000, |actions| {
            actions.contains(&9) && actions.windows(2).all(|pair| pair[0] + 1 == pair[1])
        });
        assert_eq!((shrunk.actions, shrunk.minimal), (vec![9], true));
        // Minimal means that no single action can go, not that no pair can.
        let even = shrink(&trace, 10_000, |actions| actions.len() % 2 == 0 && actions.contains(&4));
        assert!(even.minimal && even.actions.len() % 2 == 0 && even.actions.contains(&4));
    }

    #[test]
    fn tries_are_bounded_and_what_is_returned_fails() {
        let trace: Vec<u32> = (0..100).collect();
        for tries in 0..150 {
            let mut replays = 0;
            let fails = |actions: &[u32]| contains(actions, &[20, 70]);
            let shrunk = shrink(&trace, tries, |actions| {
                replays += 1;
                fails(actions)
            });
            assert!(replays <= tries && shrunk.tries == replays && fails(&shrunk.actions));
            assert!(!shrunk.minimal || shrunk.actions == [20, 70]);
        }
    }

    #[test]
    fn the_same_trace_gives_the_same_result() {
        let trace: Vec<u32> = (0..64).map(|n| n * 7 % 5).collect();
        let fails = |actions: &[u32]| actions.iter().sum::<u32>() % 11 >= 4;
        assert_eq!(shrink(&trace, 300, fails), shrink(&trace, 300, fails));
    }
}
