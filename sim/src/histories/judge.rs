//! What many processes wrote down, held against the promises.
//!
//! P4, and with it most of P1 and P3, by the checker that judges the histories of the simulator
//! ([`crate::linear`]): an act after a `check()` that passed is a read that found the actor's token, and a hold ends
//! only where somebody gave it up, or its process says why it may have ended. What is more direct is looked at directly, so
//! that a breach is called by its name. The recordings of the cores are [`crate::recording`]'s.
//!
//! A moment is known as an interval only, from before the call to after its answer. A breach is one wherever the moment was.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Answer, Ask, At, Event, SessionTold};

mod claims;
mod groups;
mod locks;
mod moves;
mod order;
mod pages;
mod process;
mod watches;

use self::claims::{Claim, Grant};
pub use self::process::ProcessHistory;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// What must not be.
    pub breaches: Vec<String>,
    /// How often each thing was looked at.
    pub checked: BTreeMap<&'static str, u64>,
    /// How often each call had each answer.
    pub answers: BTreeMap<(String, String), u64>,
    /// When calls that change or read something agreed were answered with a yes or a no.
    pub acknowledged: Vec<At>,
    /// When names were granted or freed.
    pub changed: Vec<At>,
    /// Sessions that processes lost while they lived.
    pub sessions_lost: u64,
    /// Epochs of the registry in which somebody served.
    pub elections: BTreeSet<u64>,
    /// Epochs of the singleton in which somebody worked.
    pub terms: BTreeSet<u64>,
    /// How often a process found its wall clock set.
    pub clocks_set: u64,
    /// Names whose calls were too many at a time to be put in order, and how many they were.
    pub not_ordered: Vec<(String, String)>,
}

impl Verdict {
    fn breach(&mut self, what: String) {
        self.breaches.push(what);
    }

    fn count(&mut self, what: &'static str, by: usize) {
        if by > 0 {
            *self.checked.entry(what).or_default() += by as u64;
        }
    }
}

/// Judges the histories of all processes of a run.
pub fn judge(processes: &[ProcessHistory]) -> Verdict {
    let mut verdict = Verdict::default();
    let mut claims: Vec<Claim> = processes.iter().flat_map(ProcessHistory::claims).collect();
    moves::may_move(processes, &mut claims);
    for process in processes {
        tally(process, &mut verdict);
        let its = claims.iter().filter(|claim| claim.incarnation == process.incarnation);
        let its: BTreeMap<u64, &Claim> = its.map(|claim| (claim.actor, claim)).collect();
        own_registers_are_seen(process, &its, &mut verdict);
        local_reads_go_forward(process, &mut verdict);
    }
    one_holder(processes, &claims, &mut verdict);
    one_grant_per_token(&claims, &mut verdict);
    kept_to_the_end(processes, &claims, &mut verdict);
    one_leads(processes, &mut verdict);
    order::in_order(processes, &claims, &mut verdict);
    moves::what_was_given(processes, &claims, &mut verdict);
    moves::said_alike(processes, &mut verdict);
    moves::moved_by_drains(processes, &mut verdict);
    moves::went_as_is_said(processes, &claims, &mut verdict);
    groups::members(processes, &claims, &mut verdict);
    locks::places(processes, &claims, &mut verdict);
    watches::watches(processes, &claims, &mut verdict);
    pages::pages(processes, &claims, &mut verdict);
    verdict
}

fn tally(process: &ProcessHistory, verdict: &mut Verdict) {
    for call in &process.calls {
        let answer = match &call.answer {
            None => "(none)".to_owned(),
            Some((_, Answer::Refused(why))) => format!("refused: {why}"),
            Some((_, Answer::Unknown(why))) => format!("unknown: {why}"),
            Some((_, Answer::Granted(_) | Answer::Bound { .. } | Answer::Moved { .. })) => {
                "granted".to_owned()
            }
            Some((_, Answer::Went { .. })) => "went".to_owned(),
            Some((_, Answer::Updated(_))) => "updated".to_owned(),
            Some((_, Answer::Changed(_))) => "changed before".to_owned(),
            Some((_, Answer::Taken(_))) => "taken".to_owned(),
            Some((_, Answer::Freed)) => "freed".to_owned(),
            Some((_, Answer::Found(_) | Answer::Shown(_))) => "found".to_owned(),
            Some((_, Answer::Free)) => "free".to_owned(),
        };
        *verdict.answers.entry((call.ask.word().to_owned(), answer)).or_default() += 1;
        if let Some((at, answer)) = &call.answer
            && call.ask != Ask::Local
            && !matches!(answer, Answer::Refused(_) | Answer::Unknown(_))
        {
            verdict.acknowledged.push(*at);
            if answer.granted().is_some() || *answer == Answer::Freed {
                verdict.changed.push(*at);
            }
        }
    }
    let mut wall = None;
    for event in &process.events {
        match event {
            Event::Seen { wall: now, epoch, leader, .. } => {
                verdict.clocks_set += u64::from(wall.is_some_and(|before: i64| (before - now).abs() > 1000));
                wall = Some(*now);
                if leader.is_some() {
                    verdict.elections.insert(*epoch);
                }
            }
            Event::Led { epoch, .. } => {
                verdict.terms.insert(*epoch);
            }
            _ => {}
        }
    }
    verdict.count("acts after a check that passed", process.acts().count());
    verdict.sessions_lost += process.losses();
}

/// What a process was granted, by name: when it was told, under which token, for whom.
type GrantsByName<'a> = BTreeMap<&'a str, Vec<(At, u64, u64)>>;

fn granted(process: &ProcessHistory) -> GrantsByName<'_> {
    let mut grants = GrantsByName::new();
    for call in &process.calls {
        if let Some((at, answer)) = &call.answer
            && let Some(token) = answer.granted()
        {
            grants.entry(&call.name).or_default().push((*at, token, call.actor));
        }
    }
    for grants in grants.values_mut() {
        grants.sort_unstable();
    }
    grants
}

/// Under which of these tokens a name was certainly held from one moment to another.
fn certain(grants: &[(At, u64, u64)], claims: &BTreeMap<u64, &Claim>, (from, to): (At, At)) -> Option<u64> {
    let before = grants.partition_point(|(at, ..)| *at < from);
    let (_, token, actor) = grants[before.checked_sub(1)?];
    let claim = claims.get(&actor)?;
    let grant = claim.grant(token)?;
    (!claim.may_be_over_by(grant, to)).then_some(token)
}

/// P4: after one's own register, one's own read sees it.
fn own_registers_are_seen(process: &ProcessHistory, claims: &BTreeMap<u64, &Claim>, verdict: &mut Verdict) {
    let grants = granted(process);
    for read in process.calls.iter().filter(|call| call.ask == Ask::Local) {
        let Some((answered, answer)) = &read.answer else { continue };
        if answer.found().is_none() && *answer != Answer::Free {
            continue;
        }
        let Some(grants) = grants.get(read.name.as_str()) else { continue };
        let Some(token) = certain(grants, claims, (read.at, *answered)) else { continue };
        verdict.count("own registrations seen by a local read", 1);
        if answer.found() != Some(token) {
            verdict.breach(format!(
                "P4: {} of {} holds {} under {token}, its own read says {answer:?} at {}",
                process.node, process.incarnation, read.name, read.at
            ));
        }
    }
}

/// P5: a replica never goes back.
fn local_reads_go_forward(process: &ProcessHistory, verdict: &mut Verdict) {
    let mut last: BTreeMap<&str, (u64, At)> = BTreeMap::new();
    let reads = process.calls.iter().filter(|call| call.ask == Ask::Local).filter_map(|read| {
        let (answered, answer) = read.answer.as_ref()?;
        Some((read.at, *answered, read.name.as_str(), answer.found()?))
    });
    let mut reads: Vec<(At, At, &str, u64)> = reads.chain(pages::listed(process)).collect();
    reads.sort_unstable();
    for (asked, answered, name, token) in reads {
        let (before, at) = last.entry(name).or_insert((token, answered));
        if *at < asked {
            verdict.count("local reads, not behind the last one", 1);
            if *before > token {
                verdict.breach(format!(
                    "P5: {} of {} read {name} under {token} at {asked}, after {before}",
                    process.node, process.incarnation
                ));
            }
        }
        if token > *before {
            (*before, *at) = (token, answered);
        }
    }
}

/// P1: who acts under an older token does so before anybody knows of a newer one.
fn one_holder(processes: &[ProcessHistory], claims: &[Claim], verdict: &mut Verdict) {
    /// Since when it is known, and when it was trusted last, by whom.
    type Hold = (At, Option<(At, String)>);
    let mut holds: BTreeMap<(&str, u64), Hold> = BTreeMap::new();
    for call in processes.iter().flat_map(|process| &process.calls) {
        let told = call.answer.as_ref().and_then(|(at, answer)| Some((*at, answer.names()?)));
        for (at, token) in told.into_iter().chain(call.begun) {
            let known = &mut holds.entry((&call.name, token)).or_insert((at, None)).0;
            *known = at.min(*known);
        }
    }
    for claim in claims {
        for (token, acts) in &claim.acts {
            let hold = holds.entry((&claim.name, *token)).or_insert((acts.first.1, None));
            hold.0 = hold.0.min(acts.first.1);
            if hold.1.as_ref().is_none_or(|(at, _)| *at < acts.last.0) {
                hold.1 = Some((acts.last.0, format!("actor {} of {}", claim.actor, claim.incarnation)));
            }
        }
    }
    let mut newer: Option<(&str, u64, At)> = None;
    for ((name, token), (known, trusted)) in holds.iter().rev() {
        if let (Some((of, next, since)), Some((at, who))) = (newer, trusted)
            && of == *name
        {
            verdict.count("holders followed by another", 1);
            if *at > since {
                let late = (at - since) / 1_000_000;
                verdict.breach(format!(
                    "P1: {name}: {who} passed its check under {token} at {at}, {late} ms after {next} was known"
                ));
            }
        }
        if newer.is_none_or(|(of, _, since)| of != *name || *known < since) {
            newer = Some((name, *token, *known));
        }
    }
}

/// P7: a token is of one actor.
fn one_grant_per_token(claims: &[Claim], verdict: &mut Verdict) {
    let mut granted: BTreeMap<(&str, u64), (u64, u64)> = BTreeMap::new();
    for claim in claims {
        for Grant { token, .. } in &claim.grants {
            verdict.count("tokens of one actor", 1);
            let who = (claim.incarnation, claim.actor);
            let first = *granted.entry((&claim.name, *token)).or_insert(who);
            if first != who {
                verdict.breach(format!("P7: {} under {token} is of {first:?} and of {who:?}", claim.name));
            }
        }
    }
}

/// P3: what was acknowledged and never ended is still held, and acted under, when all is quiet.
fn kept_to_the_end(processes: &[ProcessHistory], claims: &[Claim], verdict: &mut Verdict) {
    let done: BTreeMap<u64, (At, At)> =
        processes.iter().filter_map(|p| Some((p.incarnation, p.quiet_and_done()?))).collect();
    for claim in claims {
        let Some((quiet, done)) = done.get(&claim.incarnation) else { continue };
        let Some(grant) = claim.grants.last().filter(|grant| !claim.may_be_over_by(grant, *done)) else {
            continue;
        };
        let token = &grant.token;
        verdict.count("names kept to the end", 1);
        if claim.acts.get(token).is_none_or(|acts| acts.last.0 <= *quiet) {
            verdict.breach(format!(
                "P3: actor {} of {} was granted {} under {token}, and did not act any more in the end",
                claim.actor, claim.incarnation, claim.name
            ));
        }
    }
}

/// Nobody passes the check of an older term once a later one has begun.
fn one_leads(processes: &[ProcessHistory], verdict: &mut Verdict) {
    let mut terms: BTreeMap<u64, (At, At, &str)> = BTreeMap::new();
    for process in processes {
        for event in &process.events {
            if let Event::Led { from, to, epoch } = event {
                let term = terms.entry(*epoch).or_insert((*to, *from, &process.node));
                *term = (term.0.min(*to), term.1.max(*from), term.2);
                if term.2 != process.node {
                    verdict.breaches.push(format!(
                        "P2: {} and {} both work in the singleton's epoch {epoch}",
                        term.2, process.node
                    ));
                }
                *verdict.checked.entry("checks of the singleton that passed").or_default() += 1;
            }
        }
    }
    for (before, after) in terms.iter().zip(terms.iter().skip(1)) {
        let ((old, (_, last, who)), (new, (first, ..))) = (before, after);
        if last > first {
            verdict.breach(format!(
                "P1: the singleton's {who} passed its check in epoch {old} at {last}, after epoch {new} had begun at {first}"
            ));
        }
    }
}

/// Whether an event says that a session was lost.
fn is_loss(event: &Event) -> bool {
    match event {
        Event::Noticed { told: SessionTold::Lost, .. } => true,
        Event::Told { answer: Answer::Unknown(why), .. } => why == "SessionLost",
        _ => false,
    }
}

#[cfg(test)]
mod tests;
