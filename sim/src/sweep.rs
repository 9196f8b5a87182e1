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
    counted::Counts,
    simulated::{Ran, Simulated},
    world::Violation,
};

/// How many failing runs are kept.
const MOST_KEPT: usize = 100;

/// How many seeds a thread takes at a time.
const PORTION: u64 = 16;

/// What came of many seeds.
#[derive(Clone, Debug)]
pub struct Swept<S: Simulated> {
    /// How many seeds were run.
    pub seeds: u64,
    /// How many actions were done.
    pub steps: u64,
    /// How often each kind of action was done.
    pub kinds: BTreeMap<&'static str, u64>,
    /// How often each check was exercised.
    pub counts: Counts<S::Check>,
    /// The runs that failed; of more than a hundred, the first.
    pub failed: Vec<(S, Ran<S>)>,
    /// How many seeds were run twice, and did the same.
    pub repeated: u64,
}

impl<S: Simulated> Default for Swept<S> {
    fn default() -> Self {
        let (kinds, counts) = (BTreeMap::new(), Counts::default());
        Self { seeds: 0, steps: 0, kinds, counts, failed: Vec::new(), repeated: 0 }
    }
}

impl<S: Simulated> Swept<S> {
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

    fn add(&mut self, scenario: S, ran: Ran<S>) {
        self.seeds += 1;
        self.steps += ran.trace.len() as u64;
        for action in &ran.trace {
            *self.kinds.entry(S::kind(action)).or_default() += 1;
        }
        self.counts.merge(&ran.counts);
        if ran.violation.is_some() && self.failed.len() < MOST_KEPT {
            self.failed.push((scenario, ran));
        }
    }
}

/// How a sweep goes.
#[derive(Clone, Copy, Debug)]
pub struct Plan<S> {
    /// Which worlds.
    pub scenario: S,
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
pub fn sweep<S: Simulated>(plan: Plan<S>, progress: &(dyn Fn(u64) + Sync)) -> Swept<S> {
    let run = |seed: u64, (kept, mine): &mut (S::Kept, Swept<S>)| {
        one(plan.scenario, plan.first + seed, kept, mine);
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

fn one<S: Simulated>(scenario: S, seed: u64, kept: &mut S::Kept, swept: &mut Swept<S>) {
    let ran = run_caught(scenario, seed, kept);
    if seed.is_multiple_of(1000) && ran.violation.is_none() {
        let again = run_caught(scenario, seed, &mut S::Kept::default());
        assert!(again.digest() == ran.digest(), "seed {seed} went differently the second time");
        swept.repeated += 1;
    }
    swept.add(scenario, ran);
}

/// Runs a seed. A core that panics is a violation, too.
pub fn run_caught<S: Simulated>(scenario: S, seed: u64, kept: &mut S::Kept) -> Ran<S> {
    let ran = catch_unwind(AssertUnwindSafe(|| scenario.run(seed, kept)));
    ran.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        *kept = S::Kept::default();
        let violation = Violation { check: S::PANICS, what: text.unwrap_or_default() };
        Ran { seed, trace: Vec::new(), faulty: 0, counts: Counts::default(), violation: Some(violation) }
    })
}
