//! What one observer remembers from one operation to the next: since when it has seen what is there now.
//!
//! The store has no clock, so nobody reads a time there. A record that has not changed between the *end* of one read and
//! the *start* of another has stood at least that long, by the observer's own clock; any change starts the count again.

use std::collections::BTreeMap;
use std::time::Duration;

use callsign_store::{
    Value,
    ids::{Ballot, Epoch, MemberId, Nonce, Seniority},
    planted,
    time::Time,
};

use super::snapshot::Snapshot;
use crate::core::state::{Age, ElectionState, Evidence, Who};

/// Something that was there, and since when it is known to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sighting<T> {
    what: T,
    first: Time,
}

impl<T: PartialEq> Sighting<T> {
    fn age(seen: Option<&Self>, now: Time, what: &T) -> Duration {
        seen.filter(|seen| seen.what == *what).map_or(Duration::ZERO, |seen| now.since(seen.first))
    }

    fn see(slot: &mut Option<Self>, now: Time, what: T) {
        if slot.as_ref().is_none_or(|seen| seen.what != what) {
            *slot = Some(Self { what, first: now });
        }
    }
}

/// Since when the member itself has its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct HeldSince {
    epoch: Epoch,
    /// The start of the last attempt that is known to have been committed: the record is not older.
    since: Time,
}

/// What an observer remembers. It is lost with the process, which costs time and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Memory {
    seat: Option<Sighting<SeatSeen>>,
    epoch: Option<Sighting<Epoch>>,
    request: Option<Sighting<Epoch>>,
    rows: BTreeMap<MemberId, Sighting<Value>>,
    registered: Option<Sighting<(Who, Seniority)>>,
    held: Option<HeldSince>,
    /// The attempt that is being made, and when it was made first.
    trying: Option<(Nonce, Time)>,
    /// Whether the policy ranks all candidates, as far as is known.
    pub(super) ranks: bool,
}

/// A seat as it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum SeatSeen {
    /// No two of its values are alike.
    Value(Value),
    /// Its record is lost. It may be written and lost again, and what was promised ahead tells the two times apart.
    Lost(Option<Ballot>),
}

impl SeatSeen {
    fn of(snapshot: &Snapshot) -> Self {
        let reserved = snapshot.state.control.as_ref().map(|control| control.reserved);
        snapshot.seat.clone().map_or(Self::Lost(reserved), Self::Value)
    }
}

impl Memory {
    /// A claim begins, or is made again.
    pub(super) fn tries(&mut self, now: Time, nonce: Nonce) {
        if self.trying.is_none_or(|(trying, _)| trying != nonce) {
            self.trying = Some((nonce, now));
        }
    }

    /// The epoch that the member holds, as far as it knows.
    pub fn held(&self) -> Option<Epoch> {
        self.held.map(|held| held.epoch)
    }

    /// What is known of a snapshot whose read began at `started` and ended `now`.
    pub(super) fn evidence(
        &self,
        started: Time,
        now: Time,
        snapshot: &Snapshot,
        who: Option<&Who>,
    ) -> Evidence {
        let state = &snapshot.state;
        let request = state.control.as_ref().and_then(|control| control.request);
        let silent = snapshot.rows.iter().filter_map(|(member, value)| {
            let seen = self.rows.get(member)?;
            Some((member.clone(), Sighting::age(Some(seen), started, value)))
        });
        let registered = who.and_then(|who| {
            let row = state.candidates.get(&who.member)?;
            let what = (who.clone(), row.seniority);
            Some(Sighting::age(self.registered.as_ref(), started, &what))
        });
        Evidence {
            at: crate::core::term::AuthorityTime(snapshot.version.0),
            seat: Age {
                at_least: Sighting::age(self.seat.as_ref(), started, &SeatSeen::of(snapshot)),
                at_most: who.and_then(|who| self.own_age(now, state, who)),
            },
            epoch: state
                .seat
                .as_ref()
                .map_or(Duration::ZERO, |seat| Sighting::age(self.epoch.as_ref(), started, &seat.epoch)),
            request: request
                .map_or(Duration::ZERO, |request| Sighting::age(self.request.as_ref(), started, &request)),
            registered: registered.unwrap_or(Duration::ZERO),
            silent: silent.collect(),
        }
    }

    /// How old a record that the member wrote itself can be at most: it was not there before it began to write it.
    fn own_age(&self, now: Time, state: &ElectionState, who: &Who) -> Option<Duration> {
        let seat = state.seat.as_ref()?;
        let holder = seat.holder.as_ref().filter(|_| seat.is_held_by(&who.member, who.incarnation))?;
        let held = self.held.filter(|held| held.epoch == seat.epoch).map(|held| held.since);
        // A claim whose answer was lost.
        let tried = self.trying.filter(|(nonce, _)| *nonce == holder.nonce).map(|(_, since)| since);
        held.or(tried).map(|since| now.since(since))
    }

    /// Takes over what an attempt saw, now that it is known that the attempt is over. Nothing is older than that.
    pub(super) fn adopt(&mut self, started: Time, now: Time, snapshot: &Snapshot) {
        let now = if planted!("lease-ages-from-before-read") { started } else { now };
        Sighting::see(&mut self.seat, now, SeatSeen::of(snapshot));
        match &snapshot.state.seat {
            Some(seat) => Sighting::see(&mut self.epoch, now, seat.epoch),
            None => self.epoch = None,
        }
        match snapshot.state.control.as_ref().and_then(|control| control.request) {
            Some(request) => Sighting::see(&mut self.request, now, request),
            None => self.request = None,
        }
        if snapshot.all {
            self.rows.retain(|member, _| snapshot.rows.contains_key(member));
            for (member, value) in &snapshot.rows {
                let seen = self.rows.remove(member);
                let mut slot = seen;
                Sighting::see(&mut slot, now, value.clone());
                self.rows.extend(slot.map(|seen| (member.clone(), seen)));
            }
        }
    }

    /// The member sees its own registration.
    pub(super) fn is_registered(&mut self, now: Time, who: &Who, seniority: Seniority) {
        Sighting::see(&mut self.registered, now, (who.clone(), seniority));
    }

    /// The member has this term, as of an attempt that began at `since`.
    pub(super) fn holds(&mut self, epoch: Epoch, since: Time) {
        self.held = Some(HeldSince { epoch, since });
    }

    /// The member does not have the term any more.
    pub(super) fn lets_go(&mut self) {
        self.held = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{
        config::ElectionConfig,
        state::{Control, Seat},
    };

    fn at(seconds: u64) -> Time {
        Time(Duration::from_secs(seconds))
    }

    /// All rows that there are, and each is the same as ever.
    fn showing(names: &[&str]) -> Snapshot {
        let rows = names.iter().map(|name| (MemberId::new(name).unwrap(), vec![1]));
        Snapshot { all: true, rows: rows.collect(), ..Snapshot::default() }
    }

    #[test]
    fn a_row_that_is_gone_is_forgotten_and_one_that_comes_back_is_new() {
        let mut memory = Memory::default();
        let both = showing(&["a", "b"]);
        memory.adopt(at(1), at(1), &both);
        memory.adopt(at(2), at(2), &showing(&["b"]));
        assert_eq!(memory.rows.keys().map(MemberId::as_str).collect::<Vec<_>>(), ["b"]);
        memory.adopt(at(3), at(3), &both);
        let silent = memory.evidence(at(5), at(5), &both, None).silent;
        let ages: Vec<_> = silent.values().map(Duration::as_secs).collect();
        assert_eq!(ages, [2, 4]);
        // What does not show all rows does not say that one is gone.
        memory.adopt(at(6), at(6), &Snapshot::default());
        assert_eq!(memory.rows.len(), 2);
    }

    #[test]
    fn a_term_and_a_request_whose_records_are_lost_meanwhile_are_new_when_they_are_there_again() {
        let seat = Seat { epoch: Epoch(5), ballot: Ballot(5), ..Seat::default() };
        let control = Control {
            config: ElectionConfig::default(),
            enabled: true,
            request: Some(Epoch(5)),
            heir: None,
            reserved: Ballot(9),
            revision: 1,
        };
        let state = ElectionState { seat: Some(seat), control: Some(control), ..ElectionState::default() };
        let there = Snapshot { state, ..Snapshot::default() };
        let mut memory = Memory::default();
        let ages = |memory: &Memory| {
            let evidence = memory.evidence(at(9), at(9), &there, None);
            [evidence.epoch, evidence.request].map(|age| age.as_secs())
        };
        memory.adopt(at(1), at(1), &there);
        memory.adopt(at(2), at(2), &there);
        assert_eq!(ages(&memory), [8, 8]);
        memory.adopt(at(3), at(3), &Snapshot::default());
        memory.adopt(at(4), at(4), &there);
        assert_eq!(ages(&memory), [5, 5]);
    }
}
