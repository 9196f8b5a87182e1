//! How often each fault was met at the edge of a node, and each check of the run's own was exercised.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use callsign_store::lock::lock;

/// All faults, as they are called where they are met. In 2 000 seeds each has to be met 100 times.
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
    "a registry is joined beside while lapsed",
    "nobody reaches the store",
    "store: a commit in an outage",
    "store: a commit is given up on its way",
    "store: a commit is refused",
    "store: a conflict without a cause",
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
    "two lives of one node",
];

/// All checks: none of them may go without having been exercised.
pub const CHECKS: &[&str] = &[
    "acts after a check that passed",
    "calls and acts put in order",
    "checks of the singleton that passed",
    "epochs with one leader",
    "holders followed by another",
    "holders of a lapsed node that have to be told or stopped",
    "local reads, not behind the last one",
    "names kept to the end",
    "nodes that serve after all was healed",
    "own registrations seen by a local read",
    "refusals of which nothing was seen",
    "registries joined beside that serve in the end",
    "replicas that are alike in the end",
    "tokens of one actor",
];

type Count = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// Counts what was met. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    met: Count,
    checked: Count,
}

impl Counts {
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
