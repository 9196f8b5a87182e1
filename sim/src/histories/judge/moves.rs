//! Names that went from one actor to another, and what holders said of themselves.

use std::collections::BTreeMap;

use super::{
    super::event::{Answer, Ask, At, Event, Listed, Saw, Shown},
    Verdict,
    claims::Claim,
    process::ProcessHistory,
};

/// Says of each grant when somebody asked to take the name, unless that was refused.
pub(super) fn may_move(processes: &[ProcessHistory], claims: &mut [Claim]) {
    let mut asked: BTreeMap<(&str, u64), At> = BTreeMap::new();
    for call in processes.iter().flat_map(|process| &process.calls) {
        if let Ask::Take { from } = call.ask
            && !matches!(call.answer, Some((_, Answer::Refused(_))))
        {
            let first = asked.entry((&call.name, from)).or_insert(call.at);
            *first = call.at.min(*first);
        }
    }
    for claim in claims {
        for grant in &mut claim.grants {
            grant.may_move = asked.get(&(claim.name.as_str(), grant.token)).copied();
        }
    }
}

/// P1 and P10: what comes with a name is the last word of its former holder, which does not act any more.
pub(super) fn what_was_given(processes: &[ProcessHistory], claims: &[Claim], verdict: &mut Verdict) {
    let mut given: BTreeMap<u64, (u64, u64, At, &str)> = BTreeMap::new();
    for process in processes {
        for event in &process.events {
            if let Event::Gave { at, actor, name, data } = event {
                given.insert(*data, (process.incarnation, *actor, *at, name));
            }
        }
    }
    let of: BTreeMap<(u64, u64), &Claim> =
        claims.iter().map(|claim| ((claim.incarnation, claim.actor), claim)).collect();
    let mut taken: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (process, call) in
        processes.iter().flat_map(|process| process.calls.iter().map(move |c| (process, c)))
    {
        let (Ask::Take { from }, Some((_, Answer::Moved { token, data }))) = (call.ask, &call.answer) else {
            continue;
        };
        let (name, who) = (&call.name, format!("actor {} of {}", call.actor, process.incarnation));
        verdict.count("moves with the last word of the former holder", 1);
        let Some((data, (incarnation, actor, at, _))) =
            data.and_then(|data| Some((data, *given.get(&data).filter(|(.., of)| of == name)?)))
        else {
            verdict.breach(format!(
                "transfer: {who} got {name} under {token} with {data:?}, which no holder gave"
            ));
            continue;
        };
        let first = *taken.entry(data).or_insert((process.incarnation, call.actor));
        if first != (process.incarnation, call.actor) {
            verdict.breach(format!("transfer: {name} went with {data} to {first:?} and to {who}"));
        }
        let Some(giver) = of.get(&(incarnation, actor)) else { continue };
        if giver.unsure == 0 && giver.grant(from).is_none() {
            verdict.breach(format!(
                "transfer: {who} got {name} from {from} with what actor {actor} of {incarnation} gave, which never held it so"
            ));
        }
        if let Some(acts) = giver.acts.get(&from).filter(|acts| acts.last.0 > at) {
            verdict.breach(format!(
                "transfer: actor {actor} of {incarnation} gave {name} at {at}, and passed its check under {from} at {}",
                acts.last.0
            ));
        }
    }
}

/// P4: what is said under a name at a revision is the same for all.
pub(super) fn said_alike(processes: &[ProcessHistory], verdict: &mut Verdict) {
    let mut said: BTreeMap<(&str, u64), (Option<u64>, &str)> = BTreeMap::new();
    let mut differ = Vec::new();
    let mut alike = 0;
    for process in processes {
        let mut see = |name, token: u64, revision, says: Option<u64>| {
            // Nobody has said anything yet.
            if token == revision && says.is_none() {
                return;
            }
            let (first, who) = *said.entry((name, revision)).or_insert((says, &process.node));
            alike += 1;
            if first != says {
                differ.push(format!(
                    "P4: at {revision} {name} says {first:?} as {who} knows, and {says:?} as {} does",
                    process.node
                ));
            }
        };
        for call in &process.calls {
            match (call.ask, &call.answer) {
                (Ask::Update { token, says, .. }, Some((_, Answer::Updated(revision)))) => {
                    see(call.name.as_str(), token, *revision, Some(says));
                }
                (_, Some((_, Answer::Shown(Shown { token, revision, says, .. })))) => {
                    see(&call.name, *token, *revision, *says);
                }
                _ => {}
            }
        }
        for event in &process.events {
            let saw = match event {
                Event::Watched { saw, .. } => saw,
                Event::Paged { page, .. } => {
                    for Listed { name, now } in &page.names {
                        see(name, now.token, now.revision, now.says);
                    }
                    continue;
                }
                _ => continue,
            };
            match saw {
                Saw::Present { name, now } => see(name, now.token, now.revision, now.says),
                Saw::Change { name, was, now, .. } => {
                    for shown in [was, now].into_iter().flatten() {
                        see(name, shown.token, shown.revision, shown.says);
                    }
                }
                _ => {}
            }
        }
    }
    verdict.count("what is said at a revision, alike for all", alike);
    verdict.breaches.extend(differ);
}

/// P4: what is said to have gone to a node has gone there from where it was, and nowhere else.
pub(super) fn went_as_is_said(processes: &[ProcessHistory], claims: &[Claim], verdict: &mut Verdict) {
    let nodes: BTreeMap<u64, &str> = processes.iter().map(|it| (it.incarnation, it.node.as_str())).collect();
    let mut taken: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for process in processes {
        for call in &process.calls {
            if let Ask::Take { from } = call.ask {
                taken.insert((process.incarnation, call.actor), from);
            }
        }
    }
    let mut granted: BTreeMap<(&str, u64), &Claim> = BTreeMap::new();
    for claim in claims {
        granted.extend(claim.grants.iter().map(|grant| ((claim.name.as_str(), grant.token), claim)));
    }
    for process in processes {
        for call in &process.calls {
            let (Ask::Offer { from }, Some((_, Answer::Went { token, to }))) = (call.ask, &call.answer)
            else {
                continue;
            };
            // The actor that got the name may have ended before its client was told.
            let Some(claim) = granted.get(&(call.name.as_str(), *token)) else { continue };
            verdict.count("names that went to the node that they were offered to", 1);
            let node = nodes.get(&claim.incarnation).copied().unwrap_or_default();
            let of = taken.get(&(claim.incarnation, claim.actor)).copied();
            if node != to || (of != Some(from) && *token != from) {
                verdict.breach(format!(
                    "P4: {} said that {} went from {from} to {to} under {token}; it is of {node}, from {of:?}",
                    process.node, call.name
                ));
            }
        }
    }
}

/// How many names went to another node while their own was about to leave.
pub(super) fn moved_by_drains(processes: &[ProcessHistory], verdict: &mut Verdict) {
    let mut leaving: BTreeMap<(&str, u64), &str> = BTreeMap::new();
    for process in processes {
        let Some(left) = process.leaving() else { continue };
        for event in &process.events {
            if let Event::Gave { at, name, data, .. } = event
                && *at >= left
            {
                leaving.insert((name, *data), &process.node);
            }
        }
    }
    let moved = processes.iter().flat_map(|process| process.calls.iter().map(move |call| (process, call)));
    let moved = moved.filter(|(process, call)| match &call.answer {
        Some((_, Answer::Moved { data: Some(data), .. })) => {
            leaving.get(&(call.name.as_str(), *data)).is_some_and(|node| *node != process.node)
        }
        _ => false,
    });
    verdict.count("names that moved while their node left", moved.count());
}
