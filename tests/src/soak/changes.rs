//! Which node goes next, how, and under which name it comes back.

use callsign_sim::rng::Rng;

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The node that goes.
    pub(super) goes: String,
    /// Whether it is killed; otherwise it leaves in good order.
    pub(super) killed: bool,
    /// The name of the node that comes in its place.
    pub(super) comes: String,
}

/// All changes of a run, from its seed.
#[derive(Debug)]
pub(super) struct Changes {
    rng: Rng,
    /// The nodes that come and go, the one that has been there longest first.
    nodes: Vec<String>,
    /// How the next ones go: whether killed, and whether another name comes.
    kinds: Vec<(bool, bool)>,
    renamed: u32,
}

/// How four nodes go, in some order: killed or not, and whether one of another name comes.
const KINDS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (false, true)];

impl Changes {
    pub(super) fn new(seed: u64, nodes: Vec<String>) -> Self {
        Self { rng: Rng::new(seed), nodes, kinds: Vec::new(), renamed: 0 }
    }

    /// The next one; none if no node goes.
    pub(super) fn next(&mut self) -> Option<Change> {
        if self.nodes.is_empty() {
            return None;
        }
        if self.kinds.is_empty() {
            self.kinds = KINDS.to_vec();
        }
        let (killed, other_name) = self.kinds.swap_remove(self.rng.index(self.kinds.len()));
        let goes = self.nodes.remove(0);
        let comes = if other_name {
            self.renamed += 1;
            format!("new-{}", self.renamed)
        } else {
            goes.clone()
        };
        self.nodes.push(comes.clone());
        Some(Change { goes, killed, comes })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn of(seed: u64, count: usize) -> Vec<Change> {
        let mut changes = Changes::new(seed, vec!["c".to_owned(), "d".to_owned()]);
        (0..count).filter_map(|_| changes.next()).collect()
    }

    #[test]
    fn of_four_changes_one_is_a_kill_and_two_bring_another_name() {
        for seed in 0..20 {
            for four in of(seed, 40).chunks(4) {
                assert_eq!(four.iter().filter(|change| change.killed).count(), 1, "{four:?}");
                let renamed = four.iter().filter(|change| change.comes != change.goes);
                assert_eq!(renamed.clone().count(), 2, "{four:?}");
                assert!(renamed.clone().all(|change| !change.killed), "{four:?}");
            }
        }
    }

    #[test]
    fn all_take_turns_and_no_new_name_comes_twice() {
        let mut there = vec!["c".to_owned(), "d".to_owned()];
        let mut seen: BTreeSet<String> = there.iter().cloned().collect();
        for change in of(7, 100) {
            assert_eq!(there.remove(0), change.goes, "the one that has been there longest goes");
            assert!(change.comes == change.goes || seen.insert(change.comes.clone()), "{change:?}");
            there.push(change.comes);
        }
        assert_eq!(seen.len(), 52);
    }

    #[test]
    fn a_seed_gives_the_same_and_another_one_does_not() {
        assert_eq!(of(1, 40), of(1, 40));
        assert_ne!(of(1, 40), of(2, 40));
        assert_eq!(Changes::new(1, Vec::new()).next(), None);
    }
}
