//! Who is in a group: each membership is a name of its own, `group#what it says of itself`.

use std::collections::BTreeMap;

use super::{
    super::event::{At, Event, Seated},
    Verdict,
    claims::Claim,
    process::Process,
};

/// A membership, by its group and by what it says of itself.
fn membership(claim: &Claim) -> Option<(&str, u64)> {
    let (group, says) = claim.name.split_once('#')?;
    Some((group, says.parse().ok()?))
}

/// P3 and P5: an acknowledged membership is kept, none that has ended is, and all nodes have the same order.
pub(super) fn members(processes: &[Process], claims: &[Claim], verdict: &mut Verdict) {
    let all: BTreeMap<(&str, u64), &Claim> =
        claims.iter().filter_map(|claim| Some((membership(claim)?, claim))).collect();
    let mut last: BTreeMap<&str, (&str, &[Seated])> = BTreeMap::new();
    for process in processes {
        let rest = process.quiet_and_done();
        for event in &process.events {
            let Event::Members { at, group, members } = event else { continue };
            let who = format!("{} of {} at {at}", process.node, process.incarnation);
            is_true(&who, (*at, group), members, process, &all, verdict);
            if rest.is_none_or(|(quiet, _)| *at < quiet) {
                continue;
            }
            is_whole(&who, (*at, group), members, processes, &all, verdict);
            let (first, theirs) = *last.entry(group).or_insert((&process.node, members));
            verdict.count("groups that are alike in the end", usize::from(first != process.node));
            if theirs != members.as_slice() {
                verdict.breach(format!("P5: {who} has {members:?} in {group}, and {first} has {theirs:?}"));
            }
        }
    }
}

/// What a node knows at any time: members in the order of the log, all that this node was told to be there, and none that it was
/// told to have left.
fn is_true(
    who: &str,
    (at, group): (At, &str),
    members: &[Seated],
    process: &Process,
    all: &BTreeMap<(&str, u64), &Claim>,
    verdict: &mut Verdict,
) {
    if !members.is_sorted_by_key(|member| member.token) {
        verdict.breach(format!("P5: {who} has {group} in another order than the log: {members:?}"));
    }
    for member in members {
        let claim = member.says.and_then(|says| all.get(&(group, says)));
        let is_its = claim.is_some_and(|claim| {
            claim.grant(member.token).is_some() || (claim.unsure > 0 && claim.grants.is_empty())
        });
        // One that asked for nothing, or was told of another token.
        if !is_its && claim.is_none_or(|claim| claim.unsure == 0) {
            verdict.breach(format!("P4: {who} has {member:?} in {group}, which never joined so"));
        }
    }
    for (key, claim) in all.range((group, 0)..=(group, u64::MAX)) {
        if claim.incarnation != process.incarnation {
            continue;
        }
        let is_there =
            |token| members.iter().any(|member| member.says == Some(key.1) && member.token == token);
        for grant in claim.grants.iter().filter(|grant| grant.told <= at) {
            if claim.may_be_over_by(grant, at) {
                let left = process.freed(&claim.name).is_some_and(|freed| freed <= at);
                if left {
                    verdict.count("memberships given up, and not seen any more", 1);
                    if is_there(grant.token) {
                        verdict.breach(format!("P4: {who} has {} in {group}, which has left it", claim.name));
                    }
                }
                continue;
            }
            verdict.count("own memberships seen", 1);
            if !is_there(grant.token) {
                verdict.breach(format!("P4: {who} does not have {} in {group}: {members:?}", claim.name));
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
    processes: &[Process],
    all: &BTreeMap<(&str, u64), &Claim>,
    verdict: &mut Verdict,
) {
    let lives: BTreeMap<u64, (At, At)> =
        processes.iter().filter_map(|p| Some((p.incarnation, p.quiet_and_done()?))).collect();
    for (key, claim) in all.range((group, 0)..=(group, u64::MAX)) {
        let is_there = members.iter().any(|member| member.says == Some(key.1));
        let Some((quiet, _)) = lives.get(&claim.incarnation) else {
            verdict.count("memberships of the dead that are gone", 1);
            if is_there {
                verdict.breach(format!("P8: {who} has {} in {group}, whose process is gone", claim.name));
            }
            continue;
        };
        let ended = processes.iter().find(|p| p.incarnation == claim.incarnation);
        let ended = ended.and_then(|process| process.ended(claim.actor));
        if is_there && ended.is_some_and(|ended| ended < *quiet) {
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
