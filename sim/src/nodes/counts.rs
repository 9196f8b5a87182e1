//! How often each fault was met at the edge of a node, and each check of the run's own was exercised.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use callsign_store::lock::lock;

/// All faults, as they are called where they are met, and proofs of death. In 2 000 seeds each has to be met 100 times.
pub const FAULTS: &[&str] = &[
    "a hand-over function panics",
    "a link is cut",
    "a link is half open",
    "a link is slow",
    "a listener panics",
    "a node dies at an await",
    "a node is killed",
    "a node is paused",
    "a node is started again and again",
    "a node leaves",
    "a part of a paused node waits",
    "a part stands still while others go on",
    "a part starves",
    "a queue of a link is full",
    "a receiver of names fails",
    "a receiver of names is slow",
    "a receiver of names panics",
    "a registry is joined beside while lapsed",
    "a start fails",
    "a start is slow",
    "a start panics",
    "nobody reaches the store",
    "store: a commit in an outage",
    "store: a commit is given up on its way",
    "store: a commit is refused",
    "store: a conflict without a cause",
    "store: a death is proven",
    "store: a read in an outage",
    "store: a read is never answered",
    "store: a transaction lands late",
    "store: a watch ends without cause",
    "store: a watch is lost",
    "store: an answer is late",
    "store: an answer never comes",
    "store: an outage before the answer",
    "store: unknown, and done",
    "store: unknown, and done later",
    "store: unknown, and never done",
    "store: what was read is told late",
    "two lives of one node",
    "what gives a name fails",
    "what gives a name panics",
    "what was handed over is of no use",
];

/// All checks: none of them may go without having been exercised.
pub const CHECKS: &[&str] = &[
    "acts after a check that passed",
    "calls and acts put in order",
    "changes of what a watch had said before",
    "changes seen alike by all watches",
    "changes that a watch could not miss",
    "changes that watches gave in order",
    "checks of the singleton that passed",
    "epochs with one leader",
    "groups that are alike in the end",
    "holders followed by another",
    "holders of a lock behind others",
    "holders of a semaphore beside others",
    "holders of a lapsed node that have to be told or stopped",
    "local reads, not behind the last one",
    "memberships given up, and not seen any more",
    "memberships kept to the end",
    "memberships of the dead that are gone",
    "messages at the incarnation for which they were asked",
    "moves that a watch has seen, without a gap",
    "moves with the last word of the former holder",
    "names given up, and on no page",
    "names kept to the end",
    "names kept to the end, and found on a page",
    "names that moved while their node left",
    "names on pages, in their order",
    "names that went to the node that they were offered to",
    "names whose calls can be put in order",
    "nodes that serve after all was healed",
    "nodes that serve their second registry after all was healed",
    "own memberships seen",
    "own registrations found on a page",
    "own registrations seen by a local read",
    "positions at which replicas are alike",
    "refusals of which nothing was seen",
    "registries joined beside that serve in the end",
    "replicas that are alike in the end",
    "states of watches that are alike at a position",
    "tokens of one actor",
    "watches that began anew",
    "watches that were too slow",
    "what is said at a revision, alike for all",
];

type Count = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// Counts what was met. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct NodeCounts {
    met: Count,
    checked: Count,
}

impl NodeCounts {
    /// A fault was met once more.
    pub fn met(&self, what: &'static str) {
        *lock(&self.met).entry(what).or_default() += 1;
    }

    /// A check was exercised so many times more.
    pub fn checked(&self, what: &'static str, times: u64) {
        *lock(&self.checked).entry(what).or_default() += times;
    }

    /// How often each fault was met.
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.met).clone()
    }

    /// How often each check was exercised.
    pub fn checks(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.checked).clone()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// What is said in a text behind one of these words.
    fn said(text: &str, words: &[&str]) -> BTreeSet<String> {
        let behind = |word: &&str| text.split(&format!("{word}(\"")).skip(1).collect::<Vec<_>>();
        let literals =
            words.iter().flat_map(behind).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()));
        literals.collect()
    }

    fn sources(directory: &Path) -> String {
        let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let text = |path: std::path::PathBuf| {
            if path.is_dir() { sources(&path) } else { fs::read_to_string(path).unwrap() }
        };
        files.map(text).collect()
    }

    #[test]
    fn whatever_is_counted_is_listed_so_that_its_absence_fails_a_run() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let text = sources(&root.join("nodes")) + &sources(&root.join("histories"));
        let listed = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(said(&text, &[".met", " at", ".note"]), listed(FAULTS));
        assert_eq!(said(&text, &[".checked", ".count", "checked.entry", "checked.insert"]), listed(CHECKS));
    }
}
