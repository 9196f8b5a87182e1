//! Many seeds, over several threads.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{
    checks::{Check, Counts},
    run::{Ran, run},
    setup::Scenario,
};
use crate::{sweep::spread, world::Violation};

/// How many failing runs are kept.
const MOST_KEPT: usize = 100;

/// What came of many seeds.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// How many seeds were run.
    pub seeds: u64,
    /// How many actions were done.
    pub steps: u64,
    /// How often each kind of action was done.
    pub kinds: BTreeMap<&'static str, u64>,
    /// How often each check was exercised.
    pub counts: Counts,
    /// The runs that failed; of more than a hundred, the first.
    pub failed: Vec<(Scenario, Ran)>,
    /// How many seeds were run twice, and did the same.
    pub repeated: u64,
}

impl Swept {
    /// Adds another's.
    pub fn merge(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.steps += other.steps;
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        self.counts.merge(&other.counts);
        self.failed.extend(other.failed);
        self.failed.sort_by_key(|(_, ran)| ran.seed);
        self.failed.truncate(MOST_KEPT);
        self.repeated += other.repeated;
    }

    fn add(&mut self, scenario: Scenario, ran: Ran) {
        self.seeds += 1;
        self.steps += ran.trace.len() as u64;
        for action in &ran.trace {
            *self.kinds.entry(action.kind()).or_default() += 1;
        }
        self.counts.merge(&ran.counts);
        if ran.violation.is_some() && self.failed.len() < MOST_KEPT {
            self.failed.push((scenario, ran));
        }
    }
}

/// How a sweep goes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Which worlds.
    pub scenario: Scenario,
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// On how many threads.
    pub jobs: usize,
    /// Whether to stop at the first failure.
    pub until_failed: bool,
}

/// Runs them. `progress` is told, from time to time, how many were run.
pub fn sweep(plan: Plan, progress: &(dyn Fn(u64) + Sync)) -> Swept {
    let one = |seed: u64, swept: &mut Swept| {
        let (scenario, seed) = (plan.scenario, plan.first + seed);
        let ran = run_caught(scenario, seed);
        if seed.is_multiple_of(1000) && ran.violation.is_none() {
            let again = run_caught(scenario, seed);
            assert!(again.digest() == ran.digest(), "seed {seed} went differently the second time");
            swept.repeated += 1;
        }
        swept.add(scenario, ran);
        plan.until_failed && !swept.failed.is_empty()
    };
    let mut all = Swept::default();
    for mine in spread(plan.seeds, plan.jobs, &one, progress) {
        all.merge(mine);
    }
    all
}

/// Runs a seed. A core that panics is a violation, too.
pub fn run_caught(scenario: Scenario, seed: u64) -> Ran {
    catch_unwind(AssertUnwindSafe(|| run(scenario, seed))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        let violation = Violation { check: Check::Panics.name(), what: text.unwrap_or_default() };
        Ran { seed, trace: Vec::new(), faulty: 0, counts: Counts::default(), violation: Some(violation) }
    })
}
