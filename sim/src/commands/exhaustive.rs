//! `exhaustive`: small clusters, every interleaving.
#![allow(clippy::disallowed_methods)] // the wall clock, for speed

use std::{
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Instant,
};

use callsign_sim::{
    colour::{Colours, Painted},
    elections::SMALL,
    exhaustive::{Cluster, Limits, SPACES},
    search::{breadth_first, stateright},
};
use clap::{Args, ValueEnum};

/// No space may have more than this, made states included.
const MOST_STATES: usize = 12_000_000;

/// Which search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// Our own.
    Own,
    /// stateright.
    Stateright,
    /// One after the other; they must agree.
    Both,
}

/// Searches spaces to their ends.
#[derive(Args, Debug)]
pub(crate) struct Exhaustive {
    /// Only the space of this name.
    #[arg(long)]
    space: Option<String>,
    /// Only the small spaces.
    #[arg(long, conflicts_with = "space")]
    small: bool,
    /// Only the spaces of elections.
    #[arg(long, conflicts_with_all = ["space", "small"])]
    elections: bool,
    /// With which search. Default: both for a small space, and our own for a large one, whose states fill a machine.
    #[arg(long, value_enum)]
    engine: Option<Engine>,
    /// How many small spaces are searched at once. Default: as many as there are cores. A large one fills a machine, and is searched alone.
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
}

/// A search: of which space, by which of the two.
type Search = (&'static Limits, Engine);

impl Exhaustive {
    /// Searches them.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if self.elections {
            return elections();
        }
        let wanted = |limits: &&'static Limits| match &self.space {
            Some(name) => limits.name == name,
            None => limits.is_small || !self.small,
        };
        let spaces: Vec<&'static Limits> = SPACES.iter().filter(wanted).collect();
        anyhow::ensure!(!spaces.is_empty(), "there is no space {:?}", self.space);
        let (small, large): (Vec<Search>, Vec<Search>) = spaces
            .into_iter()
            .flat_map(|limits| {
                let engine = self.engine.unwrap_or(if limits.is_small { Engine::Both } else { Engine::Own });
                let both = [Engine::Own, Engine::Stateright];
                both.into_iter()
                    .filter(move |one| [*one, Engine::Both].contains(&engine))
                    .map(move |one| (limits, one))
            })
            .partition(|(limits, _)| limits.is_small);
        let jobs = self.jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
        let mut wrong = at_once(&small, jobs);
        wrong.extend(at_once(&large, 1));
        anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    }
}

/// Makes so many of these searches at once, and says what is wrong with them.
fn at_once(searches: &[Search], jobs: usize) -> Vec<String> {
    let (left, wrong) = (Mutex::new(searches.iter()), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        for _ in 0..jobs.min(searches.len()) {
            scope.spawn(|| {
                while let Some(search) = next() {
                    let found = one(search);
                    wrong.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
                }
            });
        }
    });
    wrong.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Small elections, by our own search.
fn elections() -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for small in SMALL {
        let begin = Instant::now();
        let outcome = breadth_first(small, MOST_STATES);
        say!(
            "{:22} {:>9} states, {:>9} made, depth {:>3}, {:>5.1} s, {}",
            small.name,
            outcome.unique,
            outcome.generated,
            outcome.depth,
            begin.elapsed().as_secs_f64(),
            complete(outcome.complete),
        );
        if let Some(trace) = &outcome.violation {
            anyhow::bail!("{}: {}\n{:#?}", small.name, trace.broken, trace.actions);
        }
        anyhow::ensure!(outcome.complete, "{}: the space did not end", small.name);
        anyhow::ensure!(outcome.canary, "{}: nobody ever took over: the space is empty", small.name);
        let found = (outcome.unique, outcome.generated);
        if found != small.counts {
            wrong.push(format!("{}: {found:?} instead of {:?}", small.name, small.counts));
        }
    }
    anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Makes one search, and says what is wrong with it.
fn one((limits, engine): &Search) -> Option<String> {
    let space = Arc::new(Cluster::new(**limits));
    let begin = Instant::now();
    let (engine, outcome) = match engine {
        Engine::Stateright => ("stateright", stateright(&space, MOST_STATES)),
        Engine::Own | Engine::Both => ("own", breadth_first(&*space, MOST_STATES)),
    };
    say!(
        "{:22} {:10} {:>9} states, {:>9} made, depth {:>3}, {:>5.1} s, {}",
        limits.name,
        engine,
        outcome.unique,
        outcome.generated,
        outcome.depth,
        begin.elapsed().as_secs_f64(),
        complete(outcome.complete),
    );
    let what = if let Some(trace) = &outcome.violation {
        format!("{}\n{:#?}", trace.broken, trace.actions)
    } else if !outcome.complete {
        "the space did not end".to_owned()
    } else if (outcome.unique, outcome.generated) != limits.counts {
        let found = (outcome.unique, outcome.generated);
        format!("{found:?} instead of {:?} states, and states made", limits.counts)
    } else if !outcome.canary {
        "nobody ever served again with all claims answered: the space is empty".to_owned()
    } else {
        return None;
    };
    Some(format!("{} by {engine}: {what}", limits.name))
}

fn complete(is_complete: bool) -> Painted<&'static str> {
    Colours::of_stdout().verdict(is_complete, if is_complete { "complete" } else { "NOT complete" })
}
