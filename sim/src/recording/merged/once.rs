//! What happens once: a call is answered at most once, and an entry is taken off the membership queue at most once.

use std::collections::BTreeMap;

use callsign::cores::CallId;
use callsign_store::{
    Key,
    ids::{Sequence, SessionId},
};

use super::Breach;
use crate::recording::{
    counts::{Count, RecordingCounts},
    place::{Place, Process},
};

/// Calls and their answers.
#[derive(Clone, Debug, Default)]
pub struct AnsweredCalls {
    calls: BTreeMap<(Process, CallId), Option<Place>>,
    breaches: Vec<Breach>,
}

impl AnsweredCalls {
    /// A client called.
    pub fn call(&mut self, process: &Process, place: &Place, call: CallId) {
        if self.calls.insert((process.clone(), call), None).is_some() {
            self.breaches.push(Breach {
                rule: "a call has a number of its own",
                what: format!("{process} takes {call:?} again at {place}"),
            });
        }
    }

    /// It was answered.
    pub fn answer(&mut self, process: &Process, place: &Place, call: CallId) {
        let what = match self.calls.get_mut(&(process.clone(), call)) {
            Some(answered @ None) => {
                *answered = Some(place.clone());
                return;
            }
            Some(Some(first)) => format!("{process} answers {call:?} at {first} and at {place}"),
            None => format!("{process} answers {call:?}, which nobody made, at {place}"),
        };
        self.breaches.push(Breach { rule: "a call is answered once", what });
    }

    /// Reports it.
    pub fn finish(mut self, counts: &mut RecordingCounts, breaches: &mut Vec<Breach>) {
        counts.add(Count::Answers, self.calls.values().flatten().count() as u64);
        breaches.append(&mut self.breaches);
    }
}

/// Entries of the membership queue.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    taken: BTreeMap<Key, Place>,
    applied: BTreeMap<(SessionId, Sequence), Place>,
    breaches: Vec<Breach>,
}

impl Queue {
    /// A transaction that removes this entry was committed.
    pub fn take(&mut self, place: &Place, key: &Key) {
        if let Some(first) = self.taken.insert(key.clone(), place.clone()) {
            let key = key.escape_ascii();
            self.breaches.push(Breach {
                rule: "an entry is taken off the queue once",
                what: format!("{key} at {first} and at {place}"),
            });
        }
    }

    /// An elector tells that it applied or dropped this entry.
    pub fn apply(&mut self, place: &Place, author: &SessionId, sequence: Sequence) {
        if let Some(first) = self.applied.insert((author.clone(), sequence), place.clone()) {
            self.breaches.push(Breach {
                rule: "an entry is taken off the queue once",
                what: format!("entry {sequence} of {author} at {first} and at {place}"),
            });
        }
    }

    /// Reports it.
    pub fn finish(mut self, counts: &mut RecordingCounts, breaches: &mut Vec<Breach>) {
        counts.add(Count::Entries, self.taken.len() as u64);
        breaches.append(&mut self.breaches);
    }
}
