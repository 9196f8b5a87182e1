//! Groups: each membership is a name of its own, `group#what it says of itself`.

use std::collections::BTreeMap;

use super::{
    super::event::{At, Event, Seated},
    Verdict,
    claims::Claim,
    process::ProcessHistory,
};

/// A membership, by its group and by what it says of itself.
fn membership(claim: &Claim) -> Option<(&str, u64)> {
    let (group, says) = claim.name.split_once('#')?;
    Some((group, says.parse().ok()?))
}

/// All memberships, by group and by what they say of themselves.
type All<'a> = BTreeMap<(&'a str, u64), &'a Claim>;

/// A process that was at rest in the end.
struct Rested {
    quiet: At,
    /// When each actor ended.
    ended: BTreeMap<u64, At>,
}

/// P3 and P5: an acknowledged membership is kept, none that has ended is, and all nodes have the same order.
pub(super) fn members(processes: &[ProcessHistory], claims: &[Claim], verdict: &mut Verdict) {
    let all: All<'_> = claims.iter().filter_map(|claim| Some((membership(claim)?, claim))).collect();
    let rested: BTreeMap<u64, Rested> = processes
        .iter()
        .filter_map(|process| {
            let (quiet, _) = process.quiet_and_done()?;
            Some((process.incarnation, Rested { quiet, ended: process.ended() }))
        })
        .collect();
    let mut last: BTreeMap<&str, (&str, &[Seated])> = BTreeMap::new();
    for process in processes {
        let (its, freed) = (of(process, &all), process.freed());
        for event in &process.events {
            let Event::Members { at, group, members } = event else { continue };
            let who = format!("{} of {} at {at}", process.node, process.incarnation);
            is_ordered(&who, group, members, &all, verdict);
            has_its_own(&who, (*at, group), members, (&its, &freed), verdict);
            if rested.get(&process.incarnation).is_none_or(|rested| rested.quiet > *at) {
                continue;
            }
            is_whole(&who, (*at, group), members, &rested, &all, verdict);
            let (first, theirs) = *last.entry(group).or_insert((&process.node, members));
            verdict.count("groups that are alike in the end", usize::from(first != process.node));
            if theirs != members.as_slice() {
                verdict.breach(format!("P5: {who} has {members:?} in {group}, and {first} has {theirs:?}"));
            }
        }
    }
}

/// The memberships of a process.
fn of<'a>(process: &ProcessHistory, all: &All<'a>) -> All<'a> {
    let its = all.iter().filter(|(_, claim)| claim.incarnation == process.incarnation);
    its.map(|(key, claim)| (*key, *claim)).collect()
}

/// Members are in the order of the log, and each has asked for it.
fn is_ordered(who: &str, group: &str, members: &[Seated], all: &All<'_>, verdict: &mut Verdict) {
    if !members.is_sorted_by_key(|member| member.token) {
        verdict.breach(format!("P5: {who} has {group} in another order than the log: {members:?}"));
    }
    for member in members {
        let claim = member.says.and_then(|says| all.get(&(group, says)));
        if claim.is_none_or(|claim| claim.unsure == 0 && claim.grant(member.token).is_none()) {
            verdict.breach(format!("P4: {who} has {member:?} in {group}, which never joined so"));
        }
    }
}

/// All are there that this node was told of, and none that it was told to have left.
fn has_its_own(
    who: &str,
    (at, group): (At, &str),
    members: &[Seated],
    (its, freed): (&All<'_>, &BTreeMap<&str, At>),
    verdict: &mut Verdict,
) {
    for ((_, says), claim) in its.range((group, 0)..=(group, u64::MAX)) {
        let is_there =
            |token| members.iter().any(|member| member.says == Some(*says) && member.token == token);
        for grant in claim.grants.iter().filter(|grant| grant.told <= at) {
            if !claim.may_be_over_by(grant, at) {
                verdict.count("own memberships seen", 1);
                if !is_there(grant.token) {
                    verdict.breach(format!("P4: {who} does not have {} in {group}: {members:?}", claim.name));
                }
            } else if freed.get(claim.name.as_str()).is_some_and(|freed| *freed <= at) {
                verdict.count("memberships given up, and not seen any more", 1);
                if is_there(grant.token) {
                    verdict.breach(format!("P4: {who} has {} in {group}, which has left it", claim.name));
                }
            }
        }
    }
}

/// What a node knows at rest: all memberships that were acknowledged and live, and none of a process that is gone or of an actor that
/// has ended.
fn is_whole(
    who: &str,
    (at, group): (At, &str),
    members: &[Seated],
    rested: &BTreeMap<u64, Rested>,
    all: &All<'_>,
    verdict: &mut Verdict,
) {
    for ((_, says), claim) in all.range((group, 0)..=(group, u64::MAX)) {
        let is_there = members.iter().any(|member| member.says == Some(*says));
        let Some(Rested { quiet, ended }) = rested.get(&claim.incarnation) else {
            verdict.count("memberships of the dead that are gone", 1);
            if is_there {
                verdict.breach(format!("P8: {who} has {} in {group}, whose process is gone", claim.name));
            }
            continue;
        };
        if is_there && ended.get(&claim.actor).is_some_and(|ended| ended < quiet) {
            verdict.breach(format!("P8: {who} has {} in {group}, whose actor has ended", claim.name));
        }
        let Some(grant) = claim.grants.last().filter(|grant| !claim.may_be_over_by(grant, at)) else {
            continue;
        };
        verdict.count("memberships kept to the end", 1);
        if !is_there {
            verdict.breach(format!(
                "P3: {} was acknowledged under {}, and {who} does not have it in {group}",
                claim.name, grant.token
            ));
        }
    }
}
