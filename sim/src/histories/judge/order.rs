//! P4, and most of P1 and P3: whether some order of all calls and acts on a name explains every answer.

use std::collections::{BTreeMap, BTreeSet};

use crate::linear::{
    Checker, Claimant, LinearVerdict as Order, Moved, Op, Registered, Seen, Target, Unregistered, Updated,
    What,
};

use super::{
    super::event::{Answer, Ask},
    Verdict,
    claims::{Claim, Grant},
    process::{Call, ProcessHistory},
};

/// How many partial orders of the calls on one name are tried.
const MOST_ORDERS: usize = 1_000_000;

/// P4, by the checker of the simulator: some order of all calls on a name explains all answers and all acts.
pub(super) fn in_order(processes: &[ProcessHistory], claims: &[Claim], verdict: &mut Verdict) {
    let mut names: BTreeMap<String, Vec<Op>> = BTreeMap::new();
    let mut granted: BTreeSet<(&str, u64)> = BTreeSet::new();
    for claim in claims {
        granted.extend(claim.grants.iter().map(|grant| (claim.name.as_str(), grant.token)));
    }
    let of: BTreeMap<(u64, u64), &Claim> =
        claims.iter().map(|claim| ((claim.incarnation, claim.actor), claim)).collect();
    let calls = || processes.iter().flat_map(|p| p.calls.iter().map(|call| (p.incarnation, call)));
    let agreed = || calls().filter(|(_, call)| call.ask != Ask::Local);
    // Names on which a token was seen that nobody was told to hold: one of the unknown registrations took effect.
    let mut strange: BTreeSet<&str> = BTreeSet::new();
    for (_, call) in agreed() {
        if let Some(token) = call.answer.as_ref().and_then(|(_, answer)| answer.names())
            && !granted.contains(&(&call.name, token))
        {
            strange.insert(&call.name);
        }
    }
    // A name that was taken, and nobody knows by which token, may be free before anybody sees that.
    let mut vague: BTreeSet<&str> = BTreeSet::new();
    for (_, call) in agreed().filter(|(_, call)| matches!(call.ask, Ask::Take { .. })) {
        if matches!(call.answer, None | Some((_, Answer::Unknown(_)))) {
            vague.insert(&call.name);
        }
    }
    // P6: who was refused changed nothing, or some order would have to have it.
    let is_refused = |(_, call): &(u64, &Call)| {
        call.ask != Ask::Consistent && matches!(call.answer, Some((_, Answer::Refused(_))))
    };
    verdict.count("refusals of which nothing was seen", agreed().filter(is_refused).count());
    for (incarnation, call) in agreed() {
        let grants =
            of.get(&(incarnation, call.actor)).map(|claim| claim.grants.as_slice()).unwrap_or_default();
        let may_matter = strange.contains(call.name.as_str()) || !grants.is_empty();
        if let Some(what) = what(incarnation, call, grants, may_matter) {
            let told = call.answer.as_ref().map(|(at, _)| *at);
            let ret = call.begun.map_or(told, |(at, _)| Some(at));
            names.entry(call.name.clone()).or_default().push(Op { call: call.at, ret, what });
        }
        names.entry(call.name.clone()).or_default().extend(bound(call));
    }
    for claim in claims {
        let ops = names.entry(claim.name.clone()).or_default();
        for (token, acts) in &claim.acts {
            for (call, ret) in [acts.first, acts.last] {
                let what = What::Read { answer: Seen::Found { token: *token, revision: None } };
                ops.push(Op { call, ret: Some(ret), what });
            }
        }
        for Grant { token, may_end, .. } in &claim.grants {
            if let Some(call) = *may_end {
                ops.push(Op { call, ret: None, what: What::Free { token: *token } });
            }
        }
        // It may also have ended under a token that it was never told of, and been granted another one since.
        let is_unseen = strange.contains(claim.name.as_str()) || vague.contains(claim.name.as_str());
        if let Some(call) = claim.unseen_may_end.filter(|_| is_unseen) {
            // As often as it may have been granted one: whole nodes, seed 5516.
            for _ in 0..claim.unsure {
                let (target, answer) =
                    (Target::By(claimant(claim.incarnation, claim.actor)), Unregistered::Unknown);
                ops.push(Op { call, ret: None, what: What::Unregister { target, answer } });
            }
        }
    }
    let mut checker = Checker::with_limit(MOST_ORDERS);
    for (name, ops) in &names {
        match checker.check([(name, ops.as_slice())]) {
            Order::Linearizable(stats) => {
                verdict.count("names whose calls can be put in order", 1);
                verdict.count("calls and acts put in order", stats.ops);
            }
            Order::NotLinearizable(offence) => verdict.breach(format!("P4: {offence}")),
            Order::GaveUp { explored, .. } => {
                let open = ops.iter().filter(|op| is_open(op)).count();
                let why = format!("{} calls, {open} of them open, {explored} orders tried", ops.len());
                verdict.not_ordered.push((name.clone(), why));
            }
        }
    }
}

/// Whether it may have taken effect at any time after it was called, or never.
fn is_open(op: &Op) -> bool {
    op.ret.is_none()
        || matches!(
            op.what,
            What::Register { answer: Registered::Unknown, .. }
                | What::Unregister { answer: Unregistered::Unknown, .. }
                | What::Update { answer: Updated::Unknown, .. }
                | What::Move { answer: Moved::Unknown, .. }
        )
}

fn claimant(session: u64, actor: u64) -> Claimant {
    Claimant { session, actor }
}

/// What binds the actor of a start to its name: a change of the hold that the start began.
fn bound(call: &Call) -> Option<Op> {
    let (at, token) = call.begun?;
    let (ret, answer) = match &call.answer {
        Some((ret, Answer::Bound { revision, .. })) => (Some(*ret), Updated::Done { revision: *revision }),
        _ => (None, Updated::Unknown),
    };
    Some(Op { call: at, ret, what: What::Update { token, expected: Some(token), answer } })
}

/// A call as the checker knows it; none for what had no effect and told nothing.
fn what(incarnation: u64, call: &Call, grants: &[Grant], may_matter: bool) -> Option<What> {
    let answer = call.answer.as_ref().map(|(_, answer)| answer);
    let by = claimant(incarnation, call.actor);
    if let Some((_, token)) = call.begun {
        return Some(What::Register { by, answer: Registered::Granted { token } });
    }
    Some(match (call.ask, answer) {
        (Ask::Local, _) | (_, Some(Answer::Refused(_))) => return None,
        (Ask::Take { from }, answer) => {
            let moved = answer.and_then(Answer::granted).map(|token| Moved::Done { token });
            What::Move { from, by, answer: moved.unwrap_or(Moved::Unknown) }
        }
        (Ask::Update { token, expected, .. }, answer) => {
            let answer = match answer {
                Some(Answer::Updated(revision)) => Updated::Done { revision: *revision },
                Some(Answer::Changed(revision)) => Updated::Changed { revision: *revision },
                _ => Updated::Unknown,
            };
            What::Update { token, expected, answer }
        }
        (Ask::Register | Ask::Join | Ask::Acquire { .. }, Some(Answer::Granted(token))) => {
            What::Register { by, answer: Registered::Granted { token: *token } }
        }
        (Ask::Register, Some(Answer::Taken(token))) => {
            What::Register { by, answer: Registered::Taken { token: *token } }
        }
        // A start that finds an actor reads who that is.
        // So does what is told of an offer.
        (Ask::Start, Some(Answer::Taken(token)))
        | (Ask::Consistent, Some(Answer::Found(token)))
        | (Ask::Offer { .. }, Some(Answer::Went { token, .. })) => {
            What::Read { answer: Seen::Found { token: *token, revision: None } }
        }
        (Ask::Register | Ask::Start | Ask::Join | Ask::Acquire { .. }, _) if may_matter => {
            What::Register { by, answer: Registered::Unknown }
        }
        (Ask::Unregister | Ask::Leave, answer) => {
            // The last one before it was asked.
            let token = grants.iter().rev().find(|grant| grant.told <= call.at)?.token;
            let is_done = answer == Some(&Answer::Freed);
            let answer = if is_done { Unregistered::Done } else { Unregistered::Unknown };
            What::Unregister { target: Target::Token(token), answer }
        }
        (Ask::Consistent, Some(Answer::Shown(now))) => {
            What::Read { answer: Seen::Found { token: now.token, revision: Some(now.revision) } }
        }
        (Ask::Consistent, Some(Answer::Free)) => What::Read { answer: Seen::Free },
        _ => return None,
    })
}
