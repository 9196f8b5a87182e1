//! What one round of reads showed, and the transaction that changes it.

use std::collections::{BTreeMap, BTreeSet};

use callsign_store::{
    Key, ReadResult, Transaction, Value, Version,
    ids::MemberId,
    keys::ElectionKeys,
    record::{CorruptRecord, Record},
};

use crate::core::state::{Control, Count, ElectionState, Row, Seat};

/// A record that cannot be read, and which.
pub(super) type Corrupt = (&'static str, CorruptRecord);

/// What one round of reads showed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Snapshot {
    /// The version of the first read.
    pub(super) version: Version,
    pub(super) state: ElectionState,
    /// The values as they were, by which a change is noticed.
    pub(super) seat: Option<Value>,
    pub(super) control: Option<Value>,
    pub(super) count: Option<Value>,
    pub(super) rows: BTreeMap<MemberId, Value>,
    /// Whether `rows` are all there are.
    pub(super) all: bool,
}

impl Snapshot {
    /// Takes the first read: the seat, the control record, the row of `own`, the count if somebody joins. Says at which
    /// index the rows of others begin.
    pub(super) fn first(
        result: &ReadResult,
        own: Option<&MemberId>,
        joins: bool,
        all: bool,
    ) -> Result<(Self, usize), Corrupt> {
        let mut index = 0;
        let mut next = || {
            index += 1;
            result.value(index - 1).cloned()
        };
        let (seat, control) = (next(), next());
        let own = own.and_then(|member| Some((member.clone(), next()?)));
        let count = if joins { next() } else { None };
        let mut state = ElectionState {
            seat: decode::<Seat>("seat", seat.as_ref())?,
            control: decode::<Control>("control", control.as_ref())?,
            count: decode::<Count>("count", count.as_ref())?.unwrap_or_default(),
            ..ElectionState::default()
        };
        if let Some((member, value)) = &own {
            let row = Row::from_value(value).map_err(|why| ("candidate", why))?;
            state.candidates.insert(member.clone(), row);
        }
        let (version, rows) = (result.version, own.into_iter().collect());
        Ok((Self { version, state, seat, control, count, rows, all }, index))
    }

    /// Adds the rows of others. The own one was read with the seat, at one version.
    pub(super) fn add(
        &mut self,
        keys: &ElectionKeys,
        entries: &[(Key, Value)],
        own: Option<&MemberId>,
    ) -> Result<(), Corrupt> {
        for (key, value) in entries {
            let member = keys.candidate_id(key);
            let member = member.ok_or(("candidate", CorruptRecord::Malformed("its key".to_owned())))?;
            if own == Some(&member) {
                continue;
            }
            let row = Row::from_value(value).map_err(|why| ("candidate", why))?;
            self.rows.insert(member.clone(), value.clone());
            self.state.candidates.insert(member, row);
        }
        Ok(())
    }

    /// What has to be written, fenced by all that it was decided from. `on_seat`: also by the seat, if only candidates change.
    pub(super) fn transaction(
        &self,
        keys: &ElectionKeys,
        own: Option<&MemberId>,
        on_seat: bool,
        after: &ElectionState,
    ) -> Transaction {
        let Self { version, state: before, .. } = self;
        let mut t = Transaction::new();
        let seats = before.seat != after.seat;
        let controls = before.control != after.control;
        let changed: BTreeSet<&MemberId> = before
            .candidates
            .keys()
            .chain(after.candidates.keys())
            .filter(|member| before.candidates.get(*member) != after.candidates.get(*member))
            .collect();
        if !seats && !controls && changed.is_empty() {
            return t;
        }
        t = t.fence(keys.control(), self.control.clone(), *version);
        // A heartbeat does not depend on who leads: it would collide with each refresh.
        if seats || controls || on_seat {
            t = t.fence(keys.seat(), self.seat.clone(), *version);
        }
        if let Some(own) = own {
            t = t.fence(keys.candidate(own), self.rows.get(own).cloned(), *version);
        }
        for member in changed {
            let key = keys.candidate(member);
            if Some(member) != own {
                t = t.check(key.clone(), self.rows.get(member).cloned());
            }
            t = match after.candidates.get(member) {
                Some(row) => t.put(key, row.to_value()),
                None => t.clear(key),
            };
        }
        if let Some(control) = after.control.as_ref().filter(|_| controls) {
            t = t.put(keys.control(), control.to_value());
        }
        if let Some(seat) = after.seat.as_ref().filter(|_| seats) {
            t = t.put(keys.seat(), seat.to_value());
        }
        if before.count != after.count {
            t = t.fence(keys.count(), self.count.clone(), *version);
            t = t.put(keys.count(), after.count.to_value());
        }
        t
    }
}

fn decode<T: Record>(what: &'static str, value: Option<&Vec<u8>>) -> Result<Option<T>, Corrupt> {
    value.map(|value| T::from_value(value).map_err(|why| (what, why))).transpose()
}
