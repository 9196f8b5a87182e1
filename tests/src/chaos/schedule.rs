//! Which fault comes when, on whom and for how long: all from a seed.
//!
//! Who leads at that moment is not: a fault that is aimed at the leader finds it when it comes.

use std::time::Duration;

use callsign_sim::rng::Rng;

use super::nemesis::Kind;

/// At whom a fault is aimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtWhom {
    /// Whoever comes first in the order.
    Any,
    /// The leader of the registry.
    Leader,
    /// Where the singleton works.
    Singleton,
    /// Beside which the program of `callsign hold` runs.
    Holder,
}

/// A fault to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// When, from the begin of the run.
    pub at: Duration,
    /// For how long.
    pub lasts: Duration,
    /// What.
    pub kind: Kind,
    /// Whether somebody is meant for what it is, if it can be.
    pub at_whom: AtWhom,
    /// The nodes' numbers, in the order in which they are preferred.
    pub order: Vec<usize>,
    /// For what else is to be chosen.
    pub draw: u64,
}

/// Before the first fault: the cluster is to be there.
const FIRST_FAULT: Duration = Duration::from_secs(1);

/// Among how many of the first faults are those that end a process: a minute has no room for every kind, and has to show that a
/// holder is followed by another.
const ENDS_EARLY: usize = 5;

/// The faults of a seed, one after the other, some of them together. Every kind comes before one comes again.
pub fn plan(seed: u64, time: Duration, lease: Duration, kinds: &[Kind], nodes: usize) -> Vec<Planned> {
    let mut rng = Rng::new(seed);
    let mut planned = Vec::new();
    let mut bag: Vec<Kind> = Vec::new();
    let mut at = FIRST_FAULT;
    while !kinds.is_empty() {
        if bag.is_empty() {
            bag = kinds.to_vec();
            shuffle(&mut bag, &mut rng);
            if planned.is_empty() {
                draw_ends_early(&mut bag, &mut rng);
            }
        }
        let Some(kind) = bag.pop() else { break };
        let lasts = kind.lasts(lease, &mut rng);
        let at_whom = [AtWhom::Any, AtWhom::Leader, AtWhom::Singleton, AtWhom::Singleton];
        // Who is frozen between its check and its write is late: the singleton more often than not.
        let mut at_whom = at_whom[rng.index(if kind == Kind::Freeze { 4 } else { 3 })];
        // A holder that ends is followed by another: every second time, so that this is seen in each run.
        if kind.ends_the_process() && before(&planned, kind).is_multiple_of(2) {
            at_whom = AtWhom::Holder;
        }
        let mut order: Vec<usize> = (0..nodes).collect();
        shuffle(&mut order, &mut rng);
        let draw = rng.draw();
        if at + lasts >= time {
            break;
        }
        planned.push(Planned { at, lasts, kind, at_whom, order, draw });
        // Some begin before the last one is over. Nothing comes beside an outage that hits all.
        let together = !kind.hits_all() && rng.per_mille(350);
        let share = if together { lasts / 3 } else { lasts };
        at += share + lease / 10 + rng.duration(lease / 3);
    }
    planned
}

/// Has the kinds that end a process drawn soon. They are not the first ones: the cluster has no holder yet when it begins. Kinds are
/// drawn from the end of the bag.
fn draw_ends_early(bag: &mut Vec<Kind>, rng: &mut Rng) {
    let (ends, mut rest): (Vec<_>, Vec<_>) = bag.iter().partition(|kind| kind.ends_the_process());
    for kind in ends {
        let drawn_before = 1 + rng.index(ENDS_EARLY - 1);
        rest.insert(rest.len().saturating_sub(drawn_before), kind);
    }
    *bag = rest;
}

fn before(planned: &[Planned], kind: Kind) -> usize {
    planned.iter().filter(|planned| planned.kind == kind).count()
}

fn shuffle<T>(all: &mut [T], rng: &mut Rng) {
    for last in (1..all.len()).rev() {
        all.swap(last, rng.index(last + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_schedule() {
        let minutes = Duration::from_secs(600);
        let plan_of = |seed| plan(seed, minutes, Duration::from_secs(10), Kind::ALL, 5);
        assert_eq!(plan_of(7), plan_of(7));
        assert_ne!(plan_of(7), plan_of(8));
        for seed in 0..20 {
            let plan = plan_of(seed);
            let missing = Kind::ALL.iter().find(|kind| !plan.iter().any(|planned| planned.kind == **kind));
            assert_eq!(missing, None, "ten minutes have room for every kind: seed {seed}");
            assert!(plan.iter().all(|planned| planned.at + planned.lasts < minutes));
            for kind in [Kind::Kill, Kind::Restart] {
                let first = plan.iter().find(|planned| planned.kind == kind).unwrap();
                assert_eq!(first.at_whom, AtWhom::Holder, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_minute_ends_the_holder_early_whatever_else_there_is() {
        let minute = Duration::from_secs(60);
        for seed in 0..2_000 {
            let plan = plan(seed, minute, Duration::from_secs(3), Kind::ALL, 5);
            for kind in [Kind::Kill, Kind::Restart] {
                let place = plan.iter().position(|planned| planned.kind == kind);
                let place = place.unwrap_or_else(|| panic!("seed {seed} has no {}", kind.name()));
                assert!((1..=ENDS_EARLY).contains(&place), "seed {seed}: {} at {place}", kind.name());
                assert_eq!(plan[place].at_whom, AtWhom::Holder, "seed {seed}");
            }
        }
        let only = plan(7, minute, Duration::from_secs(3), &[Kind::Kill], 5);
        assert!(only.len() > 10 && only.iter().all(|planned| planned.kind == Kind::Kill));
    }
}
