//! What must be there when all is at rest.

use callsign_election::{
    policy::{Policy, Preempt},
    state::{Holder, Row, Seat},
};
use callsign_store::ids::MemberId;

use super::{Judge, Records, is_eligible, member, read};
use crate::elections::{Slot, checks::Check, world::ElectionWorld};

impl Judge {
    /// What is missing to rest, and which check that is.
    pub fn unrest(&self, world: &ElectionWorld) -> Option<(Check, String)> {
        let Records { seat, control, .. } = self.records(world);
        let Some(holder) = seat.as_ref().and_then(|seat| seat.holder.as_ref()) else {
            return Some((Check::Inv13, format!("nobody has the seat: {seat:?}")));
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
            return Some((Check::Inv13, format!("{holder:?} has the seat, and does not lead")));
        }
        let control = control.as_ref()?;
        // It hears of it with its next refresh.
        if control.request.is_some() && control.request == term.as_ref().map(|term| term.epoch) {
            return Some((Check::Inv12, format!("{holder:?} is asked to go, and has not gone")));
        }
        for at in world.slots() {
            let Some(process) = world.process(at) else {
                if world.setup.members[usize::from(at)].goes {
                    continue;
                }
                return Some((Check::Inv13, format!("machine {at} is down")));
            };
            let knows = process.core.status(world.local(at)).leader;
            if knows != term {
                return Some((
                    Check::Inv11,
                    format!("machine {at} knows of {knows:?}, and there is {term:?}"),
                ));
            }
        }
        if let Some(member) = unsaid(world) {
            return Some((Check::Inv12, format!("{member} has still to register, or to say its priority")));
        }
        let better = better_than(world, &control.config.policy, holder);
        better.map(|better| (Check::Inv12, format!("{better} is to lead before {holder:?}")))
    }
}

/// Who was evicted and did not hear of it yet, or has a priority that is not written: with that, the seat may change hands.
fn unsaid(world: &ElectionWorld) -> Option<MemberId> {
    let said = |at: Slot, member: &MemberId| {
        let row: Option<Row> = read(world, &world.setup.keys.candidate(member));
        row.zip(world.process(at)).is_some_and(|(row, process)| {
            row.incarnation == process.incarnation && row.priority == process.member.priority()
        })
    };
    // Of namesakes, one is registered.
    let is_said = |name: &MemberId| {
        let mut namesakes = world.slots().filter(|at| member(world, *at) == Some(name));
        namesakes.any(|at| said(at, name))
    };
    let stays = |at: &Slot| world.process(*at).is_some() || !world.setup.members[usize::from(*at)].goes;
    let mut all = world.slots().filter(stays).filter_map(|at| member(world, at));
    all.find(|name| !is_said(name)).cloned()
}

/// Who should have the seat instead: decided anew, in other words than the policy's own.
fn better_than(world: &ElectionWorld, policy: &Policy, holder: &Holder) -> Option<MemberId> {
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
