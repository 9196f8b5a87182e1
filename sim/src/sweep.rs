//! Many seeds, over several threads.
#![allow(clippy::disallowed_methods)] // threads and the wall clock: nothing here is simulated

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
};

use crate::{
    oracle::Counts,
    run::{Ran, Templates, run},
    scenario::Scenario,
    world::Violation,
};

/// How many failing runs are kept.
const MOST_KEPT: usize = 100;

/// How many seeds a thread takes at a time.
const PORTION: u64 = 16;

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
    let run = |seed: u64, (templates, mine): &mut (Templates, Swept)| {
        one(plan.scenario, plan.first + seed, templates, mine);
        plan.until_failed && !mine.failed.is_empty()
    };
    let mut all = Swept::default();
    for (_, mine) in spread(plan.seeds, plan.jobs, &run, progress) {
        all.merge(mine);
    }
    all
}

/// Runs the numbers below `seeds` on threads, each with a result of its own, until one says that it is enough.
pub(crate) fn spread<T: Default + Send>(
    seeds: u64,
    jobs: usize,
    run: &(dyn Fn(u64, &mut T) -> bool + Sync),
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<T> {
    let next = AtomicU64::new(0);
    let is_over = AtomicBool::new(false);
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                let mut mine = T::default();
                while !is_over.load(Relaxed) {
                    let begin = next.fetch_add(PORTION, Relaxed);
                    if begin >= seeds {
                        break;
                    }
                    for seed in begin..seeds.min(begin + PORTION) {
                        if run(seed, &mut mine) {
                            is_over.store(true, Relaxed);
                            break;
                        }
                    }
                    progress(seeds.min(begin + PORTION));
                }
                all.lock().unwrap_or_else(PoisonError::into_inner).push(mine);
            });
        }
    });
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn one(scenario: Scenario, seed: u64, templates: &mut Templates, swept: &mut Swept) {
    let ran = run_caught(scenario, seed, templates);
    if seed.is_multiple_of(1000) && ran.violation.is_none() {
        let again = run_caught(scenario, seed, &mut Templates::default());
        assert!(again.digest() == ran.digest(), "seed {seed} went differently the second time");
        swept.repeated += 1;
    }
    swept.add(scenario, ran);
}

/// Runs a seed. A core that panics is a violation, too.
pub fn run_caught(scenario: Scenario, seed: u64, templates: &mut Templates) -> Ran {
    let ran = catch_unwind(AssertUnwindSafe(|| run(scenario, seed, templates)));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        *templates = Templates::default();
        Ran {
            seed,
            trace: Vec::new(),
            faulty: 0,
            counts: Counts::default(),
            violation: Some(Violation { check: "nothing panics", what: text.unwrap_or_default() }),
        }
    })
}
