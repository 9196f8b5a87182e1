//! What rows say: who is the elder, who leads, in which term.

use std::time::Duration;

use callsign_store::ids::{Epoch, Incarnation, MemberId, Seniority};

use super::PoolRow;
use crate::core::{
    policy::{Decision, Policy, Standing},
    term::{AuthorityTime, Term},
};

/// Who should lead, of these.
pub(super) fn top<'a>(rows: impl Iterator<Item = &'a PoolRow>) -> Option<MemberId> {
    let standings: Vec<_> = rows.map(standing).collect();
    match Policy::ranked().decide(&standings, None, None) {
        Decision::Elect(top) => Some(top),
        Decision::Keep | Decision::Vacate => None,
    }
}

/// Smaller is elder.
pub(super) fn age(row: &PoolRow) -> (Duration, Incarnation) {
    (row.joined, row.incarnation)
}

/// The term that a row speaks of. Its epoch counts the terms of that peer only.
pub(super) fn term(row: &PoolRow) -> Option<Term> {
    Some(Term {
        leader: row.member.clone(),
        incarnation: row.incarnation,
        epoch: Epoch(row.terms),
        elected_at: AuthorityTime(micros(row.leads_since?)),
    })
}

fn standing(row: &PoolRow) -> Standing {
    Standing {
        member: row.member.clone(),
        incarnation: row.incarnation,
        priority: row.priority,
        seniority: Seniority(micros(row.joined)),
        qualified: true,
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
