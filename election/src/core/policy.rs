//! Who should have the seat: a pure, total function of the candidates, the same on every node.
//!
//! A policy is durable: it is part of the election's configuration, so that members started with other ideas decide
//! alike.

use std::{cmp::Ordering, time::Duration};

use callsign_store::ids::{Incarnation, MemberId, Seniority, Tag};
use serde::{Deserialize, Serialize};

/// What candidates are ordered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Key {
    /// Whoever asks comes first.
    Proposer,
    /// The greater priority comes first.
    Priority,
    /// Whoever registered earlier comes first.
    Seniority,
    /// The smaller id comes first.
    Id,
}

/// When a holder whose term stands may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Preempt {
    /// Never: it stays.
    Never,
    /// By a candidate of greater priority. Equals never replace each other. A seat that its holder had to leave for such a
    /// candidate is open to those of its priority or a greater one, and to all others only one lease later.
    HigherPriority,
    /// By a candidate that comes before it in the policy's order.
    BetterRank,
}

/// How a holder is replaced whose term stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Replace {
    /// At once. Its writes fail at a sink that checks the fence; work that no sink checks runs on until it hears.
    Immediately,
    /// It is asked to resign first, and replaced only when it has not done so after `grace`, by the challenger's clock.
    HandOver {
        /// How long it gets.
        grace: Duration,
    },
}

/// How an election chooses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Policy {
    /// What candidates are ordered by: the first that tells two apart decides, and at last their ids.
    pub order: Vec<Key>,
    /// When a holder may be replaced.
    pub preempt: Preempt,
    /// How it is replaced.
    pub replace: Replace,
    /// How long a term has stood at least before another may replace its holder, and how long a candidate has been
    /// registered at least before it may replace somebody. Keeps a candidate that dies again and again from moving the
    /// seat each time. It does not keep a vacant seat empty.
    pub min_tenure: Duration,
    /// Whether priority 0 means "never me".
    pub zero_is_ineligible: bool,
    /// What a candidate must have to be elected. Others may register and look on.
    pub requires: Option<Tag>,
}

/// What a decision looks at in a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// Who.
    pub member: MemberId,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Greater is preferred, by policies that look at it.
    pub priority: u32,
    /// Smaller registered earlier.
    pub seniority: Seniority,
    /// Whether it has what the policy requires.
    pub qualified: bool,
}

/// What becomes of the seat.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The holder stays.
    Keep,
    /// This member takes it.
    Elect(MemberId),
    /// Nobody is eligible.
    Vacate,
}

impl Policy {
    /// The holder stays as long as it can; a vacant seat goes to whoever asks.
    pub fn sticky() -> Self {
        Self {
            order: vec![Key::Proposer, Key::Id],
            preempt: Preempt::Never,
            replace: Replace::Immediately,
            min_tenure: Duration::ZERO,
            zero_is_ineligible: true,
            requires: None,
        }
    }

    /// Whoever asks gets a vacant seat, unless it was vacated for somebody better, and one whose holder has a lower priority.
    pub fn preempting() -> Self {
        Self {
            order: vec![Key::Proposer],
            preempt: Preempt::HigherPriority,
            zero_is_ineligible: false,
            ..Self::sticky()
        }
    }

    /// The best by priority, then by seniority, then by id. A claim reads the records of all candidates.
    pub fn ranked() -> Self {
        Self {
            order: vec![Key::Priority, Key::Seniority, Key::Id],
            preempt: Preempt::BetterRank,
            ..Self::sticky()
        }
    }

    /// Whether the candidate may be elected at all.
    pub fn is_eligible(&self, candidate: &Standing) -> bool {
        candidate.qualified && !(self.zero_is_ineligible && candidate.priority == 0)
    }

    /// Whether a decision about one claimant needs to know the others: not, if whoever asks comes first anyway.
    pub fn needs_all(&self) -> bool {
        self.order.first() != Some(&Key::Proposer) || self.preempt == Preempt::BetterRank
    }

    /// Which of two candidates comes first. Total: two members are never equal.
    pub fn compare(&self, a: &Standing, b: &Standing, proposer: Option<&MemberId>) -> Ordering {
        let by = |key: &Key| match key {
            Key::Proposer => (Some(&b.member) == proposer).cmp(&(Some(&a.member) == proposer)),
            Key::Priority => b.priority.cmp(&a.priority),
            Key::Seniority => a.seniority.cmp(&b.seniority),
            Key::Id => a.member.cmp(&b.member),
        };
        let ordered = self.order.iter().fold(Ordering::Equal, |so_far, key| so_far.then_with(|| by(key)));
        ordered.then_with(|| by(&Key::Id))
    }

    /// Decides. `live`: the candidates that count as alive, in any order. `holder`: who has the seat, if its term
    /// stands; one that is not among `live`, or not eligible, is not kept. `proposer`: who asks.
    pub fn decide(
        &self,
        live: &[Standing],
        holder: Option<&MemberId>,
        proposer: Option<&MemberId>,
    ) -> Decision {
        let eligible = || live.iter().filter(|candidate| self.is_eligible(candidate));
        let incumbent = eligible().find(|candidate| Some(&candidate.member) == holder);
        // Whoever asks is first only for a vacant seat: a holder is not outranked by somebody's asking.
        let asks = if incumbent.is_some() && self.preempt == Preempt::BetterRank { None } else { proposer };
        let best = eligible().min_by(|a, b| self.compare(a, b, asks));
        match (best, incumbent) {
            (None, _) => Decision::Vacate,
            (Some(best), None) => Decision::Elect(best.member.clone()),
            (Some(best), Some(incumbent)) => {
                let replaces = match self.preempt {
                    Preempt::Never => false,
                    Preempt::HigherPriority => best.priority > incumbent.priority,
                    Preempt::BetterRank => best.member != incumbent.member,
                };
                if replaces { Decision::Elect(best.member.clone()) } else { Decision::Keep }
            }
        }
    }
}

#[cfg(test)]
mod tests;
