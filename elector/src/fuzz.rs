//! What fuzzing drives: whatever is in the store, nothing panics, and what is said in each function holds.
//!
//! The functions are called by `tests/fuzz/`, and by a test with every file that fuzzing left in `tests/fuzz/corpus/`.
#![allow(missing_docs)] // it is hidden

use std::time::Duration;

use callsign_store::{
    Key, Proof, Time, Transaction,
    fuzz::{STEPS, any_key, cluster, holding, node, pieces, read, reads_back, registry},
    ids::{Incarnation, RegistryName, SessionId},
    mvcc::Mvcc,
    record::Record,
};

use crate::{
    core::{
        elector::{self, Elector, ElectorConfig, ElectorTiming, Notice},
        record::{AuthorRecord, Lock, LogEnd, MemberRow, PositionRecord, QueueEntry, SessionRecord, Term},
    },
    session::{self, SessionConfig, SessionTiming},
};

/// Where a value is in the store.
enum Place {
    Key(Key),
    Queue,
    /// It is of an election.
    Elsewhere,
}

/// A value, read as what has this number.
fn place(number: u8, value: &[u8]) -> Place {
    let registry = registry();
    let of = |number: u8| node(["a", "b", "c"][usize::from(number % 3)]);
    Place::Key(match number % 20 {
        0 => {
            reads_back::<Term>(value);
            registry.term()
        }
        1 => {
            reads_back::<Lock>(value);
            registry.lock()
        }
        2 => {
            reads_back::<PositionRecord>(value);
            reads_back::<LogEnd>(value);
            registry.commit()
        }
        3 => registry.floor(),
        4 => {
            reads_back::<AuthorRecord>(value);
            registry.author(&node("b"))
        }
        number @ 5..=7 => {
            reads_back::<MemberRow>(value);
            registry.member(&of(number - 5))
        }
        number @ 8..=10 => {
            reads_back::<SessionRecord>(value);
            registry.cluster().session(&of(number - 8))
        }
        11 => {
            reads_back::<QueueEntry>(value);
            return Place::Queue;
        }
        12..=18 => return Place::Elsewhere,
        // A key that may be anything, up to the first zero.
        _ => {
            let key = value.split(|byte| *byte == 0).next().unwrap_or_default();
            any_key(key);
            [&registry.members().start, key].concat()
        }
    })
}

/// What a store holds: pieces, by number. All cores that act on it are run.
pub fn records(bytes: &[u8]) {
    let mut all = Transaction::new();
    for (number, value) in pieces(bytes) {
        all = match place(number, value) {
            Place::Key(key) => all.put(key, value.to_vec()),
            Place::Queue => all.append(registry().queue(), value.to_vec()),
            Place::Elsewhere => all,
        };
    }
    let store = holding(&all);
    run_elector(store.clone());
    run_session(store);
}

fn run_elector(mut store: Mvcc) {
    let config = ElectorConfig {
        registry: RegistryName::new("r").expect("a letter is a name"),
        cluster: cluster(),
        node: node("b"),
        address: "b:1".to_owned(),
        admin: None,
        priority: 1,
        timing: ElectorTiming::default(),
        seed: 1,
        most_checks: None,
    };
    // The session in the store, if there is one; what is open is trusted.
    let session = store.get(&registry().cluster().session(&node("b"))).map(SessionRecord::from_value);
    let session = session.and_then(Result::ok).filter(|record| record.open).map(|record| SessionId {
        node: node("b"),
        incarnation: record.incarnation,
        number: record.number,
    });
    let mut elector = Elector::new(config);
    let mut inputs = vec![elector::Input::Notice(Notice::Session(session))];
    let (mut now, mut wake) = (Time(Duration::from_secs(1)), None);
    for _ in 0..STEPS {
        let input = inputs.pop().unwrap_or(elector::Input::Wake);
        if matches!(input, elector::Input::Wake) {
            now = now.max(wake.take().unwrap_or(now + Duration::from_secs(1)));
        }
        let mut effects = Vec::new();
        elector.step(now, input, &mut effects);
        for effect in effects {
            match effect {
                elector::Effect::Read { id, reads } => {
                    inputs.push(elector::Input::ReadDone { id, result: read(&store, &reads) });
                }
                elector::Effect::Commit { id, transaction } => {
                    let outcome = store.apply(&transaction);
                    inputs.push(elector::Input::CommitDone { id, outcome });
                }
                elector::Effect::WakeAt(at) => wake = Some(at),
                elector::Effect::Emit(event) => {
                    if let elector::ElectorEvent::RunHandoff { epoch, .. } = &event {
                        inputs.push(elector::Input::Notice(Notice::HandoffDone { epoch: *epoch }));
                    }
                    let _ = format!("{event:?}");
                }
                elector::Effect::Watch { .. } => {}
            }
        }
    }
}

fn run_session(mut store: Mvcc) {
    let timing = SessionTiming::for_lease(Duration::from_secs(10));
    let config =
        SessionConfig { cluster: cluster(), node: node("b"), incarnation: Incarnation(7), timing, seed: 1 };
    let mut core = session::Session::new(config).expect("the default times are sound");
    let mut inputs = vec![session::Input::Start];
    let (mut now, mut wake) = (Time(Duration::from_secs(1)), None);
    for _ in 0..STEPS {
        let input = inputs.pop().unwrap_or(session::Input::Wake);
        if matches!(input, session::Input::Wake) {
            now = now.max(wake.take().unwrap_or(now + Duration::from_secs(1)));
        }
        let mut effects = Vec::new();
        core.step(now, input, &mut effects);
        for effect in effects {
            match effect {
                session::Effect::Read { id, reads } => {
                    inputs.push(session::Input::ReadDone { id, result: read(&store, &reads) });
                }
                session::Effect::Commit { id, transaction } => {
                    let outcome = store.apply(&transaction);
                    inputs.push(session::Input::CommitDone { id, outcome });
                }
                session::Effect::Prove { node, incarnation } => {
                    inputs.push(session::Input::Proof { node, incarnation, proof: Proof::None });
                }
                session::Effect::Trust { until, .. } => {
                    assert!(until <= now + timing.lease, "trusted beyond its own lease");
                }
                session::Effect::WakeAt(at) => wake = Some(at),
                session::Effect::Lapse | session::Effect::Emit(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use callsign_golden::corpus;

    #[test]
    fn nothing_in_the_corpus_of_records_panics() {
        corpus("records", super::records);
    }
}
