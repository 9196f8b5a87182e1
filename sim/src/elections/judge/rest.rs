//! What must be there when all is at rest.

use callsign_elector::{
    election::{
        policy::{Policy, Preempt},
        state::{Holder, Row, Seat},
    },
    ids::MemberId,
};

use super::{Judge, Records, is_eligible, member, read};
use crate::elections::{checks::Check, world::World};

impl Judge {
    /// What is missing to rest, and which check that is.
    pub fn unrest(&self, world: &World) -> Option<(Check, String)> {
        let Records { seat, control } = self.records(world);
        let Some(holder) = seat.as_ref().and_then(|seat| seat.holder.as_ref()) else {
            return Some((Check::I13, format!("nobody has the seat: {seat:?}")));
        };
        let term = seat.as_ref().and_then(Seat::term);
        let leads = world.slots().find(|at| {
            let process = world.process(*at).filter(|process| process.incarnation == holder.incarnation);
            let working = process.is_some_and(|process| process.role.active.is_some());
            working
                && process.and_then(|process| process.check(world.local(*at))).map(|g| &g.term)
                    == term.as_ref()
        });
        if leads.is_none() {
            return Some((Check::I13, format!("{holder:?} has the seat, and does not lead")));
        }
        for at in world.slots() {
            let Some(process) = world.process(at) else {
                return Some((Check::I13, format!("machine {at} is down")));
            };
            let knows = process.core.status(world.local(at)).leader;
            if knows != term {
                return Some((Check::I11, format!("machine {at} knows of {knows:?}, and there is {term:?}")));
            }
        }
        let policy = &control.as_ref()?.config.policy;
        let better = better_than(world, policy, holder);
        better.map(|better| (Check::I12, format!("{better} is to lead before {holder:?}")))
    }
}

/// Who should have the seat instead: decided anew, in other words than the policy's own.
fn better_than(world: &World, policy: &Policy, holder: &Holder) -> Option<MemberId> {
    let mut rows: Vec<(MemberId, Row)> = Vec::new();
    for at in world.slots() {
        let Some(process) = world.process(at) else { continue };
        let Some(member) = member(world, at) else { continue };
        let row: Option<Row> = read(world, &world.setup.keys.candidate(member));
        // Of namesakes, the one that registered.
        rows.extend(
            row.filter(|row| row.incarnation == process.incarnation).map(|row| (member.clone(), row)),
        );
    }
    rows.retain(|(_, row)| is_eligible(policy, row));
    let Some((_, own)) = rows.iter().find(|(member, _)| *member == holder.member).cloned() else {
        return Some(holder.member.clone());
    };
    let before = |(member, row): &&(MemberId, Row)| match policy.preempt {
        Preempt::Never => false,
        Preempt::HigherPriority => row.priority > own.priority,
        Preempt::BetterRank => {
            row.priority > own.priority
                || row.priority == own.priority && (row.seniority, member) < (own.seniority, &holder.member)
        }
    };
    rows.iter().find(before).map(|(member, _)| member.clone())
}
