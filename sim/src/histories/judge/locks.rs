//! Semaphores and locks: each place is a name of its own, `semaphore#what nobody else says`.

use std::collections::BTreeMap;

use super::{
    super::event::{Ask, At},
    Verdict,
    claims::Claim,
    process::ProcessHistory,
};

/// A place that was held.
struct HeldPlace<'a> {
    token: u64,
    /// When it was held at the latest for the first time: when that was told, or when its actor acted.
    known: At,
    /// When its actor asked its check for the last time, and it passed.
    last: Option<At>,
    claim: &'a Claim,
}

/// P1: no more act at a time than there are places, and they hold in the order of their tokens.
///
/// A place is in the log from its token on, until it is given up. So whoever holds has fewer than so many before it in the log which
/// are not given up yet; and an actor whose check passes has not given up.
pub(super) fn places(processes: &[ProcessHistory], claims: &[Claim], verdict: &mut Verdict) {
    let mut asked: BTreeMap<(u64, u64), u32> = BTreeMap::new();
    for process in processes {
        for call in &process.calls {
            if let Ask::Acquire { limit } = call.ask {
                asked.insert((process.incarnation, call.actor), limit);
            }
        }
    }
    let mut semaphores: BTreeMap<(&str, u32), Vec<HeldPlace<'_>>> = BTreeMap::new();
    for claim in claims {
        let Some(limit) = asked.get(&(claim.incarnation, claim.actor)) else { continue };
        let Some((semaphore, _)) = claim.name.split_once('#') else { continue };
        let held = claim.grants.iter().map(|grant| {
            let acts = claim.acts.get(&grant.token);
            let known = acts.map_or(grant.told, |acts| acts.first.1.min(grant.told));
            HeldPlace { token: grant.token, known, last: acts.map(|acts| acts.last.0), claim }
        });
        semaphores.entry((semaphore, *limit)).or_default().extend(held);
    }
    for ((semaphore, limit), held) in &mut semaphores {
        held.sort_by_key(|held| (held.token, held.known));
        in_turn(semaphore, *limit, held, verdict);
    }
}

fn in_turn(semaphore: &str, limit: u32, held: &[HeldPlace<'_>], verdict: &mut Verdict) {
    for (before, next) in held.iter().zip(held.iter().skip(1)) {
        if before.token == next.token {
            verdict.breach(format!(
                "P7: {} and {} have a place of {semaphore} under {}",
                before.claim.name, next.claim.name, next.token
            ));
        }
    }
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    for (at, one) in held.iter().enumerate() {
        let acts_on = |before: &&HeldPlace<'_>| before.last.is_some_and(|last| last > one.known);
        let beside: Vec<_> = held[..at].iter().filter(acts_on).map(|before| before.token).collect();
        if limit == 1 {
            verdict.count("holders of a lock behind others", usize::from(at > 0));
        } else {
            verdict.count("holders of a semaphore beside others", usize::from(!beside.is_empty()));
        }
        if beside.len() >= most {
            verdict.breach(format!(
                "P1: actor {} of {} has a place of {semaphore} under {} at {}, and those of {beside:?} act after that: it has {limit}",
                one.claim.actor, one.claim.incarnation, one.token, one.known
            ));
        }
    }
}
