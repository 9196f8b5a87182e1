//! The smallest spaces of the exhaustive search: as many states as are written down, so that you see here that a table is out of date.

use callsign_sim::{
    exhaustive::{Cluster, SPACES},
    search::breadth_first,
};

/// Spaces with more states are left to the command.
const MOST_STATES: usize = 13_000;

#[test]
fn the_smallest_spaces_have_the_states_that_are_written_down() {
    let smallest: Vec<_> = SPACES.iter().filter(|space| space.counts.0 < MOST_STATES).collect();
    assert!(!smallest.is_empty(), "no space is small enough for this test");
    for limits in smallest {
        let outcome = breadth_first(&Cluster::new(*limits), MOST_STATES + 1);
        assert_eq!((outcome.unique, outcome.generated), limits.counts, "{}", limits.name);
        assert!(outcome.complete, "{} did not end", limits.name);
        assert!(outcome.violation.is_none(), "{}", limits.name);
    }
}
