//! `exhaustive`: small clusters, every interleaving.
#![allow(clippy::disallowed_methods)] // the wall clock, for speed

use std::{sync::Arc, time::Instant};

use callsign_sim::{
    elections::SMALL,
    exhaustive::{Cluster, Limits, SPACES},
    search::{Outcome, breadth_first, stateright},
    world::Action,
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
}

impl Exhaustive {
    /// Searches them.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        if self.elections {
            return elections();
        }
        let wanted = |limits: &&Limits| match &self.space {
            Some(name) => limits.name == name,
            None => limits.is_small || !self.small,
        };
        let spaces: Vec<&Limits> = SPACES.iter().filter(wanted).collect();
        anyhow::ensure!(!spaces.is_empty(), "there is no space {:?}", self.space);
        let mut wrong = Vec::new();
        for limits in spaces {
            let engine = self.engine.unwrap_or(if limits.is_small { Engine::Both } else { Engine::Own });
            if engine != Engine::Stateright {
                one(limits, "own", |space| breadth_first(&*space, MOST_STATES), &mut wrong);
            }
            if engine != Engine::Own {
                one(limits, "stateright", |space| stateright(&space, MOST_STATES), &mut wrong);
            }
        }
        anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    }
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
            if outcome.complete { "complete" } else { "NOT complete" },
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

fn one(
    limits: &Limits,
    engine: &str,
    search: impl FnOnce(Arc<Cluster>) -> Outcome<Action>,
    wrong: &mut Vec<String>,
) {
    let begin = Instant::now();
    let outcome = search(Arc::new(Cluster::new(*limits)));
    say!(
        "{:22} {:10} {:>9} states, {:>9} made, depth {:>3}, {:>5.1} s, {}",
        limits.name,
        engine,
        outcome.unique,
        outcome.generated,
        outcome.depth,
        begin.elapsed().as_secs_f64(),
        if outcome.complete { "complete" } else { "NOT complete" },
    );
    let mut complain = |what: String| wrong.push(format!("{} by {engine}: {what}", limits.name));
    if let Some(trace) = &outcome.violation {
        complain(format!("{}\n{:#?}", trace.broken, trace.actions));
    } else if !outcome.complete {
        complain("the space did not end".to_owned());
    } else if (outcome.unique, outcome.generated) != limits.counts {
        let found = (outcome.unique, outcome.generated);
        complain(format!("{found:?} instead of {:?} states, and states made", limits.counts));
    }
    if !outcome.canary && outcome.violation.is_none() {
        complain("nobody ever served again with all claims answered: the space is empty".to_owned());
    }
}
