//! What fuzzing drives: whatever is in the store, nothing panics, and what is said in each function holds.
//!
//! The functions are called by `fuzz/`, and by a test with every file that fuzzing left in `fuzz/corpus/`.
#![allow(missing_docs)] // it is hidden

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::executor::block_on;

use crate::{
    Time,
    election::{
        lease::{
            member::{Ask, Member},
            operation::{self, Operation, Step},
        },
        sink::{ByBallot, ByEpoch, FencedCell, RankedRegister},
        state::{Candidate, Command, Control, Count, Row, Seat},
    },
    elector::{self, Elector, ElectorConfig, ElectorTiming, Notice},
    ids::{ClusterName, ElectionName, Incarnation, MemberId, NodeName, Nonce, RegistryName, SessionId, Tag},
    keys::{ClusterKeys, ElectionKeys, RegistryKeys},
    record::{
        AuthorRecord, Lock, LogEnd, MemberRow, PositionRecord, QueueEntry, Record, SessionRecord, Term,
    },
    session::{self, SessionConfig, SessionTiming},
    store::{
        CommitOutcome, Key, Limits, Proof, Read, ReadResult, SharedStore, StoreError, Transaction, Value,
        memory::MemoryStore, mvcc::Mvcc,
    },
};

/// How often a core is stepped.
const STEPS: usize = 64;

fn node(name: &str) -> NodeName {
    NodeName::new(name).expect("a letter is a name")
}

fn cluster() -> ClusterName {
    ClusterName::new("c").expect("a letter is a name")
}

fn registry() -> RegistryKeys {
    ClusterKeys::new(&cluster()).registry(&RegistryName::new("r").expect("a letter is a name"))
}

fn election() -> ElectionKeys {
    ClusterKeys::new(&cluster()).election(&ElectionName::new("e").expect("a letter is a name"))
}

fn candidate(name: &str) -> MemberId {
    MemberId::new(name).expect("a letter is a name")
}

/// What is read is written so that it is read as the same.
fn reads_back<R: Record + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(record) = R::from_value(bytes) {
        assert_eq!(R::from_value(&record.to_value()).as_ref(), Ok(&record));
    }
}

/// A value, read as what has this number. The key that it is under, or `None` if it is an entry of the queue.
fn place(number: u8, value: &[u8]) -> Option<Key> {
    let (registry, election) = (registry(), election());
    let of = |number: u8| node(["a", "b", "c"][usize::from(number % 3)]);
    Some(match number % 20 {
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
            return None;
        }
        12 => {
            reads_back::<Seat>(value);
            election.seat()
        }
        13 => {
            reads_back::<Control>(value);
            election.control()
        }
        14 => {
            reads_back::<Count>(value);
            election.count()
        }
        number @ 15..=16 => {
            reads_back::<Row>(value);
            election.candidate(&candidate(of(number - 15).as_str()))
        }
        17 => b"cell".to_vec(),
        18 => b"register".to_vec(),
        // A key that may be anything, up to the first zero.
        _ => {
            let key = value.split(|byte| *byte == 0).next().unwrap_or_default();
            let _ = registry.member_node(key);
            let _ = registry.log_position(key);
            let _ = registry.cluster().session_node(key);
            let _ = election.candidate_id(key);
            [&registry.members().start, key].concat()
        }
    })
}

/// What a store holds, in pieces: a byte that says what, two bytes of length, the value. All cores that act on it are run.
pub fn records(mut bytes: &[u8]) {
    let mut store = Mvcc::new(Limits::FOUNDATIONDB, 1000);
    let mut all = Transaction::new();
    for _ in 0..32 {
        let Some((&number, rest)) = bytes.split_first() else { break };
        let Some((length, rest)) = rest.split_first_chunk::<2>() else { break };
        let (value, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
        bytes = rest;
        all = match place(number, value) {
            Some(key) => all.put(key, value.to_vec()),
            None => all.append(registry().queue(), value.to_vec()),
        };
    }
    store.apply(&all);
    run_elector(store.clone());
    run_session(store.clone());
    run_lease(store.clone());
    use_sinks(&store);
}

fn read(store: &Mvcc, reads: &[Read]) -> Result<ReadResult, StoreError> {
    store.read(reads, None).map_err(|_| StoreError::Unavailable("not kept".to_owned()))
}

fn run_elector(mut store: Mvcc) {
    let config = ElectorConfig {
        registry: RegistryName::new("r").expect("a letter is a name"),
        cluster: cluster(),
        node: node("b"),
        address: "b:1".to_owned(),
        priority: 1,
        timing: ElectorTiming::default(),
        seed: 1,
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
                    if let elector::ElectorEvent::Assume { epoch, .. } = &event {
                        inputs.push(elector::Input::Notice(Notice::Assumed { epoch: *epoch }));
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
    let mut core = session::core::Session::new(config).expect("the default times are sound");
    let mut inputs = vec![session::core::Input::Start];
    let (mut now, mut wake) = (Time(Duration::from_secs(1)), None);
    for _ in 0..STEPS {
        let input = inputs.pop().unwrap_or(session::core::Input::Wake);
        if matches!(input, session::core::Input::Wake) {
            now = now.max(wake.take().unwrap_or(now + Duration::from_secs(1)));
        }
        let mut effects = Vec::new();
        core.step(now, input, &mut effects);
        for effect in effects {
            match effect {
                session::core::Effect::Read { id, reads } => {
                    inputs.push(session::core::Input::ReadDone { id, result: read(&store, &reads) });
                }
                session::core::Effect::Commit { id, transaction } => {
                    let outcome = store.apply(&transaction);
                    inputs.push(session::core::Input::CommitDone { id, outcome });
                }
                session::core::Effect::Prove { node, incarnation } => {
                    inputs.push(session::core::Input::Proof { node, incarnation, proof: Proof::None });
                }
                session::core::Effect::Trust { until, .. } => {
                    assert!(until <= now + timing.lease, "trusted beyond its own lease");
                }
                session::core::Effect::WakeAt(at) => wake = Some(at),
                session::core::Effect::Lapse | session::core::Effect::Emit(_) => {}
            }
        }
    }
}

fn run_lease(mut store: Mvcc) {
    let tags = [Tag::new("t").expect("a letter is a name")].into();
    let me = Candidate { member: candidate("b"), incarnation: Incarnation(7), priority: 1, tags };
    let mut now = Time(Duration::from_secs(1));
    let mut member = Member::new(election(), me, true);
    for ask in
        [Ask::Prepare(None), Ask::Claim(Nonce(1)), Ask::Rivals, Ask::Claim(Nonce(2)), Ask::Cycle(Nonce(3))]
    {
        let mut step = member.begin(now, ask);
        for _ in 0..STEPS {
            now = now + Duration::from_secs(3);
            let input = match step {
                Step::Read(reads) => operation::Input::Read(read(&store, &reads)),
                Step::Commit(transaction) => operation::Input::Commit(store.apply(&transaction)),
                Step::Done(_) => break,
            };
            step = member.step(now, input, &mut Vec::new());
        }
    }
    let mut memory = crate::election::lease::Memory::default();
    let mut evict = Operation::new(&election(), vec![Command::Evict { most: 2 }]);
    let mut step = evict.begin(now, &mut memory);
    for _ in 0..STEPS {
        let input = match step {
            Step::Read(reads) => operation::Input::Read(read(&store, &reads)),
            Step::Commit(transaction) => operation::Input::Commit(store.apply(&transaction)),
            Step::Done(_) => break,
        };
        step = evict.step(now, &mut memory, input, &mut Vec::new());
    }
}

fn use_sinks(store: &Mvcc) {
    let memory: SharedStore = Arc::new(MemoryStore::new());
    let mut any = false;
    for key in [&b"cell"[..], b"register"] {
        let value: Option<Value> = store.get(key).map(<[u8]>::to_vec);
        if let Some(value) = value {
            any = true;
            let outcome = block_on(memory.commit(Transaction::new().put(key.to_vec(), value)));
            assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
        }
    }
    if any {
        let _ = block_on(FencedCell::<ByEpoch>::new(memory.clone(), b"cell".to_vec()).read());
        let _ = block_on(RankedRegister::<ByBallot>::new(memory, b"register".to_vec()).value());
    }
}

/// Names, and the URL of a store, which is not opened.
pub fn names(text: &str) {
    if let Ok(name) = NodeName::new(text) {
        assert!(name.as_str() == text && (1..=crate::ids::MAX_NAME).contains(&text.len()));
        let keys = registry();
        assert_eq!(keys.member_node(&keys.member(&name)), Some(name.clone()));
        assert_eq!(keys.cluster().session_node(&keys.cluster().session(&name)), Some(name));
    }
    crate::store::open::parse(text);
}

#[cfg(test)]
mod tests {
    use callsign_golden::corpus;

    #[test]
    fn nothing_in_the_corpus_of_command_lines_panics() {
        corpus("text", |bytes| String::from_utf8_lossy(bytes).lines().for_each(super::names));
    }

    #[test]
    fn nothing_in_the_corpus_of_records_panics() {
        corpus("records", super::records);
    }
}
