//! `callsign-sim nodes`: whole nodes under seeds, a process each.
#![allow(clippy::disallowed_methods)] // threads, processes and the wall clock

use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use callsign_sim::{
    colour::Colours,
    histories::acting::PANIC,
    nodes::{
        counts::{CHECKS, FAULTS},
        nemesis::Kind as Fault,
        run::{SeedOutcome, run},
    },
    progress::Progress,
};
use callsign_store::{lock::lock, supervision::text};
use clap::{Args, ValueEnum};

/// Every seed of this number runs twice, in two processes, and both have to do the same.
const TWICE: u64 = 50;

/// What a seed has at least, unless it fails: so many seconds of virtual time, calls, and faults that are drawn.
const LEAST_OF_A_SEED: (f64, u64, u64) = (60.0, 150, 20);

/// Which store the nodes have.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum StoreKind {
    /// The one in memory, with all its faults.
    Memory,
}

/// Runs whole nodes, as they ship, under seeds.
#[derive(Args, Debug)]
pub(crate) struct Nodes {
    /// How many seeds.
    #[arg(long, default_value_t = 200)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// Which store the nodes have.
    #[arg(long, value_enum, default_value = "memory")]
    store: StoreKind,
    /// How many processes at a time.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Go on after the first failure.
    #[arg(long)]
    keep_going: bool,
    /// Run this seed alone.
    #[arg(long)]
    seed: Option<u64>,
    /// Print everything that happened in it.
    #[arg(long, requires = "seed")]
    print: bool,
    /// Never do this to the nodes: a run that asks for it fails then.
    #[arg(long, value_enum)]
    without: Option<Fault>,
    /// A defect to plant.
    #[cfg(feature = "planted")]
    #[arg(long)]
    plant: Option<String>,
    /// Say what it came to in JSON: for the process that started this one.
    #[arg(long, requires = "seed", hide = true)]
    json: bool,
}

/// What many seeds came to.
#[derive(Default)]
struct Sum {
    seeds: u64,
    twice: u64,
    calls: u64,
    faults: u64,
    least: Option<(f64, u64, u64)>,
    not_ordered: usize,
    met: BTreeMap<String, u64>,
    checked: BTreeMap<String, u64>,
    answers: BTreeMap<String, u64>,
    failed: Vec<(u64, Vec<String>)>,
}

impl Nodes {
    pub(crate) fn run(&self) -> Result<()> {
        let StoreKind::Memory = self.store;
        match self.seed {
            Some(seed) => self.one(seed),
            None => self.many(),
        }
    }

    #[cfg(feature = "planted")]
    fn plant(&self) -> Option<&str> {
        self.plant.as_deref()
    }

    #[cfg(not(feature = "planted"))]
    #[allow(clippy::unused_self)] // of the other build
    fn plant(&self) -> Option<&str> {
        None
    }

    fn one(&self, seed: u64) -> Result<()> {
        let say = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // What is to panic is no news.
            if text(panic.payload()) != PANIC {
                say(panic);
            }
        }));
        #[cfg(feature = "planted")]
        callsign_store::planted::plant(self.plant.as_deref());
        let mut outcome = run(seed, self.without, self.print);
        for line in std::mem::take(&mut outcome.trace) {
            say!("{line}");
        }
        if self.json {
            say!("{}", serde_json::to_string(&outcome)?);
            return Ok(());
        }
        outcome.breaches = wrong(&outcome, None);
        let SeedOutcome { hash, lines, seconds, calls, faults, .. } = outcome;
        say!("seed {seed}: {seconds:.0} s, {calls} calls, {faults} faults, {lines} lines, sum {hash:016x}");
        for (what, count) in outcome.met.iter().chain(&outcome.checked) {
            say!("  {count:>8}  {what}");
        }
        for breach in &outcome.breaches {
            say!("{breach}");
        }
        if !outcome.breaches.is_empty() {
            bail!("seed {seed} failed");
        }
        Ok(())
    }

    fn many(&self) -> Result<()> {
        let begin = Instant::now();
        let progress = Progress::new("whole nodes", "seeds", self.seeds);
        let (next, stops, sum) = (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(Sum::default()));
        let work = || -> Result<()> {
            while !stops.load(SeqCst) {
                let index = next.fetch_add(1, SeqCst);
                if index >= self.seeds {
                    break;
                }
                let seed = self.first.wrapping_add(index);
                let outcome = in_a_process(seed, self.without, self.plant())?;
                let repeats = index % TWICE == 0;
                let again =
                    if repeats { Some(in_a_process(seed, self.without, self.plant())?) } else { None };
                let breaches = wrong(&outcome, again.as_ref());
                let mut sum = lock(&sum);
                sum.add(&outcome, repeats);
                if !breaches.is_empty() {
                    progress.print(|| tell!("seed {seed} failed: {}", breaches[0]));
                    sum.failed.push((seed, breaches));
                    stops.fetch_or(!self.keep_going, SeqCst);
                }
                progress.at(sum.seeds);
            }
            Ok(())
        };
        thread::scope(|scope| -> Result<()> {
            let workers: Vec<_> = (0..self.jobs).map(|_| scope.spawn(work)).collect();
            for worker in workers {
                worker.join().expect("a panic here is our own")?;
            }
            Ok(())
        })?;
        drop(progress);
        let sum = sum.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        sum.report(begin.elapsed());
        sum.verdict()
    }
}

/// What is wrong with a seed that ran, and maybe ran again.
fn wrong(outcome: &SeedOutcome, again: Option<&SeedOutcome>) -> Vec<String> {
    let mut wrong = outcome.breaches.clone();
    if again.is_some_and(|again| (again.hash, again.lines) != (outcome.hash, outcome.lines)) {
        wrong.push("two runs of this seed did different things".to_owned());
    }
    let SeedOutcome { seconds, calls, faults, .. } = *outcome;
    let (least_seconds, least_calls, least_faults) = LEAST_OF_A_SEED;
    let has_little = seconds < least_seconds || calls < least_calls || faults < least_faults;
    // One that has failed may have ended early.
    if wrong.is_empty() && has_little {
        wrong.push(format!(
            "it had {seconds:.0} virtual seconds, {calls} calls and {faults} faults: at least {least_seconds:.0}, \
             {least_calls} and {least_faults} are asked for"
        ));
    }
    wrong
}

/// Of the first seed that fails with this defect: what it says, and which it is.
#[cfg(feature = "planted")]
pub(super) fn first_failure(
    plant: &str,
    first: u64,
    seeds: u64,
    jobs: usize,
) -> Result<Option<(String, u64)>> {
    let (next, found) = (AtomicU64::new(0), Mutex::new(None::<(String, u64)>));
    let work = || -> Result<()> {
        loop {
            let index = next.fetch_add(1, SeqCst);
            if index >= seeds || lock(&found).is_some() {
                return Ok(());
            }
            let outcome = in_a_process(first + index, None, Some(plant))?;
            if let Some(breach) = outcome.breaches.first() {
                let check = breach.split(':').next().unwrap_or_default().to_owned();
                let mut found = lock(&found);
                if found.as_ref().is_none_or(|(_, seed)| *seed > outcome.seed) {
                    *found = Some((format!("whole nodes, {check}"), outcome.seed));
                }
            }
        }
    };
    thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a panic here is our own"))
    })?;
    Ok(found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

fn in_a_process(seed: u64, without: Option<Fault>, plant: Option<&str>) -> Result<SeedOutcome> {
    let program = std::env::current_exe().context("where this program is")?;
    let seed_text = seed.to_string();
    let output = Command::new(program)
        .args(["nodes", "--seed", &seed_text, "--json"])
        .args(without.map(|fault| format!("--without={}", word(fault))))
        .args(plant.iter().flat_map(|plant| ["--plant", plant]))
        .stderr(Stdio::piped())
        .output()
        .context("a process for a seed")?;
    let last = output.stdout.rsplit(|byte| *byte == b'\n').find(|line| !line.is_empty());
    let outcome = last.and_then(|line| serde_json::from_slice(line).ok());
    let said = || String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok(outcome.unwrap_or_else(|| SeedOutcome {
        seed,
        breaches: vec![format!("its process ended without a word ({}): {}", output.status, said())],
        ..SeedOutcome::default()
    }))
}

fn word(fault: Fault) -> String {
    fault.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[allow(clippy::cast_precision_loss)] // for people
fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

fn add(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (what, count) in from {
        *to.entry(what.clone()).or_default() += count;
    }
}

impl Sum {
    fn add(&mut self, outcome: &SeedOutcome, twice: bool) {
        self.seeds += 1;
        self.twice += u64::from(twice);
        self.calls += outcome.calls;
        self.faults += outcome.faults;
        self.not_ordered += outcome.not_ordered;
        let (seconds, calls, faults) = self.least.unwrap_or((f64::MAX, u64::MAX, u64::MAX));
        self.least =
            Some((seconds.min(outcome.seconds), calls.min(outcome.calls), faults.min(outcome.faults)));
        add(&mut self.met, &outcome.met);
        add(&mut self.checked, &outcome.checked);
        add(&mut self.answers, &outcome.answers);
    }

    /// What was met, or checked, too seldom for this many seeds to mean anything.
    fn missing(&self) -> Vec<String> {
        // 100 times in 2 000 seeds. Of few seeds nothing can be asked.
        let least = self.seeds / 20;
        let faults = FAULTS.iter().filter(|fault| self.met.get(**fault).copied().unwrap_or(0) < least);
        // One of ten seeds has two registries.
        let least = u64::from(self.seeds >= 100);
        let checks = CHECKS.iter().filter(|check| self.checked.get(**check).copied().unwrap_or(0) < least);
        faults.chain(checks).map(|what| (*what).to_owned()).collect()
    }

    /// An error, if a seed has failed, or if something was met or checked too seldom.
    fn verdict(&self) -> Result<()> {
        let (failed, missing) = (self.failed.len(), self.missing());
        if failed > 0 {
            bail!("{failed} seeds failed; `callsign-sim nodes --seed N --print` shows one");
        }
        if !missing.is_empty() {
            bail!("met or checked too seldom, in {} seeds: {}", self.seeds, missing.join(", "));
        }
        Ok(())
    }

    fn report(&self, time: Duration) {
        let rate = per_second(self.seeds, time);
        say!(
            "{} seeds in {:.1} s, {rate:.1}/s, {} run twice alike",
            self.seeds,
            time.as_secs_f64(),
            self.twice
        );
        let (seconds, calls, faults) = self.least.unwrap_or_default();
        say!("each at least {seconds:.0} virtual seconds, {calls} calls, {faults} faults");
        let colours = Colours::of_stdout();
        say!("\n{}", colours.heading("met at the edges of nodes:"));
        for (what, count) in &self.met {
            say!("  {count:>10}  {what}");
        }
        say!("\n{}", colours.heading("answers:"));
        for (what, count) in &self.answers {
            say!("  {count:>10}  {what}");
        }
        say!("\n{}", colours.heading("checked:"));
        for (what, count) in &self.checked {
            say!("  {count:>10}  {what}");
        }
        say!("  {:>10}  names with too many calls at a time to be put in order", self.not_ordered);
        for (seed, breaches) in &self.failed {
            say!("\nseed {seed}:");
            for breach in breaches.iter().take(5) {
                say!("  {}", colours.bad(breach));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(seeds: u64) -> Sum {
        let all = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), seeds / 20)).collect();
        Sum { seeds, met: all(FAULTS), checked: all(CHECKS), ..Sum::default() }
    }

    #[test]
    fn a_fault_that_was_met_too_seldom_and_a_check_that_was_never_exercised_fail_a_run() {
        let mut met = sum(2_000);
        met.verdict().unwrap();
        met.met.insert("a link is slow".to_owned(), 99);
        met.checked.remove("epochs with one leader");
        let said = met.verdict().unwrap_err().to_string();
        assert_eq!(said, "met or checked too seldom, in 2000 seeds: a link is slow, epochs with one leader");
    }

    #[test]
    fn a_seed_with_too_little_time_too_few_calls_or_too_few_faults_fails() {
        let seed = |seconds, calls, faults| SeedOutcome { seconds, calls, faults, ..SeedOutcome::default() };
        assert_eq!(wrong(&seed(60.0, 150, 20), None), Vec::<String>::new());
        let said = wrong(&seed(60.0, 149, 20), None);
        let asked = "at least 60, 150 and 20 are asked for";
        assert_eq!(said, [format!("it had 60 virtual seconds, 149 calls and 20 faults: {asked}")]);
        for (seconds, calls, faults) in [(59.9, 150, 20), (60.0, 150, 19)] {
            assert_eq!(wrong(&seed(seconds, calls, faults), None).len(), 1);
        }
        let failed = SeedOutcome { breaches: vec!["P1: two hold it".to_owned()], ..seed(1.0, 1, 1) };
        assert_eq!(wrong(&failed, None), failed.breaches, "it may have ended early");
    }

    #[test]
    fn a_seed_that_does_different_things_when_it_runs_again_fails() {
        let first = SeedOutcome { seconds: 60.0, calls: 150, faults: 20, ..SeedOutcome::default() };
        assert_eq!(wrong(&first, Some(&first)), Vec::<String>::new());
        let again = SeedOutcome { hash: 1, ..first.clone() };
        assert_eq!(wrong(&first, Some(&again)), ["two runs of this seed did different things"]);
    }

    #[test]
    fn a_seed_that_failed_fails_a_run() {
        let mut sum = sum(2_000);
        sum.failed.push((7, vec!["P1: two hold it".to_owned()]));
        assert!(sum.verdict().unwrap_err().to_string().starts_with("1 seeds failed"));
    }
}
