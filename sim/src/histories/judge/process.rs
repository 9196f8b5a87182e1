//! What one process wrote, put together: its calls with their answers, and what became of its actors' claims.

use std::collections::BTreeMap;

use super::{
    super::event::{Answer, Ask, At, Event},
    claims::{Acts, Claim, Grant},
    is_loss,
};

/// The history of one process.
#[derive(Clone, Debug, Default)]
pub struct ProcessHistory {
    /// The node.
    pub node: String,
    /// The incarnation; 0 of a process that never joined.
    pub incarnation: u64,
    /// When it was about to be killed, if it was.
    pub killed: Option<At>,
    /// What it wrote.
    pub events: Vec<Event>,
    /// Its calls, in the order in which they were begun.
    pub(super) calls: Vec<Call>,
}

/// A call, and its answer if there was one.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) at: At,
    pub(super) actor: u64,
    pub(super) name: String,
    pub(super) ask: Ask,
    pub(super) answer: Option<(At, Answer)>,
    /// Of a start: when it began, and under which token.
    pub(super) begun: Option<(At, u64)>,
}

impl ProcessHistory {
    /// Of the lines of a process.
    pub fn new(node: &str, killed: Option<At>, events: Vec<Event>) -> Self {
        let incarnation = events.iter().find_map(|event| match event {
            Event::Started { incarnation, .. } => Some(*incarnation),
            _ => None,
        });
        let calls = calls(&events);
        Self { node: node.to_owned(), incarnation: incarnation.unwrap_or(0), killed, events, calls }
    }

    /// Its acts.
    pub(super) fn acts(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| matches!(event, Event::Acted { .. }))
    }

    /// When it began to leave, if it did.
    pub(super) fn leaving(&self) -> Option<At> {
        self.events.iter().find_map(|event| match event {
            Event::Leaving { at } => Some(*at),
            _ => None,
        })
    }

    /// Of a process that was killed or left: when its session was certainly trusted for the last time. The session may have
    /// been closed after that, and the process ended before it heard.
    fn trusted_last(&self) -> Option<At> {
        let over = [self.leaving(), self.killed].into_iter().flatten().min()?;
        let trusted = self.events.iter().filter_map(|event| match event {
            Event::Acted { from, .. } => Some(*from),
            Event::Told { at, answer, .. } if answer.granted().is_some() => Some(*at),
            _ => None,
        });
        Some(trusted.filter(|at| *at <= over).max().unwrap_or(0))
    }

    /// When it was told that its session was lost, other than by leaving.
    fn told_of_losses(&self) -> Vec<At> {
        let leaving = self.leaving().unwrap_or(At::MAX);
        let lost = self.events.iter().filter(|event| is_loss(event)).filter_map(|event| match event {
            Event::Noticed { at, .. } | Event::Told { at, .. } => Some(*at),
            _ => None,
        });
        lost.filter(|at| *at < leaving).collect()
    }

    /// Whether its session may not have been trusted after that moment.
    fn lapsed_after(&self, moment: At) -> bool {
        self.events.iter().any(|event| matches!(event, Event::Lapsed { at } if *at > moment))
    }

    /// How many sessions it lost: what is told of one comes together.
    pub(super) fn losses(&self) -> u64 {
        let told = self.told_of_losses();
        let apart = |(before, at): (&At, &At)| at.saturating_sub(*before) > 500_000_000;
        let more = told.iter().zip(told.iter().skip(1)).filter(|pair| apart(*pair)).count();
        if told.is_empty() { 0 } else { more as u64 + 1 }
    }

    /// When each actor ended.
    pub(super) fn ended(&self) -> BTreeMap<u64, At> {
        let mut ended = BTreeMap::new();
        for event in &self.events {
            if let Event::Ended { at, actor, .. } = event {
                ended.entry(*actor).or_insert(*at);
            }
        }
        ended
    }

    /// When it was told of each name that it is given up.
    pub(super) fn freed(&self) -> BTreeMap<&str, At> {
        let freed = self.calls.iter().filter_map(|call| match &call.answer {
            Some((at, Answer::Freed)) => Some((call.name.as_str(), *at)),
            _ => None,
        });
        freed.collect()
    }

    /// When it was quiet, and when it had read everything once more.
    pub(super) fn quiet_and_done(&self) -> Option<(At, At)> {
        let find = |wanted: fn(&Event) -> Option<At>| self.events.iter().find_map(wanted);
        let quiet = find(|event| if let Event::Quiet { at } = event { Some(*at) } else { None })?;
        let done = find(|event| if let Event::Done { at } = event { Some(*at) } else { None })?;
        Some((quiet, done))
    }

    /// What its actors asked for, and what became of it.
    pub(super) fn claims(&self) -> Vec<Claim> {
        let mut claims: BTreeMap<u64, Claim> = BTreeMap::new();
        for call in self.calls.iter().filter(|call| call.actor != 0) {
            if matches!(call.ask, Ask::Update { .. }) {
                continue;
            }
            let claim = claims.entry(call.actor).or_insert_with(|| Claim {
                incarnation: self.incarnation,
                actor: call.actor,
                name: call.name.clone(),
                asked: call.at,
                grants: Vec::new(),
                unsure: 0,
                acts: BTreeMap::new(),
                given_up: None,
                unseen_may_end: None,
            });
            if !call.ask.wants() {
                claim.given_up.get_or_insert(call.at);
                continue;
            }
            match &call.answer {
                Some((told, answer)) if answer.granted().is_some() => {
                    let token = answer.granted().unwrap_or_default();
                    if claim.grant(token).is_none() {
                        claim.grants.push(Grant { token, told: *told, may_end: None, may_move: None });
                    }
                }
                None | Some((_, Answer::Unknown(_))) => claim.unsure += 1,
                Some(_) => {}
            }
        }
        for event in self.acts() {
            if let Event::Acted { from, to, actor, token, .. } = event
                && let Some(claim) = claims.get_mut(actor)
            {
                let acts =
                    claim.acts.entry(*token).or_insert(Acts { first: (*from, *to), last: (*from, *to) });
                acts.last = acts.last.max((*from, *to));
            }
        }
        // By actor: when it ended first, and whether its client ended it.
        let mut ended: BTreeMap<u64, (At, bool)> = BTreeMap::new();
        for event in &self.events {
            if let Event::Ended { at, actor, by_client } = event {
                ended.entry(*actor).or_insert((*at, *by_client));
            }
        }
        let (over, lost) = (self.trusted_last(), self.told_of_losses());
        for claim in claims.values_mut() {
            let end = ended.get(&claim.actor);
            let ends = [end.map(|(at, _)| *at), over].into_iter().flatten().min();
            let is_stopped = |since: At| end.is_some_and(|(at, by_client)| *at > since && !by_client);
            let was_lost = |since: At| lost.iter().any(|at| *at > since);
            for grant in &mut claim.grants {
                // A session that was lost later: its names may have been freed once it was trusted for the last time.
                let acts = claim.acts.get(&grant.token);
                let trusted = acts.map_or(claim.asked, |acts| acts.last.0);
                // An actor that is stopped because its session lapsed is not told any more that the session was lost.
                // An actor may have lost its name, and be told later, if its node lapsed since and it has not acted after that.
                let is_silent = self.lapsed_after(grant.told.max(acts.map_or(0, |acts| acts.last.1)));
                let loss = (was_lost(grant.told) || is_stopped(grant.told) || is_silent).then_some(trusted);
                grant.may_end = ends.into_iter().chain(loss).min();
            }
            let may_be_lost =
                was_lost(claim.asked) || is_stopped(claim.asked) || self.lapsed_after(claim.asked);
            let loss = may_be_lost.then_some(claim.asked);
            claim.unseen_may_end = ends.into_iter().chain(loss).min();
        }
        // A start that has not come to an actor which holds the name may have ended at any time.
        for call in self.calls.iter().filter(|call| call.ask == Ask::Start) {
            let Some(claim) = claims.get_mut(&call.actor).filter(|claim| claim.grants.is_empty()) else {
                continue;
            };
            claim.unseen_may_end = Some(call.at);
            claim.grants.extend(call.begun.map(|(told, token)| Grant {
                token,
                told,
                // Its session may be over before the function runs that was granted the name: whole nodes, seed 479.
                may_end: Some(call.at),
                may_move: None,
            }));
        }
        claims.into_values().collect()
    }
}

/// Calls with their answers.
fn calls(events: &[Event]) -> Vec<Call> {
    let mut calls: BTreeMap<u64, Call> = BTreeMap::new();
    // By the actor that is to be started.
    let mut starts: BTreeMap<u64, u64> = BTreeMap::new();
    for event in events {
        match event {
            Event::Asked { at, call, actor, name, ask } => {
                let (name, answer, begun) = (name.clone(), None, None);
                let asked = Call { at: *at, actor: *actor, name, ask: *ask, answer, begun };
                calls.insert(*call, asked);
                if *ask == Ask::Start {
                    starts.insert(*actor, *call);
                }
            }
            Event::Begun { at, actor, token, .. } => {
                if let Some(call) = starts.get(actor).and_then(|call| calls.get_mut(call)) {
                    call.begun = Some((*at, *token));
                }
            }
            Event::Told { at, call, answer } => {
                if let Some(call) = calls.get_mut(call) {
                    call.answer = Some((*at, answer.clone()));
                }
            }
            _ => {}
        }
    }
    calls.into_values().collect()
}
