//! A name has one trusted holder: no two processes claim it, each in a session that it trusts, at one moment.
//!
//! A driver reads its clock behind all inputs of a step and before its effects. So a claim that ends early enough for
//! another's to be granted ends, by the clock, before that one begins.

use std::collections::BTreeMap;

use callsign::Name;
use callsign_store::{
    Time,
    ids::{Position, SessionNumber},
};

use super::Breach;
use crate::recording::{
    counts::{Count, RecordingCounts},
    place::{Place, Process},
};

/// When a process trusted its sessions.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// Each stretch of time, in order.
    stretches: Vec<(SessionNumber, Time, Time)>,
    is_trusted: bool,
    /// The last sign of life. A process that was killed trusts nothing behind it, whatever it had been granted.
    last: Time,
}

impl Trust {
    /// The process was alive.
    pub fn lives(&mut self, now: Time) {
        self.last = self.last.max(now);
    }

    /// From now on a session is trusted until then.
    pub fn grant(&mut self, now: Time, number: SessionNumber, until: Time) {
        match self.stretches.last_mut() {
            Some((last, _, end)) if self.is_trusted && *last == number && now <= *end => *end = until,
            _ => self.stretches.push((number, now, until)),
        }
        self.is_trusted = true;
    }

    /// From now on none is.
    pub fn lapse(&mut self, now: Time) {
        if let Some((_, _, end)) = self.stretches.last_mut().filter(|_| self.is_trusted) {
            *end = now.min(*end);
        }
        self.is_trusted = false;
    }

    fn of(&self, number: SessionNumber) -> impl Iterator<Item = (Time, Time)> {
        let of_number = self.stretches.iter().filter(move |(of, _, _)| *of == number);
        of_number.map(|(_, from, until)| (*from, (*until).min(self.last)))
    }
}

/// A process claims a name.
#[derive(Clone, Debug)]
pub struct RecordedClaim {
    /// Which process.
    pub process: Process,
    /// Where the claim begins.
    pub place: Place,
    /// The session that it belongs to.
    pub session: SessionNumber,
    /// The registration.
    pub token: Position,
    /// When it begins.
    pub from: Time,
    /// When it ends; `None`: with the recording.
    pub until: Option<Time>,
}

/// All claims on all names.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    claims: BTreeMap<Name, Vec<RecordedClaim>>,
    /// When a member first believed a session to be trusted.
    believed: BTreeMap<(Process, SessionNumber), (Time, Place)>,
}

impl Claims {
    /// A claim was there.
    pub fn claim(&mut self, name: Name, claim: RecordedClaim) {
        self.claims.entry(name).or_default().push(claim);
    }

    /// A member believes that a session of its node is trusted.
    pub fn believes(&mut self, process: &Process, place: &Place, number: SessionNumber, now: Time) {
        self.believed.entry((process.clone(), number)).or_insert_with(|| (now, place.clone()));
    }

    /// Checks the claims with the sessions' trust.
    pub fn finish(
        self,
        trust: &BTreeMap<Process, Trust>,
        counts: &mut RecordingCounts,
        breaches: &mut Vec<Breach>,
    ) {
        for ((process, number), (now, place)) in self.believed {
            let was_granted =
                trust.get(&process).is_some_and(|trust| trust.of(number).any(|(from, _)| from <= now));
            if was_granted {
                counts.add(Count::Trusts, 1);
            } else {
                breaches.push(Breach {
                    rule: "a session is trusted once that was granted",
                    what: format!("{process} trusts its session {number} at {place}"),
                });
            }
        }
        for (name, claims) in self.claims {
            let mut held: Vec<(Time, Time, &RecordedClaim)> = Vec::new();
            for claim in &claims {
                let stretches = trust.get(&claim.process).into_iter().flat_map(|t| t.of(claim.session));
                held.extend(stretches.filter_map(|(from, until)| {
                    let from = from.max(claim.from);
                    let until = claim.until.map_or(until, |end| end.min(until));
                    (from < until).then_some((from, until, claim))
                }));
            }
            held.sort_by_key(|(from, until, _)| (*from, *until));
            counts.add(Count::Claims, held.len() as u64);
            // Whoever has held it longest so far.
            let mut former: Option<(Time, &RecordedClaim)> = None;
            for (from, until, claim) in held {
                if let Some((end, before)) = former.filter(|(_, b)| b.process != claim.process) {
                    counts.add(Count::Handed, 1);
                    if from < end {
                        breaches.push(Breach {
                            rule: "a name has one trusted holder",
                            what: format!(
                                "{name:?} is held by {} ({}) until {end:?}, and by {} ({}) from {from:?}",
                                before.process, before.place, claim.process, claim.place
                            ),
                        });
                    }
                }
                if former.is_none_or(|(end, _)| until > end) {
                    former = Some((until, claim));
                }
            }
        }
    }
}
